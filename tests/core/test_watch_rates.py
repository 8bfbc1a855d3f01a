"""Rates and chunk prices: differences over monotonic time, robust against late polls."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.core.chunks import ChunkCosts, finished, sized
from rigctl.core.rates import (
    Chunk,
    History,
    Point,
    add,
    add_chunk,
    add_normal,
    decode_rate,
    hit_share,
    normal_decode,
    prefill_rate,
)


def history(points: list[tuple[float, float, float, float]]) -> History:
    made = History()
    for at, decode, prefill, cached in points:
        made = add(made, Point(at, decode, prefill, cached), 5.0, 300.0)
    return made


def test_decode_is_the_difference_over_the_window() -> None:
    """Only the last seconds count, whatever came before."""
    points = [
        (float(at), 1000.0 * min(at, 10) + 10.0 * max(0, at - 10), 0.0, 0.0) for at in range(30)
    ]
    assert decode_rate(history(points)) == pytest.approx(10)


def test_one_sample_has_no_rate() -> None:
    """A counter's value is no speed."""
    one = history([(1.0, 500.0, 500.0, 0.0)])
    assert decode_rate(one) is None
    assert prefill_rate(one, 1.0, 5.0, 4.0) is None
    assert hit_share(one) is None


def test_seldom_polls_still_give_a_rate() -> None:
    """With one poll in ten seconds the last difference is used."""
    assert decode_rate(history([(0.0, 0, 0, 0), (10.0, 50, 0, 0), (20.0, 150, 0, 0)])) == 10


def test_hits_are_over_minutes() -> None:
    """The share is one over the long window; older prompts no longer count."""
    points = [(float(at), 0.0, 100.0 * at, 0.0) for at in range(0, 400, 10)]
    points += [(400.0 + at, 0.0, 39_000.0, 900.0 * at) for at in range(0, 400, 10)]
    assert hit_share(history(points)) == 1
    assert hit_share(history(points[:60])) == pytest.approx(171_000 / (171_000 + 12_000), rel=0.02)


def test_memory_stays_bounded() -> None:
    """A day of samples keeps a window's worth."""
    made = history([(float(at), at, at, at) for at in range(5000)])
    for at in range(100):
        made = add_normal(add_chunk(made, Chunk(float(at), 1, 1)), 1.0, 61)
    assert len(made.recent) <= 7
    assert len(made.coarse) <= 32
    assert len(made.chunks) <= 32
    assert len(made.normal) <= 61


def test_chunks_longer_than_the_window_keep_their_rate() -> None:
    """Chunks of 8 s are a steady 512 tok/s, at every moment between their ends."""
    made = history([(0.0, 0, 0, 0), (1.0, 0, 0, 0)])
    for end in (8.0, 16.0, 24.0):
        made = add_chunk(made, Chunk(end, 4096, 8.0))
    for now in (24.0, 28.0, 31.9, 35.0):
        assert prefill_rate(made, now, 5.0, 8.0) == pytest.approx(512)
    assert prefill_rate(made, 40.0, 5.0, 8.0) == 0


def test_a_short_prompt_is_spread_over_the_window() -> None:
    """500 tokens read in half a second are 100 a second over five, not 1,000."""
    made = add_chunk(history([(0.0, 0, 0, 0), (9.0, 0, 0, 0)]), Chunk(9.0, 500, 0.5))
    assert prefill_rate(made, 10.0, 5.0, 1.0) == 100


def test_the_normal_pace_is_a_median() -> None:
    """A few wild samples do not move it; too few say nothing."""
    made = History()
    for pace in (50.0, 51.0, 9000.0, 49.0):
        made = add_normal(made, pace, 61)
    assert normal_decode(made, 5) is None
    assert normal_decode(add_normal(made, 50.0, 61), 5) == 50


@seed(20261129)
@settings(max_examples=100, deadline=None)
@given(
    base=st.floats(5e-5, 1e-2),
    slope=st.floats(0, 1e-7),
    size=st.sampled_from([512.0, 4096.0]),
    count=st.integers(6, 40),
)
def test_the_line_is_found(base: float, slope: float, size: float, count: int) -> None:
    """From exact chunks the price of any place is found, one freak chunk among them or not."""
    costs = sized(ChunkCosts(), size)
    for index in range(count):
        start = index * size
        seconds = size * (base + slope * (start + size / 2))
        costs = finished(costs, start, size, seconds * (20 if index == count - 2 else 1))
    ahead = count * size * 2
    assert costs.seconds_per_token(ahead) == pytest.approx(base + slope * ahead, rel=0.02)


def test_a_line_is_never_free() -> None:
    """Noise that tips the line below zero does not make a head of a prompt cost nothing."""
    costs = sized(ChunkCosts(), 1000.0)
    for start, seconds in ((0.0, 0.1), (4000.0, 3.0), (8000.0, 9.0), (12_000.0, 20.0)):
        costs = finished(costs, start, 1000.0, seconds)
    assert costs.next_chunk(0.0) > 0
    assert costs.next_chunk(12_000.0) > costs.next_chunk(0.0)


def test_one_measurement_leans_to_neither_side() -> None:
    """With no slope to be seen, further chunks are taken to cost more, but not in proportion."""
    costs = finished(sized(ChunkCosts(), 1000.0), 4000.0, 1000.0, 4.0)
    assert costs.next_chunk(4000.0) == pytest.approx(4.0)
    assert 4.0 < costs.next_chunk(8000.0) < 8.0
