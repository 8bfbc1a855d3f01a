"""Busy is not dead: what is hung, what is broken, and what only looks like it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support_watch import CHUNK, PATIENT, Rig, measured, with_answers

from rigctl.core.ids import Mono
from rigctl.core.log_facts import Prefilled
from rigctl.core.reading import Missing, Why
from rigctl.core.watch import (
    BrokenSeen,
    HungSeen,
    Recovered,
    StallEnded,
    begin,
    finish,
    flow,
    log_seen,
    observe,
    processes_seen,
    rates,
    resumed,
    unanswered,
)
from rigctl.core.watch_facts import WatchPolicy


@pytest.mark.case("C05")
def test_a_long_prefill_is_busy_however_long_it_is() -> None:
    """136 s without one token: counters move at chunk ends only, chunks grow, nothing is hung."""
    rig = Rig()
    rig.look(active=5.0, running=5.0)
    rig.decode(20)
    rig.look(active=6.0, waiting_tokens=30 * CHUNK)
    began = rig.now
    for index in range(30):
        rig.chunk(2 + index // 4)
        assert rig.state in ("prefilling", "stalled")
    assert rig.now - began >= 136
    shown = flow(rig.watch, rig.now)
    assert shown.state == "stalled"
    assert not [fact for fact in rig.facts if isinstance(fact, HungSeen)]


@pytest.mark.case("C07")
def test_frozen_counters_with_answers_are_a_hang() -> None:
    """The front answers for minutes with the same text: hung, in numbers, after three chunks."""
    rig = with_answers(6.0)
    rig.look(active=20.0, queued=14.0)
    silent_from = rig.now
    while rig.state != "hung":
        rig.look()
        assert rig.now - silent_from < PATIENT + 5
    (hung,) = rig.facts  # and no stall: nothing that anybody waits for is moving
    assert isinstance(hung, HungSeen)
    assert hung.silent >= 3 * hung.expected
    shown = flow(rig.watch, rig.now)
    assert shown.say.startswith("no progress for ")
    assert "expected a chunk after" in shown.say
    assert not rig.look(5)
    assert flow(rig.watch, rig.now).since > shown.since


def test_a_chunk_behind_a_long_cached_prefix_may_take_its_time() -> None:
    """The place of a prompt's first chunk is unknown until it ends: the farthest one is allowed."""
    rig = Rig()
    rig.look(active=1.0, waiting_tokens=12 * CHUNK)
    for index in range(12):
        rig.chunk(6 + index)
    rig.look(active=0.0)
    rig.look(active=1.0, waiting_tokens=2 * CHUNK)
    rig.look(60)
    assert rig.state == "prefilling"
    rig.look(300)
    assert rig.state == "hung"


def test_hung_ends_with_any_progress() -> None:
    """One chunk or one token is life: the engine has recovered, and how long it hung is told."""
    rig = with_answers()
    while rig.state != "hung":
        rig.look()
    (recovered,) = rig.look(decode_tokens=rig.number("decode_tokens") + 4)
    assert isinstance(recovered, Recovered)
    assert recovered.was == "hung"
    assert recovered.seconds >= rig.watch.policy.hung_least


def test_a_queue_that_grows_is_no_progress() -> None:
    """Clients pile up in front of a dead scheduler: that is not its life."""
    rig = with_answers()
    for count in range(60):
        rig.look(active=4.0 + count, queued=float(count))
    assert rig.state == "hung"


def test_before_anything_is_measured_patience_is_the_policy_s() -> None:
    """The first prompt of a new engine may compile kernels: the prior holds, not a guess."""
    rig = Rig()
    rig.look(active=1.0, waiting_tokens=30 * CHUNK)
    rig.look(PATIENT - 1)
    assert rig.state == "prefilling"
    rig.look(2)
    assert rig.state == "hung"


def test_a_slow_reader_is_not_a_hang_for_long() -> None:
    """An open request that the scheduler does not know may only have a slow client."""
    rig = measured(Rig())
    rig.look(active=1.0)
    rig.look(PATIENT + 60)
    assert rig.state == "prefilling"
    rig.look(rig.watch.policy.unseen_work)
    assert rig.state == "hung"


def test_a_scheduler_that_counts_its_idle_time_lives() -> None:
    """Where the idle counter moves there is nothing to do, whatever the front holds open."""
    rig = measured(Rig())
    for second in range(700):
        rig.look(active=1.0, scheduler_idle_seconds=float(second))
    assert not [fact for fact in rig.facts if isinstance(fact, HungSeen)]


@pytest.mark.case("C66")
def test_batch_lines_are_progress_too() -> None:
    """Where metrics are frozen but the log shows chunks, the engine is busy."""
    rig = measured(Rig())
    rig.look(active=1.0, waiting_tokens=Missing(Why.FAILED))
    for _ in range(100):
        rig.look(4)
        rig.watch = log_seen(rig.watch, Prefilled(pending_tokens=7000.0), rig.now)
        assert rig.state == "prefilling"
    assert flow(rig.watch, rig.now).tokens_left == 7000


