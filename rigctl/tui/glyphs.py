"""The signs the panel draws with: one set for UTF-8 terminals, one for the rest (C98)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Every sign is one cell wide; `ramp` goes from low to high."""

    ready: str
    busy: str
    open_ring: str
    failed: str
    warning: str
    lost: str
    done: str
    now: str
    marker: str
    full: str
    cached: str
    half: str
    track: str
    slot_used: str
    slot_free: str
    ramp: str
    rule: str
    corners: str
    """Top left, top right, bottom left, bottom right."""
    side: str
    dot: str
    dash: str
    ellipsis: str
    degree: str
    held_down: str
    arrow: str
    quotes: str
    """Opening and closing."""
    ascii: bool = False


UNICODE = Glyphs(
    ready="●",
    busy="◐",
    open_ring="○",
    failed="✗",
    warning="▲",
    lost="✗",
    done="✓",
    now="▸",
    marker="▸",
    full="━",
    cached="╍",
    half="╸",
    track="─",
    slot_used="●",
    slot_free="○",
    ramp="▁▂▃▄▅▆▇█",
    rule="─",
    corners="╭╮╰╯",
    side="│",
    dot="·",
    dash="–",
    ellipsis="…",
    degree="°C",
    held_down="↓",
    arrow="→",
    quotes="“”",
)

ASCII = Glyphs(
    ready="*",
    busy="~",
    open_ring="o",
    failed="x",
    warning="!",
    lost="x",
    done="+",
    now=">",
    marker=">",
    full="#",
    cached="=",
    half="#",
    track=".",
    slot_used="#",
    slot_free=".",
    ramp="_.:-=+*#",
    rule="-",
    corners="++++",
    side="|",
    dot="-",
    dash="-",
    ellipsis="~",
    degree="C",
    held_down="v",
    arrow=">",
    quotes='""',
    ascii=True,
)

_TRANSLATION = str.maketrans(
    {
        "–": "-",
        "—": "-",
        "·": "-",
        "…": "~",
        "“": '"',
        "”": '"',
        "„": '"',
        "‘": "'",
        "’": "'",
        "×": "x",
        "°": " ",
        "→": ">",
        "←": "<",
        "↑": "^",
        "↓": "v",
        "≥": ">",
        "≤": "<",
        "≈": "~",
        "−": "-",
        "€": "E",
        "£": "L",
        "\u00a0": " ",
        "│": "|",
        "─": "-",
        "━": "#",
        "╍": "=",
        "╸": "#",
        "●": "*",
        "○": "o",
    }
)


def utf8_locale(environ: Mapping[str, str]) -> bool:
    """Whether the terminal's locale is UTF-8, by the first of the three variables that is set.

    RIGCTL_ASCII=1 or 0 decides by itself. Python coerces the C locale by setting LC_CTYPE in
    its own environment; such a value says nothing about the terminal, so LANG is asked then.
    """
    wish = environ.get("RIGCTL_ASCII", "")
    if wish:
        return wish == "0"
    candidates = [environ.get("LC_ALL", ""), environ.get("LC_CTYPE", ""), environ.get("LANG", "")]
    if candidates[1] in {"C.UTF-8", "C.utf8", "UTF-8"} and not candidates[0]:
        candidates[1] = ""
        if not candidates[2] and environ.get("LC_CTYPE"):
            candidates[2] = "C"
    locale = next((value for value in candidates if value), "C")
    encoding = locale.partition(".")[2].partition("@")[0].lower().replace("-", "")
    return encoding == "utf8"


def choose(environ: Mapping[str, str]) -> Glyphs:
    """The set for this terminal; asked once, when the panel opens.

    The Linux console has 256 or 512 glyphs and lacks most of ours, whatever the locale.
    """
    if environ.get("TERM") == "linux" and not environ.get("RIGCTL_ASCII"):
        return ASCII
    return UNICODE if utf8_locale(environ) else ASCII


def to_ascii(text: str) -> str:
    """The same text in ASCII, cell for cell, so that no layout moves."""
    if text.isascii():
        return text
    return text.translate(_TRANSLATION).encode("ascii", "replace").decode("ascii")
