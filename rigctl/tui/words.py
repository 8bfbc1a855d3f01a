"""Readings as people read them: units, durations, money, and why a figure is absent."""

from __future__ import annotations

import time

from rigctl.core.reading import Missing, Reading, Total
from rigctl.tui.glyphs import UNICODE, Glyphs

ABSENT = "--"
"""What stands where a figure would: never 0, never blank."""

_GIB = 1024.0**3
_SIGNS = {"EUR": "€", "USD": "$", "GBP": "£", "CHF": "CHF"}


def duration(seconds: float) -> str:
    """Two units at most: `41 s`, `12 min`, `1h 12m`, `3d 04h`; seconds up to five minutes."""
    seconds = max(0.0, seconds)
    if seconds < 9.95 and seconds != int(seconds):
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 300:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02d}h"


def age(seconds: float) -> str:
    """How long something has lasted: seconds in the first minute, then `3 min`, `3d 04h`."""
    if seconds < 60:
        return duration(round(seconds))
    return duration(max(300.0, seconds)) if seconds >= 300 else f"{seconds // 60:.0f} min"


def brief(reading: Reading) -> str:
    """A length of time in six cells at most, for columns: `0.4 s`, `41 s`, `12 min`, `14 h`."""
    if isinstance(reading, Missing):
        return ABSENT
    text = duration(reading)
    if len(text) <= 6:
        return text
    hours = round(reading / 3600)
    return f"{hours} h" if hours < 1000 else f"{hours // 24} d"


def whole_seconds(reading: Reading) -> str:
    """`74 s`, rounded; durations over five minutes in minutes."""
    return ABSENT if isinstance(reading, Missing) else duration(round(reading))


def tokens(reading: Reading) -> str:
    """`950`, `46k`, `1.45M`."""
    if isinstance(reading, Missing):
        return ABSENT
    if reading < 999.5:
        return f"{reading:.0f}"
    if reading < 999_500:
        thousands = reading / 1000
        return f"{thousands:.1f}k" if thousands < 9.95 else f"{thousands:.0f}k"
    return f"{reading / 1e6:.2f}M"


def number(reading: Reading, digits: int = 0) -> str:
    """A plain number with that many decimals."""
    return ABSENT if isinstance(reading, Missing) else f"{reading:.{digits}f}"


def percent(reading: Reading) -> str:
    """A reading that is already in percent."""
    return ABSENT if isinstance(reading, Missing) else f"{reading:.0f} %"


def share(reading: Reading) -> str:
    """A share 0..1 as percent; over one is printed as it is."""
    return ABSENT if isinstance(reading, Missing) else f"{reading * 100:.0f} %"


def gib(reading: Reading) -> str:
    """Bytes as GiB with one decimal, no unit."""
    return ABSENT if isinstance(reading, Missing) else f"{reading / _GIB:.1f}"


def gib_whole(reading: Reading) -> str:
    """Bytes as whole GiB, no unit: sizes that people know by heart (24)."""
    return ABSENT if isinstance(reading, Missing) else f"{reading / _GIB:.0f}"


def per_second(reading: Reading) -> str:
    """Bytes a second, in the unit that keeps three digits."""
    if isinstance(reading, Missing):
        return ABSENT
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if reading >= size:
            return f"{reading / size:.1f} {unit}"
    return f"{reading:.0f} B/s"


def at_least(total: Total, text: str, noun: str = "") -> str:
    """`410 W`, or `>= 410 W (4 of 8 cards)` where parts are missing, or `--` with none (C78)."""
    if total.of and not total.counted:
        return ABSENT
    if total.complete:
        return text
    return f">= {text} ({total.counted} of {total.of}{' ' + noun if noun else ''})"


def watts(total: Total, noun: str = "") -> str:
    """A sum of watts, honest about what it lacks."""
    return at_least(total, f"{total.value:.0f} W", noun)


def money(reading: Reading, currency: str, glyphs: Glyphs = UNICODE) -> str:
    """`1.53 €`; the code instead of the sign where the terminal has no UTF-8."""
    if isinstance(reading, Missing):
        return ABSENT
    sign = currency if glyphs.ascii else _SIGNS.get(currency, currency)
    return f"{reading:.2f} {sign}"


def why(missing: Missing) -> str:
    """The reason in words, with what the source said."""
    note = f": {missing.note}" if missing.note else ""
    return f"{missing.why.value}{note}"


def explained(reading: Reading, text: str) -> str:
    """The text, or `--` followed by the reason: for detail views, where there is room."""
    return f"{ABSENT}  ({why(reading)})" if isinstance(reading, Missing) else text


def clock(wall: float) -> str:
    """Local time in minutes: the panel's clock does not tick."""
    return time.strftime("%H:%M", time.localtime(wall))


def clock_seconds(wall: float) -> str:
    """Local time in seconds, for events."""
    return time.strftime("%H:%M:%S", time.localtime(wall))


def day_clock(wall: float, now: float) -> str:
    """`19:02`, with the day where it is not today's: `Fri 19:02`."""
    then, today = time.localtime(wall), time.localtime(now)
    same = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if same else "%a %H:%M", then)


def window(size: int) -> str:
    """A context length as people name it: 262144 is `262k`, 524288 is `524k`."""
    return tokens(float(size)) if size else ""


def ranges(numbers: list[int], glyphs: Glyphs = UNICODE) -> str:
    """`4–7`, `0 2–3`: card indexes in few characters."""
    parts: list[str] = []
    ordered = sorted(set(numbers))
    start = 0
    while start < len(ordered):
        end = start
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        first, last = ordered[start], ordered[end]
        if end - start >= 2:
            parts.append(f"{first}{glyphs.dash}{last}")
        else:
            parts.extend(str(value) for value in ordered[start : end + 1])
        start = end + 1
    return " ".join(parts)


def plural(count: float, one: str, many: str = "") -> str:
    """`1 answer`, `3 answers`."""
    return f"{count:.0f} {one if round(count) == 1 else many or one + 's'}"


def card_name(name: str) -> str:
    """`NVIDIA GeForce RTX 3090` as people call it: `3090`; the last two words otherwise."""
    words = name.replace("NVIDIA", "").replace("GeForce", "").replace("RTX", "").split()
    return " ".join(words[-2:]) if words else "?"


def day(wall: float) -> str:
    """`Fri 27 Nov 2026`, for headings."""
    return time.strftime("%a %d %b %Y", time.localtime(wall))
