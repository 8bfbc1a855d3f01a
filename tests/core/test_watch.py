"""The watch by its definitions: stalled, slowed, hung, broken, and what a person reads of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from rigctl.core.engine_sample import EngineSample
from rigctl.core.ids import GroupName, Mono
from rigctl.core.log_facts import Prefilled
from rigctl.core.reading import UNSUPPORTED, Missing, Reading, Why
from rigctl.core.watch import (
    BrokenSeen,
    HungSeen,
    Recovered,
    SlowedBegan,
    SlowedEnded,
    StallBegan,
    StallEnded,
    Watch,
    WatchFact,
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

CHUNK = 1000.0
PATIENT = 3 * WatchPolicy().chunk_prior
"""Three chunks of the prior: the longest silence before anything was measured."""


@dataclass
class Rig:
    """An engine played by hand: set what its counters show, let a second pass, look."""

    watch: Watch = field(default_factory=lambda: begin(0.0))
    now: float = 0.0
    facts: list[WatchFact] = field(default_factory=list)
    sample: EngineSample = EngineSample(
        group=GroupName("g"),
        at=Mono(0.0),
        running=0.0,
        queued=0.0,
        active=0.0,
        decode_tokens=0.0,
        prefill_tokens=0.0,
        cached_tokens=0.0,
        waiting_tokens=0.0,
        chunk_tokens=CHUNK,
        context_length=100_000.0,
        accept_length=3.9,
    )

    def look(self, seconds: float = 1.0, **changes: Reading) -> list[WatchFact]:
        """Time passes, the engine is polled once; the facts this poll brought."""
        self.now += seconds
        self.sample = replace(self.sample, at=Mono(self.now), **changes)  # type: ignore[arg-type]
        self.watch, facts = observe(self.watch, self.sample, self.now)
        self.facts += facts
        return list(facts)

    def number(self, name: str) -> float:
        value = getattr(self.sample, name)
        assert isinstance(value, float)
        return value

    def decode(self, seconds: float, per_second: float = 100.0) -> None:
        """Decode for a while."""
        for _ in range(int(seconds)):
            self.look(decode_tokens=self.number("decode_tokens") + per_second)

    def chunk(self, seconds: float, decoded: float = 0.0) -> list[WatchFact]:
        """One chunk is read; its end is seen at a poll, decoding is seen one second before."""
        facts: list[WatchFact] = []
        for _ in range(int(seconds) - 2):
            facts += self.look()
        facts += self.look(decode_tokens=self.number("decode_tokens") + decoded)
        facts += self.look(
            prefill_tokens=self.number("prefill_tokens") + CHUNK,
            waiting_tokens=max(0.0, self.number("waiting_tokens") - CHUNK),
        )
        return facts

    def chunk_of_old(self, seconds: float = 4.0) -> None:
        """One chunk of a version that does not tell what waits."""
        self.look(seconds - 1)
        self.look(prefill_tokens=self.number("prefill_tokens") + CHUNK)

    @property
    def state(self) -> str:
        return flow(self.watch, self.now).state


def measured(rig: Rig, chunk_seconds: float = 4.0) -> Rig:
    """Let the engine read one prompt first, so that its chunks are known."""
    rig.look(active=1.0, waiting_tokens=8 * CHUNK)
    for _ in range(8):
        rig.chunk(chunk_seconds)
    rig.look(active=0.0)
    assert rig.watch.costs.count >= rig.watch.policy.measured_after
    rig.facts.clear()
    return rig


def with_answers(count: float = 3.0, seconds: float = 20.0) -> Rig:
    """A measured engine with some answers under way."""
    rig = measured(Rig())
    rig.look(active=count, running=count)
    rig.decode(seconds)
    rig.facts.clear()
    return rig


def test_idle_decoding_and_reading_are_told_apart() -> None:
    """No work is idle, moving tokens are decoding, an open request that does not run is reading."""
    rig = measured(Rig())
    rig.look()
    assert rig.state == "idle"
    rig.look(active=1.0, running=1.0, decode_tokens=50.0)
    assert rig.state == "decoding"
    rig.look(active=2.0, decode_tokens=90.0, waiting_tokens=5000.0)
    assert rig.state == "decoding"
    rig.look(2.5)
    shown = flow(rig.watch, rig.now)
    assert shown.state == "prefilling"
    assert (shown.waiting, shown.say) == (1, "1 answer waits")


def test_a_stall_has_a_beginning_an_end_and_a_length() -> None:
    """Answers wait while chunks end: said after the limit, counted from the last token."""
    rig = with_answers()
    last_token = rig.now
    rig.look(active=4.0, waiting_tokens=30 * CHUNK)
    facts = rig.chunk(4) + rig.chunk(4)
    assert (facts, rig.state) == ([], "prefilling")
    facts = rig.chunk(4)
    assert facts == [StallBegan(last_token, 3.0, 28 * CHUNK)]
    shown = flow(rig.watch, rig.now)
    assert shown.state == "stalled"
    assert shown.since == rig.now - last_token
    assert shown.waiting == 3
    assert shown.say == "3 answers wait while a prompt is read"
    for _ in range(5):
        assert not rig.chunk(4)
    read = rig.number("prefill_tokens") - 8 * CHUNK
    ended = rig.look(decode_tokens=rig.number("decode_tokens") + 100, active=4.0, running=4.0)
    assert ended == [StallEnded(rig.now - last_token, read, 3.0)]
    assert rig.state == "decoding"


def test_one_long_chunk_between_tokens_is_no_stall() -> None:
    """With chunks of 8 s the limit is 12 s: answers that go on after each chunk never stall."""
    rig = measured(Rig(), chunk_seconds=8)
    rig.look(active=3.0, running=2.0, waiting_tokens=30 * CHUNK)
    for _ in range(10):
        rig.chunk(8)
        rig.look(decode_tokens=rig.number("decode_tokens") + 10)
        assert rig.state != "stalled"
    assert not [fact for fact in rig.facts if isinstance(fact, StallBegan)]


def test_no_answers_no_stall() -> None:
    """A prompt that is read alone keeps nobody waiting, however long it takes."""
    rig = measured(Rig())
    rig.look(active=1.0, waiting_tokens=50 * CHUNK)
    for _ in range(50):
        assert not rig.chunk(4)
        assert rig.state == "prefilling"


def test_a_stall_ends_when_its_answers_do() -> None:
    """Clients that give up end the stall too, and the reason is told."""
    rig = with_answers()
    rig.look(active=4.0, waiting_tokens=30 * CHUNK)
    for _ in range(4):
        rig.chunk(4)
    assert rig.state == "stalled"
    (ended,) = rig.look(active=1.0, running=0.0)
    assert isinstance(ended, StallEnded)
    assert ended.why == "the answers ended"
    assert rig.state == "prefilling"


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


@pytest.mark.case("C05")
def test_what_is_left_and_how_long_it_takes() -> None:
    """Tokens left, the whole prompt and an ETA that knows later chunks to be slower."""
    rig = with_answers()
    rig.look(active=4.0, waiting_tokens=30 * CHUNK)
    for index in range(15):
        rig.chunk(2 + index // 3)
    shown = flow(rig.watch, rig.now)
    assert shown.tokens_left == 15 * CHUNK
    assert shown.tokens_total == 30 * CHUNK
    true_rest = sum(2 + index // 3 for index in range(15, 30))
    assert isinstance(shown.eta, float)
    assert 0.75 * true_rest < shown.eta < 1.25 * true_rest
    assert shown.fresh == 0
    rig.look(3)
    later = flow(rig.watch, rig.now)
    assert later.fresh == 3
    assert later.eta == pytest.approx(shown.eta - 3)


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


def slow_chunks(rig: Rig, count: int, per_chunk: float) -> None:
    for _ in range(count):
        rig.chunk(4, decoded=per_chunk)


def test_slowed_is_said_when_answers_crawl_during_prefill() -> None:
    """Some tokens after each chunk: no stall, but under a quarter of the usual pace."""
    rig = with_answers(2.0, 30)
    rig.look(active=3.0, waiting_tokens=40 * CHUNK)
    slow_chunks(rig, 6, per_chunk=40.0)
    began = [fact for fact in rig.facts if isinstance(fact, SlowedBegan)]
    assert began == [SlowedBegan(pytest.approx(5.0), pytest.approx(50.0))]  # type: ignore[arg-type]
    shown = flow(rig.watch, rig.now)
    assert shown.state == "slowed"
    assert shown.say == "5 tok/s an answer, usually 50, while a prompt is read"
    assert shown.tokens_left == 34 * CHUNK
    rig.look(active=2.0, waiting_tokens=0.0, decode_tokens=rig.number("decode_tokens") + 100)
    (ended,) = [fact for fact in rig.facts if isinstance(fact, SlowedEnded)]
    assert ended.seconds > 0
    assert not [fact for fact in rig.facts if isinstance(fact, StallBegan)]


def test_a_third_of_the_pace_is_not_slowed() -> None:
    """Prefill costs something; only under a quarter is worth a word."""
    rig = with_answers(2.0, 30)
    rig.look(active=3.0, waiting_tokens=40 * CHUNK)
    slow_chunks(rig, 6, per_chunk=140.0)
    assert not rig.facts


def test_the_usual_pace_is_that_of_undisturbed_answers() -> None:
    """A day of slowed answers does not become the measure of slowness."""
    rig = with_answers(2.0, 30)
    rig.look(active=3.0, waiting_tokens=4000 * CHUNK)
    slow_chunks(rig, 200, per_chunk=40.0)
    assert rig.state == "slowed"


@pytest.mark.case("C72")
def test_an_idle_engine_has_no_rate() -> None:
    """Counters that stand still are 0 tokens a second, whatever a gauge remembers."""
    rig = with_answers()
    assert rates(rig.watch, rig.now).decode == pytest.approx(100)
    rig.look(active=0.0, running=0.0)
    for _ in range(60):
        rig.look()
    shown = rates(rig.watch, rig.now)
    assert (shown.decode, shown.prefill) == (0, 0)
    assert isinstance(shown.accept_length, Missing)
    assert rig.state == "idle"


@pytest.mark.case("C72")
def test_a_running_gauge_that_nobody_refreshed_is_idle_and_said() -> None:
    """24 running by the gauge, not one open request: idle, with the disagreement in words."""
    rig = measured(Rig())
    rig.look(active=0.0, running=24.0)
    for _ in range(30):
        rig.look()
    shown = flow(rig.watch, rig.now)
    assert shown.state == "idle"
    assert shown.say == "a gauge still says 24 running, but no request is open"
    assert not rig.facts


@pytest.mark.case("C72")
def test_a_silent_prefill_is_not_idle() -> None:
    """Five running, counters constant, a chunk in work: anything but idle."""
    rig = with_answers(5.0)
    rig.look(active=6.0, waiting_tokens=30 * CHUNK)
    for _ in range(30):
        rig.chunk(4)
        assert rig.state in ("prefilling", "stalled")


def test_answers_without_clients_are_still_decoded() -> None:
    """Zombies decode with no open request: decoding, not idle."""
    rig = measured(Rig())
    rig.look(active=0.0, running=2.0)
    rig.decode(10)
    assert rig.state == "decoding"


def test_rates_are_of_the_last_seconds() -> None:
    """Decode over the window, prefill over its chunks' own time, hits over minutes."""
    rig = measured(Rig())
    rig.look(active=1.0, waiting_tokens=30 * CHUNK)
    for _ in range(6):
        rig.chunk(4)
    shown = rates(rig.watch, rig.now)
    assert shown.prefill == pytest.approx(250)
    rig.look(3)
    assert rates(rig.watch, rig.now).prefill == pytest.approx(250)
    assert shown.hit == 0
    rig.look(cached_tokens=rig.number("prefill_tokens") * 3)
    assert rates(rig.watch, rig.now).hit == pytest.approx(0.75)


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


def test_a_version_without_open_requests_is_watched_by_its_chunks() -> None:
    """0.5.9 tells neither open streams nor what waits: chunks alone show a stall, and its end."""
    rig = measured(Rig())
    rig.look(active=UNSUPPORTED, waiting_tokens=UNSUPPORTED, running=3.0)
    rig.decode(10)
    assert rig.state == "decoding"
    for _ in range(5):
        rig.chunk_of_old()
    assert rig.state == "stalled"
    assert isinstance(flow(rig.watch, rig.now).tokens_left, Missing)
    rig.decode(3)
    assert rig.state == "decoding"
    assert [type(fact) for fact in rig.facts] == [StallBegan, StallEnded]


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