@pytest.mark.case("C07")
def test_a_missing_scheduler_is_broken_at_once() -> None:
    """One of four schedulers gone: broken at the first look, whatever else is true, and named."""
    rig = with_answers()
    gone = ("sglang::scheduler_TP2",)
    rig.watch, facts = processes_seen(rig.watch, 5, gone, rig.now + 1)
    assert facts == (BrokenSeen(gone),)
    shown = flow(rig.watch, rig.now + 1)
    assert (shown.state, shown.say) == ("broken", "sglang::scheduler_TP2 is gone")
    assert not rig.look(decode_tokens=rig.number("decode_tokens") + 50)
    assert rig.state == "broken"
    rig.watch = unanswered(rig.watch, rig.now)
    assert flow(rig.watch, rig.now + 60).state == "broken"
    rig.watch, facts = processes_seen(rig.watch, 5, (), rig.now + 61)
    assert [type(fact) for fact in facts] == [Recovered]


def test_nobody_is_missed_before_it_is_known_who_belongs() -> None:
    """With no expectation there is no conclusion."""
    watch, facts = processes_seen(begin(0.0), 0, ("sglang::detokenizer",), 1.0)
    assert (facts, flow(watch, 1.0).state) == ((), "unknown")


def test_a_broken_engine_ends_its_stall() -> None:
    """No stall stays open behind a worse state."""
    rig = with_answers()
    rig.look(active=4.0, waiting_tokens=30 * CHUNK)
    for _ in range(4):
        rig.chunk(4)
    rig.watch, facts = processes_seen(rig.watch, 5, ("sglang::scheduler_TP0",), rig.now)
    assert [type(fact) for fact in facts] == [StallEnded, BrokenSeen]


def test_a_restarted_engine_is_a_new_one() -> None:
    """Counters that fell back are a restart: no negative rate, open states end, costs are kept."""
    rig = with_answers()
    rig.look(active=4.0, waiting_tokens=30 * CHUNK)
    for _ in range(4):
        rig.chunk(4)
    costs = rig.watch.costs
    (ended,) = rig.look(decode_tokens=3.0, prefill_tokens=11.0, running=0.0, active=0.0)
    assert isinstance(ended, StallEnded)
    assert ended.why == "the engine was restarted"
    assert isinstance(rates(rig.watch, rig.now).decode, Missing)
    rig.look()
    assert rates(rig.watch, rig.now).decode == 0
    assert rig.watch.costs == costs


def test_an_engine_s_end_ends_its_stall() -> None:
    """When the engine is gone its open stall is closed for the journal."""
    rig = with_answers()
    assert finish(rig.watch, rig.now) == ()
    rig.look(active=4.0, waiting_tokens=30 * CHUNK)
    for _ in range(4):
        rig.chunk(4)
    (ended,) = finish(rig.watch, rig.now)
    assert isinstance(ended, StallEnded)
    assert ended.why == "the engine ended"


def test_unanswered_polls_make_figures_stale_not_the_engine_dead() -> None:
    """One missed poll is a hiccup; more of them are `unknown`, with the silence in seconds."""
    rig = with_answers()
    rig.watch = unanswered(rig.watch, rig.now + 1)
    assert flow(rig.watch, rig.now + 2).state == "decoding"
    rig.watch = unanswered(rig.watch, rig.now + 2)
    shown = flow(rig.watch, rig.now + 20)
    assert (shown.state, shown.say) == ("unknown", "no answer for 20 s")
    stale = rates(rig.watch, rig.now + 20).decode
    assert isinstance(stale, Missing)
    assert stale.why is Why.STALE
    rig.decode(2)
    assert rig.state == "decoding"


@pytest.mark.case("C91")
@pytest.mark.parametrize("told", ["with the sample", "before it"])
def test_a_suspended_machine_has_no_hung_engines(told: str) -> None:
    """After a jump silence is counted from the resume: nothing times out at once."""
    rig = with_answers()
    rig.now += 28_800
    if told == "before it":
        rig.watch = resumed(rig.watch, rig.now)
    rig.watch, facts = observe(
        rig.watch,
        replace(rig.sample, at=Mono(rig.now)),
        rig.now,
        resumed=told == "with the sample",
    )
    assert facts == ()
    assert rig.state == "decoding"
    while rig.state != "hung":
        rig.look()
    (hung,) = [fact for fact in rig.facts if isinstance(fact, HungSeen)]
    assert hung.silent < 100


def test_missing_counters_are_not_zeros() -> None:
    """A poll without /metrics keeps what was known: no gain, no loss, no reset."""
    rig = with_answers()
    before = rig.watch.decode
    gone = Missing(Why.FAILED, "/metrics did not answer")
    rig.look(decode_tokens=gone, prefill_tokens=gone, active=gone)
    assert rig.watch.decode == before
    rig.look(decode_tokens=before + 100 if before else 0.0, prefill_tokens=8 * CHUNK, active=3.0)
    assert not rig.facts
    assert rig.state == "decoding"


def test_nothing_seen_is_unknown() -> None:
    """A new watch claims nothing."""
    shown = flow(begin(5.0), 6.0)
    assert shown.state == "unknown"
    assert isinstance(rates(begin(5.0), 6.0).decode, Missing)


def test_the_policy_can_be_set_at_any_look() -> None:
    """A policy given with a sample holds from then on."""
    strict = WatchPolicy(hung_least=1.0, hung_chunks=0.1)
    rig = with_answers()
    rig.watch, _ = observe(rig.watch, rig.sample, rig.now, strict)
    rig.look(2)
    assert rig.state == "hung"
