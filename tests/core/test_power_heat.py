"""Idle but hot: said after a minute, with the likely cause, and never of working cards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigctl.core.cards import CardSample
from rigctl.core.heat import PATIENCE, Heat, HeatFacts, Verdict, is_hot, step
from rigctl.core.ids import CardId, Mono
from rigctl.core.reading import NOT_YET, OFF, Missing, Why


def card(index: int, watts: float, pstate: float) -> CardSample:
    return CardSample(
        CardId(f"GPU-{index}"), index, "", "", watts=watts, pstate=pstate, default_limit_watts=350.0
    )


HOT = tuple(card(index, 129.0, 2) for index in range(4))
COLD = tuple(card(index, 24.0, 8) for index in range(4))
FACTS = HeatFacts(
    "standard", HOT, requests=0.0, scheduler_cpu=0.97, sleep_on_idle=False, poll_seconds=1.0
)


def after(facts: HeatFacts, seconds: float) -> Verdict | None:
    """The verdict when these facts have held for so long."""
    heat, _ = step(Heat(), facts, Mono(100.0))
    return step(heat, facts, Mono(100.0 + seconds))[1]


def test_a_spinning_scheduler_is_named_with_its_remedy() -> None:
    """Watts, time and cause stand in one line, and the next command at its end."""
    verdict = after(FACTS, 240.0)
    assert verdict is not None
    assert verdict.cause == "spinning"
    assert verdict.say == (
        "idle but hot: 516 W on 4 cards, no request for 4 min - "
        "its scheduler spins (97% of a core): `rigctl sleep standard on`"
    )


def test_cards_get_time_to_settle() -> None:
    """A minute after the last request is soon enough to call a warm card odd."""
    assert after(FACTS, PATIENCE - 1) is None
    assert after(FACTS, PATIENCE) is not None


@pytest.mark.parametrize("requests", [1.0, NOT_YET, Missing(Why.STALE)])
def test_work_or_an_unanswered_question_is_not_idle(requests: float | Missing) -> None:
    """Requests, or an engine that does not answer, start the clock anew."""
    heat, _ = step(Heat(), FACTS, Mono(0.0))
    heat, verdict = step(heat, replace(FACTS, requests=requests), Mono(500.0))
    assert verdict is None
    assert heat == Heat()


def test_a_cool_moment_starts_the_clock_anew() -> None:
    """Cards that cooled down were not kept awake."""
    heat, _ = step(Heat(), FACTS, Mono(0.0))
    heat, _ = step(heat, replace(FACTS, cards=COLD), Mono(50.0))
    heat, verdict = step(heat, FACTS, Mono(90.0))
    assert verdict is None
    assert heat == Heat(Mono(0.0), Mono(90.0))


@pytest.mark.parametrize(
    ("changes", "cause", "part"),
    [
        ({"foreign": ("pid 9001 (anna, python)",)}, "foreign", "pid 9001 (anna, python) works on"),
        ({"sleep_on_idle": True}, "spinning", "though sleep-on-idle is on"),
        ({"scheduler_cpu": NOT_YET}, "awake", "`rigctl sleep standard on`"),
        ({"scheduler_cpu": 0.0, "sleep_on_idle": True}, "polling", "rigctl's own sampling"),
        ({"scheduler_cpu": 0.0, "poll_seconds": 30.0}, "unknown", "nvidia-smi"),
        ({"scheduler_cpu": OFF, "requests": OFF, "sleep_on_idle": None}, "polling", "own sampling"),
    ],
)
def test_each_cause_has_its_next_step(changes: dict[str, object], cause: str, part: str) -> None:
    """The most telling fact wins: foreign work, spinning, the flag, ourselves, nobody."""
    verdict = after(replace(FACTS, **changes), 100.0)  # type: ignore[arg-type]
    assert verdict is not None
    assert verdict.cause == cause
    assert part in verdict.say


def test_a_hot_card_without_a_power_reading_makes_the_sum_a_lower_bound() -> None:
    """What cannot be measured is said to be missing."""
    blind = replace(HOT[0], watts=Missing(Why.UNSUPPORTED))
    verdict = after(replace(FACTS, cards=(blind, *HOT[1:])), 100.0)
    assert verdict is not None
    assert "at least 387 W on 4 cards" in verdict.say


def test_hot_is_a_working_state_or_more_watts_than_rest_needs() -> None:
    """P-state or power alone convicts; a lost card is not hot."""
    assert is_hot(card(0, 24.0, 2))
    assert is_hot(card(0, 129.0, 8))
    assert not is_hot(card(0, 32.0, 8))
    assert not is_hot(card(0, 45.0, 5))
    assert not is_hot(CardSample(CardId("GPU-0"), 0, "", "", lost="GPU is lost"))
