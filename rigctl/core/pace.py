"""How often the cards and engines are asked: often enough to be seen, seldom enough to sleep."""

from __future__ import annotations

from dataclasses import dataclass, replace

VERIFYING = 0.2
"""Seconds between looks while somebody waits for cards to become free."""
LIVE = 1.0
"""While a client looks or work runs."""
QUIET = 10.0
"""While neither."""
ASLEEP = 30.0
"""After `LONG_IDLE` of neither."""
LONG_IDLE = 300.0

NOTABLE = 20.0
"""Watts over the whole rig that are worth a word."""

ENOUGH = 5
"""Idle sweeps of one kind before their mean says something."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How to ask next."""

    cards: float
    """Seconds between two NVML sweeps."""
    engines: float
    """Seconds between two polls of an engine; each costs it some milliseconds."""
    cheap: bool
    """Leave out the questions that themselves wake an idle card (C82)."""


def pace(*, clients: int, working: bool, verifying: bool, idle_seconds: float) -> Pace:
    """The pace for what goes on.

    `working`: any request, start, stop, or foreign or lent work on the cards. `verifying`: a
    command waits for cards to become free. `idle_seconds`: since any of this, or a client.
    """
    if verifying:
        return Pace(VERIFYING, LIVE, cheap=True)
    if working or clients:
        return Pace(LIVE, LIVE, cheap=not working)
    if idle_seconds < LONG_IDLE:
        return Pace(QUIET, QUIET, cheap=True)
    # The engines stay at the quicker pace: asking them wakes no card, and shows new work.
    return Pace(ASLEEP, QUIET, cheap=True)


@dataclass(frozen=True, slots=True)
class PollingCost:
    """Mean idle watts of the rig while it is asked often and while it is left alone."""

    often: float = 0.0
    often_count: int = 0
    seldom: float = 0.0
    seldom_count: int = 0


def observe(cost: PollingCost, watts: float, interval: float) -> PollingCost:
    """Take in the rig's watts at an idle sweep that came `interval` seconds after the last."""
    if interval <= 2 * LIVE:
        count = cost.often_count + 1
        return replace(cost, often=cost.often + (watts - cost.often) / count, often_count=count)
    if interval >= QUIET * 0.9:
        count = cost.seldom_count + 1
        return replace(cost, seldom=cost.seldom + (watts - cost.seldom) / count, seldom_count=count)
    return cost


def costs_watts(cost: PollingCost) -> bool:
    """Whether asking often is known to keep cards awake."""
    measured = min(cost.often_count, cost.seldom_count) >= ENOUGH
    return measured and cost.often - cost.seldom >= NOTABLE


def say_polling_cost(cost: PollingCost) -> str:
    """`64 W left alone, 216 W when asked every second`; empty while too little is known."""
    if min(cost.often_count, cost.seldom_count) < ENOUGH:
        return ""
    return f"{cost.seldom:.0f} W left alone, {cost.often:.0f} W when asked every second"
