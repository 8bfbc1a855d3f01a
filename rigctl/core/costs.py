"""What waiting and moving cost, in seconds: the two numbers that decide whether a session stays."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.clusters import Cluster, RoutePolicy
from rigctl.core.reading import Missing, known

SLOWEST = 1.0
"""Prompt tokens a second; a rate below it is no rate of an engine that reads."""


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds, and whether they rest on measurements of this very cluster."""

    seconds: float
    measured: bool

    @property
    def say(self) -> str:
        """`about 40 s`, or `about 40 s (assumed)` where nothing has been measured yet."""
        figure = f"about {self.seconds:,.0f} s" if self.seconds >= 1 else "under 1 s"
        return figure if self.measured else f"{figure} (assumed)"


def prefill_rate(cluster: Cluster, policy: RoutePolicy) -> tuple[float, bool]:
    """Prompt tokens a second there, and whether that was measured there."""
    rate = cluster.prefill_rate
    if isinstance(rate, Missing) or rate < SLOWEST:
        return max(policy.prefill_prior, SLOWEST), False
    return rate, True


def reading_left(cluster: Cluster, policy: RoutePolicy) -> Price:
    """Until the prompts that are being read there are done: no answer goes on before that."""
    left = known(cluster.prefill_left, 0.0)
    if left <= 0:
        return Price(0.0, True)
    rate, measured = prefill_rate(cluster, policy)
    return Price(left / rate, measured)


def expected_wait(cluster: Cluster, place: int, policy: RoutePolicy) -> Price:
    """Until a slot is free there for one that has `place` others before it.

    Slots come free at the pace of answers; none comes free while a prompt is read. A free slot is
    no wait, although its first token may be one.
    """
    ahead = place + 1 - cluster.free_slots
    if ahead <= 0:
        return Price(0.0, True)
    measured = not isinstance(cluster.answer_seconds, Missing)
    answer = known(cluster.answer_seconds, policy.answer_prior)
    reading = reading_left(cluster, policy)
    seconds = reading.seconds + answer * ahead / max(1, cluster.slots)
    return Price(seconds, measured and reading.measured)


def cold_price(tokens: int, cluster: Cluster, policy: RoutePolicy) -> Price:
    """Reading `tokens` of prompt on that cluster, which has none of them cached: what leaving a
    home costs. A prompt that is already being read there is read first."""
    reading = reading_left(cluster, policy)
    rate, measured = prefill_rate(cluster, policy)
    return Price(reading.seconds + max(0, tokens) / rate, measured)
