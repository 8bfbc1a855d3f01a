"""Lengths: proven by bytes, learnt, counted; prompt and answer against window and pool."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from support_routing import POLICY, long, standard

from rigctl.core.ask import Size
from rigctl.core.clusters import Estimate
from rigctl.core.lengths import (
    REMEMBERED,
    Fit,
    Learnt,
    answer_room,
    estimate,
    exact,
    fits,
    held,
    learn,
)

sizes = st.builds(
    Size,
    text_bytes=st.integers(0, 10**7),
    token_ids=st.integers(0, 10**6),
    pictures=st.integers(0, 50),
    messages=st.integers(0, 500),
)


@pytest.mark.case("C27")
def test_prompt_and_answer_together_decide() -> None:
    """The quoted request: the input fits, the completion pushes it over."""
    guess = estimate(Size(text_bytes=1_000_000, messages=9), None, POLICY, counted=261_936)
    assert fits(guess, 8_192, standard()) is Fit.NO
    assert fits(guess, 208, standard()) is Fit.YES
    assert fits(guess, 8_192, long()) is Fit.YES


def test_window_and_pool_are_both_limits() -> None:
    """One request can never be longer than the pool, however wide the window."""
    guess = Estimate(500_000, 500_000, 500_000, "counted")
    assert fits(guess, 1_000, long()) is Fit.YES
    assert fits(guess, 1_000, long(pool=400_000)) is Fit.NO
    assert fits(guess, 1_000, long(window=0, pool=0)) is Fit.LIKELY


def test_a_prompt_leaves_room_for_an_answer_whatever_was_asked() -> None:
    """The engine refuses one that ends at the limit, also with `max_tokens: 1`."""
    at_limit = Estimate(262_144, 262_144, 262_144, "ids")
    assert fits(at_limit, 0, standard()) is Fit.NO


def test_bytes_prove_short_prompts_short() -> None:
    """No token is shorter than a byte: 200 kB fit 262,144 tokens, whatever they are."""
    guess = estimate(Size(text_bytes=200_000, messages=20), None, POLICY)
    assert fits(guess, 4_096, standard()) is Fit.YES
    guess = estimate(Size(text_bytes=480_000, messages=20), 4.0, POLICY)
    assert (guess.how, fits(guess, 4_096, standard())) == ("learnt", Fit.LIKELY)
    guess = estimate(Size(text_bytes=1_000_000, messages=20), 4.0, POLICY)
    assert fits(guess, 4_096, standard()) is Fit.NEAR
    guess = estimate(Size(text_bytes=2_000_000, messages=20), 4.0, POLICY)
    assert fits(guess, 4_096, standard()) is Fit.NO


@pytest.mark.case("C30")
def test_pictures_are_flat_and_ids_exact() -> None:
    """Three megabytes of picture are 1,300 tokens; a list of numbers is as long as it is."""
    picture = estimate(Size(text_bytes=30, pictures=1, messages=1), None, POLICY)
    assert POLICY.picture_tokens < picture.likely < POLICY.picture_tokens + 50
    ids = estimate(Size(token_ids=777), None, POLICY)
    assert (ids.low, ids.likely, ids.high, ids.how) == (777, 777, 777, "ids")
    counted = estimate(Size(pictures=2, messages=1), None, POLICY, counted=100)
    assert counted.likely == 100 + 2 * POLICY.picture_tokens


@seed(20261130)
@settings(max_examples=300, deadline=None)
@given(
    size=sizes, learnt=st.none() | st.floats(0.5, 16.0), counted=st.none() | st.integers(0, 10**6)
)
def test_an_estimate_lies_between_its_bounds(
    size: Size, learnt: float | None, counted: int | None
) -> None:
    """And `exact` says when counting could tell nothing more."""
    guess = estimate(size, learnt, POLICY, counted)
    assert 0 <= guess.low <= guess.likely <= guess.high
    if counted is not None:
        assert exact(guess)


@seed(20261130)
@settings(max_examples=300, deadline=None)
@given(size=sizes, learnt=st.none() | st.floats(0.5, 16.0), output=st.integers(0, 10**5))
def test_yes_and_no_are_never_turned_by_a_count(
    size: Size, learnt: float | None, output: int
) -> None:
    """What is proven to fit fits at its very longest; a proven no is one at its shortest."""
    guess = estimate(size, learnt, POLICY)
    fit = fits(guess, output, standard())
    longest = Estimate(guess.high, guess.high, guess.high, "counted")
    if fit is Fit.YES:
        assert fits(longest, output, standard()) is Fit.YES
    if fit in (Fit.LIKELY, Fit.NEAR):
        shortest = Estimate(guess.low, guess.low, guess.low, "counted")
        assert fits(shortest, output, standard()) is Fit.YES


def test_what_an_answer_may_take_and_what_is_counted_for_it() -> None:
    """Unnamed it is the policy's; the pool is not filled with what few answers use."""
    guess = Estimate(10, 10, 10, "ids")
    assert answer_room(None, POLICY) == POLICY.default_output
    assert answer_room(0, POLICY) == 0
    assert held(guess, 32_768, POLICY) == 10 + POLICY.default_output
    assert held(guess, 5, POLICY) == 15


def test_bytes_per_token_are_learnt_and_lies_are_not() -> None:
    """A median of the last few: four absurd counts of nine move nothing."""
    learnt = Learnt()
    assert learnt.value is None
    for _ in range(REMEMBERED):
        learnt = learn(learnt, Size(text_bytes=40_000), 10_000)
    for tokens in (20_000, 2_600, 3_000, 60_000):
        learnt = learn(learnt, Size(text_bytes=40_000), tokens)
    assert learnt.value == 4.0
    for size, tokens in (
        (Size(text_bytes=40_000, pictures=1), 20_000),
        (Size(text_bytes=40_000, token_ids=5), 20_000),
        (Size(text_bytes=800), 200),
        (Size(text_bytes=40_000), 0),
        (Size(text_bytes=40_000), 1_000_000),
        (Size(text_bytes=40_000), 300),
    ):
        assert learn(learnt, size, tokens) == learnt
    for _ in range(REMEMBERED):
        learnt = learn(learnt, Size(text_bytes=20_000), 10_000)
    assert learnt.value == 2.0
