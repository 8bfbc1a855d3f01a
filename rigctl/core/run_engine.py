"""Feeds the engine machine and says what its changes mean: orders, journal, people told."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from rigctl.core import phases
from rigctl.core.engine import step
from rigctl.core.engine_states import (
    AbortRequests,
    BackingOff,
    Draining,
    EngineOrder,
    Event,
    Failed,
    GateSeen,
    InFlight,
    Loading,
    Off,
    Proxied,
    Ready,
    SignalLeader,
    SignalSession,
    Spawn,
    Spawning,
    Stage,
    StartAsked,
    State,
    StopAsked,
    StopCancelled,
    Stopping,
    Stuck,
    ThenCrash,
    Tick,
    Waiting,
)
from rigctl.core.heat import Heat
from rigctl.core.ids import Mono
from rigctl.core.log_facts import Milestone, Step
from rigctl.core.orders import (
    AbortAnswers,
    LookNow,
    Order,
    SignalMain,
    SignalWhole,
    SpawnEngine,
    TellPerson,
    WriteJournal,
)
from rigctl.core.plural import answers
from rigctl.core.reading import known
from rigctl.core.state import GroupState, RigState, with_group
from rigctl.core.watch import finish
from rigctl.core.watch_state import begin
from rigctl.core.watch_words import journal

Fed = tuple[RigState, tuple[Order, ...]]

_ACTS = StartAsked | StopAsked | StopCancelled | GateSeen | InFlight | Proxied | Stuck | Tick
"""Events after which the machine may start or signal something."""


def feed_engine(state: RigState, group: GroupState, event: Event, now: Mono) -> Fed:
    """One event into one group's machine; the rig's state with everything that follows from it.

    What only happened is taken in always; what would act waits until a rebuilt state is confirmed.
    """
    if not state.confirmed and isinstance(event, _ACTS):
        return with_group(state, group), ()
    before = group.engine.state
    engine, engine_orders = step(group.engine, event, now, group.spec.policy)
    group = replace(group, engine=engine)
    notes: tuple[Order, ...] = ()
    if _changed(before, engine.state):
        state, group, notes = _entered(state, group, before, now)
    if isinstance(event, InFlight) and isinstance(engine.state, Draining) and engine.state.quiet:
        # The second of the two looks that end a drain: somebody waits, so it is taken at once.
        notes = (*notes, LookNow(group.spec.name))
    orders = tuple(_order(group, each) for each in engine_orders)
    return with_group(state, group), (*orders, *notes)


def _changed(before: State, after: State) -> bool:
    if isinstance(before, Stopping) and isinstance(after, Stopping):
        return before.stage is not after.stage
    return type(before) is not type(after)


def _order(group: GroupState, order: EngineOrder) -> Order:
    name = group.spec.name
    match order:
        case Spawn():
            return SpawnEngine(name, group.token)
        case SignalLeader(process, number):
            return SignalMain(name, process, number)
        case SignalSession(process, number):
            return SignalWhole(name, process, number)
        case AbortRequests():
            return AbortAnswers(name)
        case _:
            assert_never(order)


def _entered(
    state: RigState, group: GroupState, before: State, now: Mono
) -> tuple[RigState, GroupState, tuple[Order, ...]]:
    """What a new state brings with it beside the machine's own orders."""
    name = group.spec.name
    after = group.engine.state
    match after:
        case Spawning():
            token = f"{state.spec.tag}.{name}.{state.epoch}.{now:.3f}"
            group = replace(group, token=token, last_exit="", remedy="")
            return replace(state, last_spawn=(name, now)), group, ()
        case Loading():
            return state, _begun(state, group, now), ()
        case Ready():
            return _ready(state, group, before, now)
        case Draining():
            group = replace(group, drains=group.drains + 1)
            return state, group, (WriteJournal(name, "draining", f"drains: {_why(after.then)}"),)
        case Stopping():
            group, notes = _stopping(group, before, after)
            return state, group, (*notes, LookNow(name))
        case Off():
            notes = _watch_ends(group, now)
            took = f" in {now - before.since:.1f} s" if isinstance(before, Stopping) else ""
            group = _emptied(group)
            return state, group, (*notes, WriteJournal(name, "stopped", f"off{took}: {after.why}"))
        case Waiting() if isinstance(before, Stopping):
            return state, _emptied(group), (*_watch_ends(group, now), LookNow(name))
        case Waiting():
            return state, group, (LookNow(name),)
        case BackingOff():
            wait = after.retry_at - now
            say = f"tries again in {wait:.0f} s (crash {after.attempt}): {after.why}"
            notes = (*_watch_ends(group, now), WriteJournal(name, "back-off", say))
            return state, _emptied(group), notes
        case Failed():
            say = f"gave up: {after.why}"
            told = TellPerson("failed", name, say)
            notes = (*_watch_ends(group, now), WriteJournal(name, "failed", say), told)
            return state, _emptied(group), notes
        case _:
            assert_never(after)


