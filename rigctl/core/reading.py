"""A number the rig gave us, or why it did not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Why(Enum):
    """The reason a figure is absent; the value is the word a person reads."""

    UNSUPPORTED = "not reported by this card or version"
    LOST = "the card has fallen off the bus"
    STALE = "no fresh sample"
    FAILED = "the call failed"
    IMPLAUSIBLE = "the value cannot be true"
    NOT_YET = "not sampled yet"
    OFF = "nothing runs that could report it"


@dataclass(frozen=True, slots=True)
class Missing:
    """Absent is a value with a reason; it is never written as 0, -1 or None."""

    why: Why
    note: str = ""
    """What the source said, where it said anything: an NVML error, an HTTP status."""


Reading = float | Missing
"""A measured number in the unit its field names, or why there is none."""

NOT_YET = Missing(Why.NOT_YET)
OFF = Missing(Why.OFF)
UNSUPPORTED = Missing(Why.UNSUPPORTED)


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over parts of which some may be missing: `>= 410 W (4 of 8 cards)` (C78)."""

    value: float
    counted: int
    """How many parts had a reading."""
    of: int
    """How many parts there are."""

    @property
    def complete(self) -> bool:
        """Whether every part was counted; if not, the value is a lower bound."""
        return self.counted == self.of


def total(readings: Iterable[Reading]) -> Total:
    """Add what is there and remember what is not."""
    parts = tuple(readings)
    known = [part for part in parts if not isinstance(part, Missing)]
    return Total(sum(known), len(known), len(parts))


def known(reading: Reading, otherwise: float) -> float:
    """The reading, or a stated stand-in: for arithmetic whose caller says what it assumes."""
    return otherwise if isinstance(reading, Missing) else reading


def difference(later: Reading, earlier: Reading) -> Reading:
    """What a counter gained; a missing side or a reset (the value fell) gives Missing."""
    if isinstance(later, Missing):
        return later
    if isinstance(earlier, Missing):
        return earlier
    if later < earlier:
        return Missing(Why.STALE, "counter was reset")
    return later - earlier
