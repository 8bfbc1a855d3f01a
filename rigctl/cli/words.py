"""Numbers and absences of the snapshot's JSON in words, and talk on stderr in any locale."""

from __future__ import annotations

import os
import sys
import time

from rigctl.core.harmless import harmless_painted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    Value = float | dict[str, Any]
    """A Reading as it stands in JSON: a number, or `{"why": …, "note": …}`."""

ABSENT = "--"

_ASCII = str.maketrans(
    {
        "·": "-",
        "–": "-",
        "—": "-",
        "→": "->",
        "≥": ">=",
        "≤": "<=",
        "°": "",
        "€": "EUR",
        "…": "...",
        "×": "x",
        "“": '"',
        "”": '"',
        "‘": "'",
        "’": "'",
        "█": "#",
        "░": ".",
        "▲": "!",
        "●": "*",
        "○": "o",
        "✓": "ok",
        "≈": "~",
    }
)


def speaks_utf8(stream: TextIO) -> bool:
    """Whether the reader of this stream can be given more than ASCII.

    Python itself writes UTF-8 under LANG=C, whatever the terminal is, and sets LC_CTYPE=C.UTF-8 in
    our environment while it does (PEP 538): that value beside a bare LANG is not the person's.
    """
    if (getattr(stream, "encoding", None) or "").lower().replace("-", "") != "utf8":
        return False
    if os.environ.get("PYTHONUTF8") == "1" or os.environ.get("PYTHONIOENCODING"):
        return True
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or ""
    if locale in ("", "C.UTF-8"):
        locale = os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    return locale.lower().replace("-", "").endswith("utf8") or "utf8@" in locale.lower()


def plain(text: str, utf8: bool) -> str:
    """The text, in ASCII where the reader knows no more; our colours are its only orders."""
    text = harmless_painted(text)
    if utf8:
        return text
    return text.translate(_ASCII).encode("ascii", "replace").decode()


def say(text: str) -> None:
    """Talk to the person: stderr, whole lines, never an encoding error, never a broken pipe."""
    try:
        print(plain(text, speaks_utf8(sys.stderr)), file=sys.stderr, flush=True)
    except OSError:
        pass  # the terminal is gone: what was asked for goes on, only the talk ends


def show(text: str) -> None:
    """Data for the person on stdout."""
    print(plain(text, speaks_utf8(sys.stdout)))


def raw(line: bytes) -> None:
    """One line of JSON on stdout as it came: UTF-8 in any locale."""
    sys.stdout.flush()
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def number(value: Value) -> float | None:
    """The number, or None where the reading is absent."""
    return None if isinstance(value, dict) else value


def why(value: Value) -> str:
    """Why it is absent, as the daemon said it; empty for a number."""
    if not isinstance(value, dict):
        return ""
    note = value.get("note")
    return f"{value.get('why', '')} ({note})" if note else str(value.get("why", ""))


def count(value: Value) -> str:
    """A whole number, or `--`."""
    return ABSENT if isinstance(value, dict) else f"{value:.0f}"


def tokens(value: Value) -> str:
    """`950`, `9.5k`, `434k`, `1.45M`."""
    if isinstance(value, dict):
        return ABSENT
    if value < 1000:
        return f"{value:.0f}"
    if value < 9950:
        return f"{value / 1000:.1f}k"
    if value < 999_500:
        return f"{value / 1000:.0f}k"
    return f"{value / 1e6:.2f}M"


def percent(value: Value) -> str:
    """A share 0..1 as `90 %`."""
    return ABSENT if isinstance(value, dict) else f"{100 * value:.0f} %"


def gib(value: Value) -> str:
    """Bytes as `94.9 GiB`."""
    return ABSENT if isinstance(value, dict) else f"{value / 2**30:.1f} GiB"


def span(value: Value) -> str:
    """Seconds as `7.9 s`, `41 s`, `12 min`, `1h12`, `3d 04h`."""
    if isinstance(value, dict):
        return ABSENT
    if value < 9.95:
        return f"{value:.1f} s"
    if value < 119.5:
        return f"{value:.0f} s"
    minutes = round(value / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60}h{minutes % 60:02d}"
    hours = round(value / 3600)
    return f"{hours // 24}d {hours % 24:02d}h"


def total(parts: dict[str, Any], unit: str, of: str) -> str:
    """A sum: `412 W`, or as a lower bound `≥ 410 W (4 of 8 cards)`, or `--`."""
    if not parts["counted"]:
        return ABSENT
    value = f"{parts['value']:.0f} {unit}"
    if parts["counted"] == parts["of"]:
        return value
    return f"≥ {value} ({parts['counted']} of {parts['of']} {of})"


def clock(wall: float, now: float) -> str:
    """A moment as `19:02`, with the day where it is not today's."""
    then, today = time.localtime(wall), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%a %d %b %H:%M", then)


def plural(number: float, one: str, many: str = "") -> str:
    """`1 answer`, `3 answers`."""
    return f"{number:.0f} {one if number == 1 else many or one + 's'}"
