"""Something was learnt about an engine: its process, its log, its counters."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from rigctl.core import phases
from rigctl.core import watch as watching
from rigctl.core.engine_states import (
    Draining,
    Exited,
    InFlight,
    Loading,
    MembersSeen,
    Ready,
    ReadySeen,
    Spawned,
    SpawnFailed,
    Stopping,
    Stuck,
)
from rigctl.core.facts import (
    EngineCounted,
    EngineExited,
    EngineReady,
    EngineSampled,
    EngineSilent,
    EngineSpawned,
    EngineSpawnFailed,
    EngineWatched,
    LogRead,
)
from rigctl.core.failure import classify
from rigctl.core.fault_notes import told_faults
from rigctl.core.ids import Mono
from rigctl.core.log_facts import Decoded, Fault, Milestone, Step, Trouble
from rigctl.core.orders import Order, WriteJournal
from rigctl.core.reading import NOT_YET, Missing, Reading, Why, known
from rigctl.core.run_engine import Fed, feed_engine
from rigctl.core.state import GroupState, RigState, with_group
from rigctl.core.watch_state import Doing
from rigctl.core.watch_words import journal

EngineFact = (
    EngineSpawned
    | EngineSpawnFailed
    | EngineReady
    | EngineExited
    | EngineWatched
    | EngineSampled
    | EngineCounted
    | EngineSilent
    | LogRead
)

SLEEP_FLAG = "--sleep-on-idle"
_OTHER_HANDS = frozenset({"killed", "left", "unknown"})
"""Kinds of death of which the engine's log names no cause of its own."""


def on_engine(state: RigState, group: GroupState, fact: EngineFact, now: Mono) -> Fed:
    """Take one fact about one group's engine."""
    match fact:
        case EngineSpawned():
            return _spawned(state, group, fact, now)
        case EngineSpawnFailed(why=why, final=final):
            state, orders = feed_engine(state, group, SpawnFailed(why, final), now)
            return state, (WriteJournal(group.spec.name, "not-started", why), *orders)
        case EngineReady(process=process):
            if process != group.process:
                return state, ()
            return feed_engine(state, group, ReadySeen(), now)
        case EngineExited():
            return _exited(state, group, fact, now)
        case EngineWatched():
            return _watched(state, group, fact, now)
        case EngineSampled():
            return _sampled(state, group, fact, now)
        case EngineCounted(in_flight=count):
            return feed_engine(state, group, InFlight(count), now)
        case EngineSilent():
            if group.watch is None:
                return state, ()
            group = replace(group, watch=watching.unanswered(group.watch, now))
            untold = Missing(Why.STALE, fact.why)  # silence is no sign of idleness
            return feed_engine(state, group, InFlight(untold), now)
        case LogRead():
            return _log(state, group, fact, now)
        case _:
            assert_never(fact)


def _spawned(state: RigState, group: GroupState, fact: EngineSpawned, now: Mono) -> Fed:
    group = replace(
        group,
        command=fact.command,
        last_command=fact.command,
        last_env=fact.env,
        running_sleep=SLEEP_FLAG in fact.command,
        differs=(),
    )
    changes = "; ".join(fact.changes)
    say = f"started as pid {fact.process.pid}"
    if changes:
        say += f"; changed since the last start: {changes}"
    state, orders = feed_engine(state, group, Spawned(fact.process), now)
    return state, (WriteJournal(group.spec.name, "started", say), *orders)


def _exited(state: RigState, group: GroupState, fact: EngineExited, now: Mono) -> Fed:
    during = ""
    if isinstance(group.engine.state, Loading) and group.startup is not None:
        during = phases.phase(group.startup)
    failure = classify(group.spec.name, fact.code, fact.tail, during)
    blocked = group.lost_card or _driver_broken(state)
    why = failure.line if not blocked else f"{failure.line}; not restarted: {blocked}"
    final = failure.config_error or bool(blocked)
    fault = "" if failure.kind in _OTHER_HANDS else failure.line
    group = replace(group, remedy=failure.advice, fault=fault)
    notes: tuple[Order, ...] = ()
    if isinstance(group.engine.state, Draining) and fact.process == group.process:
        say = f"left by itself while it drained, answers may have broken: {failure.line}"
        notes = (WriteJournal(group.spec.name, "left", say),)
    state, orders = feed_engine(state, group, Exited(fact.process, why, final), now)
    return state, (*notes, *orders)


def _driver_broken(state: RigState) -> str:
    """A driver mismatch: what stops now does not come back before a reboot (C16)."""
    sweep = state.sweep
    return sweep.error if sweep is not None and sweep.reboot_needed else ""


