"""Idle but hot: cards that draw power with nothing to do, and what likely keeps them awake."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from rigctl.core.cards import CardSample
from rigctl.core.ids import Mono
from rigctl.core.power import watts
from rigctl.core.reading import Missing, Reading, Total, Why, known

PATIENCE = 60.0
"""Seconds without a request before warm cards are odd: a card needs some to settle."""
HOT_PSTATE = 2
"""P0 to P2 are working clocks."""
HOT_SHARE = 0.2
"""Of the default limit; a resting card draws under a tenth, one held awake over a third."""
SPINNING = 0.5
"""Of a core: a scheduler that waits for work sleeps, one that polls for it takes a whole core."""
OWN_POLLING = 5.0
"""Seconds between sweeps under which our own questions may keep a card awake (C82)."""

Cause = Literal["foreign", "spinning", "awake", "polling", "unknown"]


@dataclass(frozen=True, slots=True)
class HeatFacts:
    """What is known about one group's cards and engine at one moment."""

    group: str
    cards: tuple[CardSample, ...]
    requests: Reading
    """Open, running and queued together; `OFF` while no engine runs."""
    scheduler_cpu: Reading
    """Share of one core that the busiest scheduler used."""
    sleep_on_idle: bool | None
    """As the running engine has it; None when none runs."""
    foreign: tuple[str, ...] = ()
    """Processes on these cards that are not the group's own, as a person would name them."""
    poll_seconds: float = 10.0
    """How often the cards were asked lately."""
    polling: str = ""
    """What asking them often costs, once that was measured (C82)."""


@dataclass(frozen=True, slots=True)
class Heat:
    """Since when a group has been idle, and idle and hot."""

    idle_since: Mono | None = None
    hot_since: Mono | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Idle but hot, with the likely cause and the next step in `say`."""

    cause: Cause
    watts: Total
    idle_seconds: float
    say: str


def step(heat: Heat, facts: HeatFacts, now: Mono) -> tuple[Heat, Verdict | None]:
    """Take in one sweep of a group that is not lent; the verdict while it holds."""
    if not _idle(facts.requests):
        return Heat(), None
    idle_since = now if heat.idle_since is None else heat.idle_since
    hot = tuple(card for card in facts.cards if is_hot(card))
    if not hot:
        return Heat(idle_since), None
    hot_since = now if heat.hot_since is None else heat.hot_since
    heat = replace(heat, idle_since=idle_since, hot_since=hot_since)
    if now - hot_since < PATIENCE:
        return heat, None
    return heat, _verdict(facts, hot, now - idle_since)


def is_hot(card: CardSample) -> bool:
    """Whether a card has working clocks or draws more than a resting one can."""
    if not isinstance(card.pstate, Missing) and card.pstate <= HOT_PSTATE:
        return True
    if isinstance(card.watts, Missing) or isinstance(card.default_limit_watts, Missing):
        return False
    return card.watts > HOT_SHARE * card.default_limit_watts


def _idle(requests: Reading) -> bool:
    """An engine that does not answer is not called idle; one that is off has no requests."""
    if isinstance(requests, Missing):
        return requests.why is Why.OFF
    return requests == 0


def _verdict(facts: HeatFacts, hot: tuple[CardSample, ...], idle: float) -> Verdict:
    drawn = watts(hot)
    cause, why = _cause(facts)
    least = "" if drawn.complete else "at least "
    count = "1 card" if len(hot) == 1 else f"{len(hot)} cards"
    say = (
        f"idle but hot: {least}{drawn.value:.0f} W on {count}, no request for {_span(idle)} - {why}"
    )
    return Verdict(cause, drawn, idle, say)


def _cause(facts: HeatFacts) -> tuple[Cause, str]:
    cpu = known(facts.scheduler_cpu, 0.0)
    if facts.foreign:
        return "foreign", f"{', '.join(facts.foreign)} works on them"
    if cpu >= SPINNING:
        spins = f"its scheduler spins ({cpu:.0%} of a core)"
        if facts.sleep_on_idle:
            return "spinning", f"{spins} though sleep-on-idle is on: `rigctl logs {facts.group}`"
        return "spinning", f"{spins}: `rigctl sleep {facts.group} on`"
    if facts.sleep_on_idle is False and isinstance(facts.scheduler_cpu, Missing):
        return "awake", f"sleep-on-idle is off: `rigctl sleep {facts.group} on`"
    if facts.poll_seconds < OWN_POLLING:
        compare = facts.polling or "close the panel for a minute and compare"
        return "polling", f"perhaps rigctl's own sampling: {compare}"
    return "unknown", "see `nvidia-smi` for what holds them"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
