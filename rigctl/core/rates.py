"""Rates from counters: what they gained over a stretch of monotonic time, never a gauge (C72)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

_COARSE = 10.0
"""Seconds between two points kept for the long window."""
_READS = 32
"""Chunk ends remembered."""


@dataclass(frozen=True, slots=True)
class Point:
    """The counters at one moment."""

    at: float
    decode: float
    prefill: float
    cached: float


@dataclass(frozen=True, slots=True)
class Chunk:
    """A gain of the prefill counter."""

    at: float
    """When it was seen."""
    tokens: float
    seconds: float
    """What it took: since the chunk before, or since the prompt was seen to wait."""


@dataclass(frozen=True, slots=True)
class History:
    """As much of the past as the rates need."""

    recent: tuple[Point, ...] = ()
    """The last seconds, and one point before them."""
    coarse: tuple[Point, ...] = ()
    """The last minutes, thinned out."""
    chunks: tuple[Chunk, ...] = ()
    normal: tuple[float, ...] = ()
    """Decode tokens a second for each answer while nothing disturbed it."""


def add(history: History, point: Point, window: float, long_window: float) -> History:
    """One sample more; what the windows no longer reach is dropped."""
    recent = (*history.recent, point)
    while len(recent) > 2 and recent[1].at <= point.at - window:
        recent = recent[1:]
    coarse = history.coarse
    if not coarse or point.at - coarse[-1].at >= _COARSE:
        coarse = (*coarse, point)
        while len(coarse) > 2 and coarse[1].at <= point.at - long_window:
            coarse = coarse[1:]
    return replace(history, recent=recent, coarse=coarse)


def add_chunk(history: History, chunk: Chunk) -> History:
    return replace(history, chunks=(*history.chunks, chunk)[-_READS:])


def add_normal(history: History, per_answer: float, most: int) -> History:
    return replace(history, normal=(*history.normal, per_answer)[-most:])


def decode_rate(history: History) -> float | None:
    """Tokens a second over the window; None before there are two samples."""
    if len(history.recent) < 2:
        return None
    first, last = history.recent[0], history.recent[-1]
    return (last.decode - first.decode) / (last.at - first.at) if last.at > first.at else None


def prefill_rate(history: History, now: float, window: float, next_chunk: float) -> float | None:
    """Prompt tokens computed a second.

    The counter moves at chunk ends only, so the rate holds until the next one is overdue; the
    chunks in reach are divided by the time they took, or by the window when they did not fill it.
    """
    if len(history.recent) < 2:
        return None
    counted: list[Chunk] = []
    taken = 0.0
    for chunk in reversed(history.chunks):
        if not counted:
            within = chunk.at > now - max(window, 1.5 * next_chunk)
        else:
            # Polls see the ends late by up to their interval, the lengths may be exact.
            follows = chunk.at >= counted[-1].at - counted[-1].seconds - window / 2
            within = chunk.at > now - window or (follows and taken < window)
        if not within:
            break
        counted.append(chunk)
        taken += chunk.seconds
    # A chunk that began before the window is counted over its whole length: longer, not faster.
    return sum(chunk.tokens for chunk in counted) / max(taken, window)


def hit_share(history: History) -> float | None:
    """Share of prompt tokens that came from the cache; None when there were none."""
    if not history.coarse or not history.recent:
        return None
    first, last = history.coarse[0], history.recent[-1]
    cached, computed = last.cached - first.cached, last.prefill - first.prefill
    return cached / (cached + computed) if cached + computed > 0 else None


def normal_decode(history: History, least: int) -> float | None:
    """The median decode rate of one undisturbed answer; None while too little was seen."""
    return median(history.normal) if len(history.normal) >= least else None