def _watched(state: RigState, group: GroupState, fact: EngineWatched, now: Mono) -> Fed:
    if fact.process != group.process:
        return state, ()
    mine = tuple(sorted({*group.mine, *fact.pids}))
    group = replace(group, watched=fact, mine=mine)
    engine = group.engine.state
    if isinstance(engine, Stopping):
        return feed_engine(
            with_group(state, group), group, MembersSeen(fact.process, fact.pids), now
        )
    notes: tuple[Order, ...] = ()
    if isinstance(engine, Ready | Draining) and group.watch is not None and fact.titles:
        schedulers = sum("scheduler" in title for title in fact.titles)
        missing = _missing_ranks(group.spec.ranks, fact.titles, schedulers)
        watch, seen = watching.processes_seen(group.watch, group.spec.ranks, missing, now)
        group = replace(group, watch=watch)
        notes = journal(group.spec.name, seen)
    if isinstance(engine, Loading) and group.startup is not None:
        policy = state.spec.phases
        startup = phases.progressed(
            group.startup, group.startup.log_bytes, fact.cpu_seconds, now, policy
        )
        group = replace(group, startup=startup)
        still = phases.stuck(startup, now, policy)
        if still is not None:
            why = f"stuck in {still.say}"
            return feed_engine(with_group(state, group), group, Stuck(why), now)
    return with_group(state, group), notes


def _missing_ranks(ranks: int, titles: tuple[str, ...], schedulers: int) -> tuple[str, ...]:
    if schedulers >= ranks:
        return ()
    if ranks == 1:
        return ("scheduler",)
    found = "\n".join(titles)
    named = tuple(f"TP{rank}" for rank in range(ranks) if f"scheduler_TP{rank}" not in found)
    return named or tuple(f"scheduler {index}" for index in range(ranks - schedulers))


def _sampled(state: RigState, group: GroupState, fact: EngineSampled, now: Mono) -> Fed:
    sample = fact.sample
    if group.process is None and group.foreign is None:
        return state, ()  # its engine ended while the answer was under way
    before = group.watch or watching.begin(now, state.spec.watch, group.costs)
    watch, seen = watching.observe(before, sample, now, state.spec.watch)
    group = replace(group, sample=sample, watch=watch, costs=watch.costs)
    notes = journal(group.spec.name, seen)
    if isinstance(group.engine.state, Draining):
        state, orders = feed_engine(state, group, InFlight(in_flight(group)), now)
        return state, (*notes, *orders)
    return with_group(state, group), notes


def in_flight(group: GroupState) -> Reading:
    """Open requests by the engine's own count: HTTP requests, else decoding plus queued."""
    sample, watch = group.sample, group.watch
    if sample is None:
        return NOT_YET
    if not isinstance(sample.active, Missing):
        return sample.active
    waiting = known(sample.waiting_tokens, 0.0)
    counted = count_answers(sample.running, sample.queued, waiting)
    if isinstance(counted, Missing) or watch is None or watch.doing is not Doing.PREFILLING:
        return counted
    return max(counted, 1.0)  # told by its chunks alone


def count_answers(running: Reading, queued: Reading, waiting_tokens: Reading) -> Reading:
    """Answers under way by the scheduler's counts; a prompt that is being read is one too.

    A first prompt in its chunks is in neither count: only its tokens to come betray it, and they
    are tokens, not answers.
    """
    for part in (running, queued, waiting_tokens):
        if isinstance(part, Missing):
            return part
    counted = known(running, 0.0) + known(queued, 0.0)
    return max(counted, 1.0) if known(waiting_tokens, 0.0) > 0 else counted


def _log(state: RigState, group: GroupState, fact: LogRead, now: Mono) -> Fed:
    orders: tuple[Order, ...] = ()
    if group.startup is not None and isinstance(group.engine.state, Loading):
        startup = group.startup
        if fact.grew:
            grown = startup.log_bytes + fact.grew
            startup = replace(startup, log_bytes=grown, progress_at=now)
        for each in fact.facts:
            startup = phases.observe(startup, each, now)
        group = replace(group, startup=startup)
    if group.watch is not None and not fact.old:
        watch = group.watch
        for each in fact.facts:
            watch = watching.log_seen(watch, each, now)
        group = replace(group, watch=watch)
    state = with_group(state, group)
    for each in fact.facts:
        current = state.group(group.spec.name)
        assert current is not None
        engine = current.engine.state
        match each:
            case Milestone(step=Step.FIRED_UP):
                state, more = feed_engine(state, current, ReadySeen(), now)
            case Decoded() if current.startup is None and isinstance(engine, Loading):
                # Found again, its start unseen: the line that said so may have left the log.
                state, more = feed_engine(state, current, ReadySeen(), now)
            case Fault(trouble=Trouble.PORT, say=say) if isinstance(current.engine.state, Loading):
                # The real server then hangs for ever, holding its memory.
                state, more = feed_engine(state, current, Stuck(say), now)
            case _:
                continue
        orders = (*orders, *more)
    current = state.group(group.spec.name)
    assert current is not None
    if fact.old:
        return state, orders
    faults = [each.say for each in fact.facts if isinstance(each, Fault)]
    current, notes = told_faults(current, faults, now)
    return with_group(state, current), (*orders, *notes)
