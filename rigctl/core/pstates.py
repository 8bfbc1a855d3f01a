"""How the day's time was spread over the P-states of a card, by sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rigctl.core.ids import Mono
from rigctl.core.reading import Missing, Reading

LONGEST = 60.0
"""Seconds that one sample may speak for; more is a gap in which nobody looked."""


@dataclass(frozen=True, slots=True)
class PstateTimes:
    """Seconds seen in each P-state since midnight, for one card. Goes through JSON."""

    day: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """`{"P8": 81234.0, "P2": 5166.0}`."""
    at: float | None = None
    """When the last sample was taken."""


def add(times: PstateTimes, pstate: Reading, day: str, now: Mono) -> PstateTimes:
    """Count the time since the last sample for the state seen now; a new day starts at nothing."""
    seconds = dict(times.seconds) if times.day == day else {}
    gap = 0.0 if times.at is None else now - times.at
    if not isinstance(pstate, Missing) and 0 < gap <= LONGEST:
        name = f"P{pstate:.0f}"
        seconds[name] = seconds.get(name, 0.0) + gap
    return PstateTimes(day, seconds, now)


def shares(times: PstateTimes) -> dict[str, float]:
    """Share 0..1 of the seen time by state, full clocks first; empty before anything was seen."""
    everything = sum(times.seconds.values())
    if not everything:
        return {}
    ordered = sorted(times.seconds.items(), key=lambda item: int(item[0][1:]))
    return {name: seconds / everything for name, seconds in ordered}