def _begun(state: RigState, group: GroupState, now: Mono) -> GroupState:
    return replace(
        group,
        startup=phases.begin(now, group.spec.ranks, group.usual),
        watch=begin(now, state.spec.watch, group.costs),
        sample=None,
        watched=None,
        mine=(),
        heat=Heat(),
        verdict=None,
        adopted=False,
    )


def _emptied(group: GroupState) -> GroupState:
    """Nothing runs: no figure of the old engine is kept as if it were of now."""
    return replace(
        group,
        startup=None,
        watch=None,
        sample=None,
        watched=None,
        heat=Heat(),
        verdict=None,
        token="",
        command=(),
        running_sleep=None,
        differs=(),
        adopted=False,
    )


def _ready(
    state: RigState, group: GroupState, before: State, now: Mono
) -> tuple[RigState, GroupState, tuple[Order, ...]]:
    name = group.spec.name
    if isinstance(before, Draining):
        return state, group, (WriteJournal(name, "drain-cancelled", "serving on"),)
    seconds = now - before.since if isinstance(before, Loading) else 0.0
    if group.startup is not None and not group.adopted:
        complete = phases.observe(group.startup, Milestone(Step.FIRED_UP), now)
        group = replace(group, usual=phases.durations(complete))
        note = WriteJournal(name, "ready", f"ready after {seconds:.0f} s", {"seconds": seconds})
        return state, group, (note,)
    return state, group, (WriteJournal(name, "ready", "ready"),)


def _stopping(
    group: GroupState, before: State, after: Stopping
) -> tuple[GroupState, tuple[Order, ...]]:
    name = group.spec.name
    if isinstance(before, Stopping):
        match after.stage:
            case Stage.KILL:
                waited = before.next_at - before.since
                say = f"did not leave in {waited:.0f} s; its session is killed"
                return group, (WriteJournal(name, "killed", say),)
            case Stage.TERM | Stage.CLEAR | Stage.RELEASE:
                return group, ()
            case _:
                assert_never(after.stage)
    if isinstance(before, Draining) and after.stage is Stage.CLEAR:
        return group, ()  # it went before it was asked to; with what words, its exit tells
    if isinstance(after.then, ThenCrash):
        group = replace(group, last_exit=after.then.why, crashes=group.crashes + 1)
        told = TellPerson("crashed", name, after.then.why)
        return group, (WriteJournal(name, "crashed", after.then.why), told)
    return group, (_asked_to_leave(name, before, after),)


def _asked_to_leave(name: str, before: State, after: Stopping) -> WriteJournal:
    """With what the drain before it took, and what was cut short where it did not end by itself."""
    why = _why(after.then)
    if not isinstance(before, Draining):
        return WriteJournal(name, "stopping", f"asked to leave: {why}")
    seconds = after.since - before.since
    figures = {"drain_seconds": seconds}
    left = max(known(before.in_flight, 0.0), known(before.proxied, 0.0))
    if after.since >= before.deadline and left:
        figures["cut"] = left
        say = f"asked to leave with {answers(left, 'runs', 'run')} after its {seconds:.0f} s: {why}"
        return WriteJournal(name, "stopping", say, figures)
    say = f"asked to leave, drained in {seconds:.1f} s: {why}"
    return WriteJournal(name, "stopping", say, figures)


def _why(then: object) -> str:
    return str(getattr(then, "why", ""))


def _watch_ends(group: GroupState, now: Mono) -> tuple[Order, ...]:
    """No stall stays open in the journal past its engine's end."""
    if group.watch is None:
        return ()
    return journal(group.spec.name, finish(group.watch, now))
