"""The watch against a small model of prefill-first scheduling, with whatever load, at any pace."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from support_prefill import Ask, Model

from rigctl.core.engine_sample import EngineSample
from rigctl.core.ids import GroupName, Mono
from rigctl.core.reading import Missing
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
    observe,
    processes_seen,
    rates,
    unanswered,
)

QUICK = (Phase.explicit, Phase.generate)
"""No shrinking: these plays are long, and their seed is pinned."""


asks = st.builds(
    Ask,
    prompt=st.floats(200, 120_000),
    cached=st.just(0.0),
    answer=st.floats(4, 3000),
)
cached_asks = st.builds(
    lambda prompt, share, answer: Ask(prompt, float(int(prompt * share)), answer),
    st.floats(200, 120_000),
    st.floats(0, 0.99),
    st.floats(4, 3000),
)
loads = st.lists(st.tuples(st.floats(0, 40), st.one_of(asks, cached_asks)), max_size=8)
models = st.builds(
    Model,
    chunk=st.sampled_from([512.0, 2048.0, 4096.0, 8192.0]),
    base=st.floats(5e-5, 1e-3),
    slope=st.floats(0, 3e-8),
    rounds=st.sampled_from([0, 0, 0, 1, 8]),
)


@dataclass
class Seen:
    watch: Watch
    now: float
    facts: list[WatchFact]


def play(
    model: Model, load: list[tuple[float, Ask]], every: float, limit: int, counter: bool = True
) -> Seen:
    """Let the requests come in, polling all the while, until all is answered or the time is up."""
    watch = begin(0.0)
    facts: list[WatchFact] = []
    arrivals: deque[tuple[float, Ask]] = deque()
    at = 0.0
    for wait, ask in load:
        at += wait
        arrivals.append((at, ask))
    now = 0.0
    for _ in range(limit):
        now += every
        while arrivals and arrivals[0][0] <= now:
            due, ask = arrivals.popleft()
            model.advance(due)
            model.waiting.append(ask)
        model.advance(now)
        watch, more = observe(watch, model.look(counter), now)
        facts += more
        check(watch, now)
        if not arrivals and not model.waiting and not model.running and not model.step:
            break
    return Seen(watch, now, facts)


def check(watch: Watch, now: float) -> None:
    """What holds after every look."""
    shown, speed = flow(watch, now), rates(watch, now)
    for number in (speed.decode, speed.prefill, speed.hit, shown.eta, shown.tokens_left,
                   shown.tokens_total, shown.fresh, shown.waiting):  # fmt: skip
        assert isinstance(number, Missing) or number >= 0, (number, shown, speed)
    assert shown.since >= 0
    if not isinstance(speed.hit, Missing):
        assert speed.hit <= 1
    if not isinstance(shown.tokens_left, Missing) and not isinstance(shown.tokens_total, Missing):
        assert shown.tokens_left <= shown.tokens_total
    assert (shown.state == "stalled") == (watch.stall is not None)
    assert (shown.state == "slowed") == (watch.slowed_since is not None)


def paired(facts: list[WatchFact]) -> None:
    """Beginnings and ends alternate, for stalls and for slow stretches."""
    for begins, ends in ((StallBegan, StallEnded), (SlowedBegan, SlowedEnded)):
        open_now = False
        for fact in facts:
            if isinstance(fact, begins):
                assert not open_now
                open_now = True
            elif isinstance(fact, ends):
                assert open_now
                open_now = False
        assert not open_now


@seed(20261129)
@settings(max_examples=60, deadline=None, phases=QUICK)
@given(models, loads, st.sampled_from([0.5, 1.0, 2.0]), st.booleans())
def test_never_hung_while_chunks_complete(
    model: Model, load: list[tuple[float, Ask]], every: float, counter: bool
) -> None:
    """A scheduler that works through its load, at whatever pace, is never called hung."""
    seen = play(model, load, every, 500, counter)
    assert not [fact for fact in seen.facts if isinstance(fact, (HungSeen, Recovered, BrokenSeen))]


@seed(20261130)
@settings(max_examples=60, deadline=None, phases=QUICK)
@given(models, loads, st.sampled_from([0.5, 1.0, 2.0]))
def test_a_stall_is_always_ended(model: Model, load: list[tuple[float, Ask]], every: float) -> None:
    """Every stall and every slow stretch that began has one end, with a length that is its own."""
    seen = play(model, load, every, 500)
    paired([*seen.facts, *finish(seen.watch, seen.now)])
    for fact in seen.facts:
        if isinstance(fact, StallEnded):
            assert fact.seconds > seen.watch.policy.stall_least - every
            assert fact.waited >= 1
            assert fact.tokens > 0


@seed(20261201)
@settings(max_examples=60, deadline=None, phases=QUICK)
@given(models, st.lists(asks, min_size=1, max_size=3), st.integers(1, 3))
def test_a_stall_of_prefill_first_is_seen(model: Model, cold: list[Ask], answers: int) -> None:
    """While answers run and prompts are read for long without a round between, it is a stall."""
    model.rounds = 0
    watch = begin(0.0)
    for _ in range(answers):
        model.running.append(Ask(100, 0, 1e9))
    facts: list[WatchFact] = []
    now, began = 0.0, 30.0
    for _ in range(30):
        now += 1.0
        model.advance(now)
        watch, more = observe(watch, model.look(), now)
        facts += more
    assert not facts
    model.waiting.extend(cold)
    while model.waiting and now < began + 400:
        now += 1.0
        model.advance(now)
        watch, more = observe(watch, model.look(), now)
        facts += more
    enough = max(10.0, 1.5 * watch.policy.chunk_prior) + 2 * watch.policy.chunk_prior
    if now - began > enough and model.waiting:
        assert [type(fact) for fact in facts][:1] == [StallBegan]
        assert flow(watch, now).state == "stalled"
        assert flow(watch, now).waiting >= answers  # those read meanwhile wait as well


@seed(20261202)
@settings(max_examples=60, deadline=None, phases=QUICK)
@given(models, loads, st.floats(1, 200))
def test_a_stopped_scheduler_is_hung_and_a_going_one_recovers(
    model: Model, load: list[tuple[float, Ask]], stop_at: float
) -> None:
    """Where everything freezes with work in hand, hung is said once; the first progress ends it."""
    model.running.append(Ask(100, 0, 1e9))
    seen = play(model, load, 1.0, int(stop_at) + 1)
    frozen = model.look(all_counters=False)
    now, watch, facts = seen.now, seen.watch, list[WatchFact]()
    for _ in range(300):
        now += 5.0
        watch, more = observe(watch, _at(frozen, now), now)
        facts += more
        check(watch, now)
    assert flow(watch, now).state == "hung"
    assert sum(isinstance(fact, HungSeen) for fact in facts) == 1
    (hung,) = [fact for fact in facts if isinstance(fact, HungSeen)]
    assert hung.silent > 3 * hung.expected
    moved = _at(frozen, now + 1, decoded=4.0)
    watch, more = observe(watch, moved, now + 1)
    assert [type(fact) for fact in more if not isinstance(fact, StallEnded)] == [Recovered]


def _at(sample: EngineSample, now: float, decoded: float = 0.0) -> EngineSample:
    assert isinstance(sample.decode_tokens, float)
    return replace(sample, at=Mono(now), decode_tokens=sample.decode_tokens + decoded)


events = st.lists(
    st.one_of(
        st.tuples(st.just("sample"), st.floats(0.1, 400), st.integers(0, 5), st.integers(0, 5)),
        st.tuples(st.just("gone"), st.floats(0.1, 5), st.just(0), st.just(0)),
        st.tuples(st.just("back"), st.floats(0.1, 5), st.just(0), st.just(0)),
        st.tuples(st.just("silent"), st.floats(0.1, 60), st.just(0), st.just(0)),
        st.tuples(st.just("restart"), st.floats(0.1, 60), st.just(0), st.just(0)),
        st.tuples(st.just("tokens"), st.floats(0.1, 60), st.integers(0, 900), st.integers(0, 9)),
    ),
    max_size=60,
)


@seed(20261203)
@settings(max_examples=200, deadline=None, phases=QUICK)
@given(events)
def test_broken_wins_and_nothing_stays_open(steps: list[tuple[str, float, int, int]]) -> None:
    """In any order of samples, silences, restarts and missing processes: a missing process is
    broken, rates are never negative, and every beginning has its end."""
    watch, now, facts = begin(0.0), 0.0, list[WatchFact]()
    decode = prefill = running = waiting = 0.0
    missing: tuple[str, ...] = ()
    for what, seconds, one, two in steps:
        now += seconds
        if what in ("gone", "back"):
            missing = ("sglang::scheduler_TP1",) if what == "gone" else ()
            watch, more = processes_seen(watch, 5, missing, now)
            facts += more
        elif what == "silent":
            watch = unanswered(watch, now)
        else:
            if what == "restart":
                decode = prefill = 0.0
            elif what == "sample":
                running, waiting = float(one), float(two)
            else:
                prefill, decode = prefill + one, decode + two
            watch, more = observe(
                watch,
                EngineSample(
                    group=GroupName("g"),
                    at=Mono(now),
                    running=running,
                    queued=0.0,
                    active=running + waiting,
                    decode_tokens=decode,
                    prefill_tokens=prefill,
                    waiting_tokens=waiting * 900,
                ),
                now,
            )
            facts += more
        restarted = watch.sample is not None and watch.missing == ()
        if missing and not restarted:
            assert flow(watch, now).state == "broken"
        speed = rates(watch, now)
        for number in (speed.decode, speed.prefill, speed.hit):
            assert isinstance(number, Missing) or number >= 0
    paired([*facts, *finish(watch, now)])


@pytest.mark.case("C05")
@pytest.mark.parametrize(("exact", "share", "least"), [(True, 0.1, 2.0), (False, 0.5, 8.0)])
@seed(20261204)
@settings(max_examples=60, deadline=None, phases=QUICK)
@given(
    base=st.floats(5e-4, 1e-3),
    slope=st.floats(0, 3e-8),
    chunk=st.sampled_from([2048.0, 4096.0]),
    prompt=st.floats(60_000, 120_000),
)
def test_the_eta_is_right(
    exact: bool, share: float, least: float, base: float, slope: float, chunk: float, prompt: float
) -> None:
    """From the middle of one cold prompt on the time left is told within a tenth where the engine
    counts its prefill time, and within a half where only polls tell."""
    model = Model(chunk, base, slope)
    model.waiting.append(Ask(prompt, 0, 1e9))
    watch, now = begin(0.0), 0.0
    told: list[tuple[float, float]] = []
    while model.waiting and now < 4000:
        now += 1.0
        model.advance(now)
        watch, _ = observe(watch, model.look(exact), now)
        shown = flow(watch, now)
        if model.waiting and model.waiting[0].read > prompt / 2 and isinstance(shown.eta, float):
            told.append((now, shown.eta))
    assert told
    for at, eta in told:
        assert abs(eta - (now - at)) <= max(least, (now - at) * share), (at, eta, now)
