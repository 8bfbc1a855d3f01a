"""How long a prefill chunk takes on this engine, learnt from the chunks it has finished.

A chunk costs more the further into the prompt it lies: seconds per token = a + b x position.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

_POINTS = 24
"""Chunks remembered: enough to outvote a stray one, few enough to follow a change of clocks."""


@dataclass(frozen=True, slots=True)
class ChunkCosts:
    """What past chunks cost; a value, so that a restart of the engine can keep it."""

    points: tuple[tuple[float, float], ...] = ()
    """(middle of the measured chunks in their prompt, seconds a token), oldest first."""
    tokens: float = 0.0
    """Tokens in a full chunk: as configured, else the most ever seen at once."""
    base: float = 0.0
    """Seconds a token at the head of a prompt."""
    slope: float = 0.0
    """Seconds a token, for each token of position."""

    @property
    def count(self) -> int:
        """Measurements taken."""
        return len(self.points)

    def seconds_per_token(self, position: float) -> float:
        """The price of one token at that place in its prompt."""
        return self.base + self.slope * position

    def span(self, start: float, tokens: float) -> float:
        """Seconds to read that many tokens from there on."""
        return tokens * self.seconds_per_token(start + tokens / 2)

    def next_chunk(self, start: float) -> float:
        """Seconds a full chunk takes that begins there."""
        return self.span(start, self.tokens)


def sized(costs: ChunkCosts, tokens: float) -> ChunkCosts:
    """With the size of a full chunk as the engine was configured."""
    return costs if costs.tokens == tokens else replace(costs, tokens=tokens)


def finished(costs: ChunkCosts, start: float, tokens: float, seconds: float) -> ChunkCosts:
    """One measurement more: these tokens from that position on took that long."""
    points = (*costs.points, (start + tokens / 2, seconds / tokens))[-_POINTS:]
    base, slope = _line(points, costs.tokens)
    return replace(costs, points=points, base=base, slope=slope)


def _line(points: tuple[tuple[float, float], ...], chunk: float) -> tuple[float, float]:
    """The median of all slopes (Theil-Sen): polls see a chunk end late by up to their interval,
    and the first chunks of a new shape compile kernels, so single points may be far off."""
    places = [place for place, _ in points]
    middle_cost = median(cost for _, cost in points)
    if max(places) - min(places) < 2 * chunk:
        # Too close together to tell a slope. The steepest there can be goes through the origin;
        # half of the cost per token is taken as growing, so that neither side is far off.
        slope = middle_cost / 2 / max(median(places), chunk or 1.0)
        return middle_cost / 2, slope
    slopes = [
        (later_cost - cost) / (later - place)
        for index, (place, cost) in enumerate(points)
        for later, later_cost in points[index + 1 :]
        if abs(later - place) >= chunk
    ]
    slope = max(0.0, median(slopes)) if slopes else 0.0
    base = median(cost - slope * place for place, cost in points)
    if base < 0:
        # Noise has tipped the line; a token at the head of a prompt is never free.
        middle = median(places)
        return middle_cost * 0.1, middle_cost * 0.9 / middle if middle > 0 else 0.0
    return base, slope
