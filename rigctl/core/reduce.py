"""Facts go in; a new state, a list of orders and, for a command, an answer come out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from rigctl.core import lease as leases
from rigctl.core.asking import held_cards
from rigctl.core.commands import Answer
from rigctl.core.engine_states import Failed, GateSeen, Off, Spawning, Tick, Waiting, deadline_of
from rigctl.core.facts import (
    CardsSampled,
    CommandAsked,
    DaemonBegan,
    EndpointExited,
    EndpointLinked,
    EndpointRead,
    EndpointRefused,
    EndpointSaid,
    EndpointSpawned,
    EndpointSpawnFailed,
    EndpointUnlinked,
    EngineCounted,
    EngineExited,
    EngineReady,
    EngineSampled,
    EngineSilent,
    EngineSpawned,
    EngineSpawnFailed,
    EngineWatched,
    Fact,
    ForeignEngineSeen,
    GroupFound,
    HolderGone,
    HostSampled,
    LogRead,
    NvmlReleased,
    PowerLimitSet,
    Resumed,
    RigRead,
    Ticked,
    TroubleSeen,
)
from rigctl.core.ids import Mono, Wall
from rigctl.core.on_cards import on_sweep, releases
from rigctl.core.on_command import on_command
from rigctl.core.on_endpoint import endpoint_timers, on_endpoint
from rigctl.core.on_engine import EngineFact, on_engine
from rigctl.core.on_lease import end_lease, moved_leases
from rigctl.core.on_rig import (
    on_foreign,
    on_found,
    on_limit,
    on_nvml_released,
    on_resumed,
    on_trouble,
)
from rigctl.core.orders import Order, TellPerson, WriteJournal
from rigctl.core.progress import advance
from rigctl.core.resume import on_began
from rigctl.core.run_endpoint import witness
from rigctl.core.run_engine import Fed, feed_engine
from rigctl.core.state import GroupState, RigState, with_group

FRESH = 2.0
"""Seconds that a look at the cards may be older than the start which it lets pass."""
NOTICEABLE = 1.0
"""Seconds by which the wall clock must leave the steady one to count as set."""


@dataclass(frozen=True, slots=True)
class Reduced:
    state: RigState
    orders: tuple[Order, ...]
    answer: Answer | None = None
    """To a command; None for every other fact."""


def reduce(state: RigState, fact: Fact, now: Mono, wall: Wall) -> Reduced:
    """Take one fact, then let everything that waits on time or on cards move."""
    state = replace(_clock_set(state, now, wall), wall=wall, at=now)
    answer: Answer | None = None
    if isinstance(fact, CommandAsked):
        state, orders, answer = on_command(state, fact, now)
    else:
        state, orders = _take(state, fact, now)
    for settle in (_timers, endpoint_timers, witness, releases, _gates, _leases, advance):
        state, more = settle(state, now)
        orders = (*orders, *more)
    return Reduced(state, orders, answer)


def _clock_set(state: RigState, now: Mono, wall: Wall) -> RigState:
    """Leases are kept in wall time, to outlive a reboot; setting that clock does not move them."""
    if state.at is None:
        return state
    step = (wall - state.wall) - (now - state.at)
    return state if abs(step) < NOTICEABLE else moved_leases(state, step)


def _take(state: RigState, fact: Fact, now: Mono) -> Fed:
    match fact:
        case CardsSampled(sweep, moment):
            return on_sweep(state, sweep, moment, now)
        case EngineSampled():
            return _engine(state, fact.sample.group, fact, now)
        case (
            EngineSpawned()
            | EngineSpawnFailed()
            | EngineReady()
            | EngineExited()
            | EngineWatched()
            | EngineCounted()
            | EngineSilent()
            | LogRead()
        ):
            return _engine(state, fact.group, fact, now)
        case HolderGone():
            return _holder_gone(state, fact, now)
        case ForeignEngineSeen():
            return on_foreign(state, fact)
        case GroupFound():
            return on_found(state, fact)
        case PowerLimitSet():
            return on_limit(state, fact, now)
        case RigRead(spec):
            return replace(state, spec=spec), ()
        case HostSampled(host):
            return replace(state, host=host), ()
        case Resumed(seconds):
            return on_resumed(state, seconds, now)
        case TroubleSeen():
            return on_trouble(state, fact)
        case NvmlReleased():
            return on_nvml_released(state, fact, now)
        case DaemonBegan(first, fresh):
            return on_began(state, first, now, fresh)
        case (
            EndpointRead()
            | EndpointSpawned()
            | EndpointSpawnFailed()
            | EndpointExited()
            | EndpointLinked()
            | EndpointUnlinked()
            | EndpointRefused()
            | EndpointSaid()
        ):
            return on_endpoint(state, fact, now)
        case Ticked() | CommandAsked():
            return state, ()
        case _:
            assert_never(fact)


def _engine(
    state: RigState,
    name: str,
    fact: EngineFact,
    now: Mono,
) -> Fed:
    group = state.group(name)
    return (state, ()) if group is None else on_engine(state, group, fact, now)


def _holder_gone(state: RigState, fact: HolderGone, now: Mono) -> Fed:
    """`rigctl lend` or its command ended. While the command lives, the cards are still in use."""
    group = state.group(fact.group)
    if group is None or group.lease is None:
        return state, ()
    lease = group.lease
    if fact.process == lease.holder_process:
        lease = replace(lease, holder_process=None)
    elif fact.process == lease.worker:
        lease = replace(lease, worker=None)
    else:
        return state, ()
    group = replace(group, lease=lease)
    if lease.holder_process is not None or (lease.worker is not None and not lease.kill_at_end):
        return with_group(state, group), ()
    why = f"“{lease.holder}” has ended; the cards come back"
    return end_lease(with_group(state, group), group, True, now, why)


def _timers(state: RigState, now: Mono) -> Fed:
    orders: tuple[Order, ...] = ()
    for group in state.groups:
        due = deadline_of(group.engine.state)
        if due is None or now < due:
            continue
        state, more = feed_engine(state, group, Tick(), now)
        orders = (*orders, *more)
    return state, orders


def _gates(state: RigState, now: Mono) -> Fed:
    """Let at most one waiting group start: its cards free, its turn come."""
    orders: tuple[Order, ...] = ()
    for group in state.groups:
        if not isinstance(group.engine.state, Waiting):
            continue
        closed = _closed(state, group.spec.name, now) or _unseen(state, group.engine.state, group)
        closed = closed or held_cards(state, group)
        if closed == group.engine.state.on and closed:
            continue
        state, more = feed_engine(state, group, GateSeen(not closed, closed), now)
        orders = (*orders, *more)
    return state, orders


def turn_at(state: RigState, name: str) -> Mono | None:
    """When this group's turn comes after another group's start; None: at once (C09)."""
    if state.last_spawn is None or state.last_spawn[0] == name:
        return None
    return Mono(state.last_spawn[1] + state.spec.stagger)


def _closed(state: RigState, name: str, now: Mono) -> str:
    if not state.confirmed:
        return "the rebuilt state is not confirmed; `rigctl daemon confirm`"
    for other in state.groups:
        if other.spec.name != name and isinstance(other.engine.state, Spawning):
            return f"{other.spec.name} is being started"
    turn = turn_at(state, name)
    if turn is not None and now < turn:
        return f"its turn after {state.last_spawn[0]}" if state.last_spawn else ""
    return ""


def _unseen(state: RigState, waiting: Waiting, group: GroupState) -> str:
    """A look at the cards from before the start was asked for tells nothing of now."""
    sweep = state.sweep
    if not group.spec.cards or sweep is None or sweep.error or not sweep.answered:
        return ""
    return "its cards are looked at" if sweep.at < waiting.since - FRESH else ""


def _leases(state: RigState, now: Mono) -> Fed:
    """An overdue lease is said once, aloud; nothing is ended but what `--kill` allowed."""
    orders: tuple[Order, ...] = ()
    if not state.confirmed:
        return state, orders
    for group in state.groups:
        lease = group.lease
        if lease is None or lease.warned or not leases.overdue(lease, state.wall):
            continue
        if not isinstance(group.engine.state, Off | Failed):
            continue
        name = group.spec.name
        say = f"the lease of “{lease.holder}” is over; `rigctl reclaim {name}` takes the cards back"
        warned = replace(group, lease=leases.warn(lease))
        state = with_group(state, warned)
        orders = (*orders, WriteJournal(name, "overdue", say), TellPerson("overdue", name, say))
        if lease.kill_at_end and lease.worker is not None:
            why = f"the lease of “{lease.holder}” is over and it was lent with --kill"
            state, more = end_lease(state, warned, True, now, why)
            orders = (*orders, *more)
    return state, orders
