"""Free, lend, reclaim: cards that go to other work and come back."""

from __future__ import annotations

from dataclasses import replace

from rigctl.core.asking import Outcome, accept, ask_stop, cancel, cannot_end, new_operation, refuse
from rigctl.core.commands import FreeGroup, LendStarted, ReclaimGroup
from rigctl.core.engine_states import (
    BackingOff,
    Draining,
    Failed,
    Off,
    Ready,
    StartAsked,
    StopCancelled,
)
from rigctl.core.facts import CommandAsked
from rigctl.core.ids import Mono, Wall
from rigctl.core.lease import Lease
from rigctl.core.operations import end, running_for
from rigctl.core.orders import EndWorker, LookNow, Order, WriteJournal
from rigctl.core.run_engine import feed_engine
from rigctl.core.state import GroupState, RigState, with_group


def free(
    state: RigState, group: GroupState, asked: CommandAsked, command: FreeGroup, now: Mono
) -> Outcome:
    name = group.spec.name
    draining = [each for each in running_for(state.operations, name) if each.kind == "free"]
    if command.toggle and draining and isinstance(group.engine.state, Draining):
        back = ReclaimGroup(name)
        return reclaim(state, group, replace(asked, command=back), back, now)
    if draining:
        return refuse(state, f"{name} is already being freed", "busy")
    if group.lease is not None:
        return refuse(
            state,
            f"{name} is already lent to “{group.lease.holder}”; `rigctl reclaim {name}` ends that",
            "lent",
        )
    refusal = cannot_end(state, group, asked)
    if refusal:
        return refuse(state, *refusal)
    for other in running_for(state.operations, name):
        state = cancel(state, other, f"free asked by {asked.by}", now)
    running = not isinstance(group.engine.state, Off | Failed)
    lease = Lease(
        holder=command.holder,
        since=state.wall,
        holder_process=asked.holder,
        bring_back=group.wanted or running,
    )
    group = replace(group, lease=lease, wanted=False, crashes=0)
    drain = state.spec.free_drain if command.drain_seconds is None else command.drain_seconds
    why = f"freed for “{command.holder}”"
    state, orders = ask_stop(state, group, why, drain, False, now)
    operation = replace(
        new_operation(asked, "free", name, now),
        holder=command.holder,
        for_seconds=command.for_seconds,
    )
    return accept(state, operation, orders)


def lend_started(
    state: RigState, group: GroupState, asked: CommandAsked, command: LendStarted, now: Mono
) -> Outcome:
    if group.lease is None or asked.holder is None:
        return refuse(state, f"{group.spec.name} is not lent to that process", "not-lent")
    lease = replace(group.lease, worker=asked.holder, kill_at_end=command.kill_at_end)
    operation = end(new_operation(asked, "lend", group.spec.name, now), "done", "running", now)
    return accept(with_group(state, replace(group, lease=lease)), operation, ())


def reclaim(
    state: RigState, group: GroupState, asked: CommandAsked, command: ReclaimGroup, now: Mono
) -> Outcome:
    name = group.spec.name
    lease = group.lease
    if lease is None:
        return refuse(state, f"{name} is not lent; `rigctl start {name}` starts it", "not-lent")
    state, orders = end_lease(state, group, command.start, now, f"reclaimed by {asked.by}")
    operation = new_operation(asked, "reclaim", name, now, "waits for its cards")
    current = state.group(name)
    if current is not None and isinstance(current.engine.state, Ready):
        operation = end(operation, "done", "the free was cancelled; the engine never stopped", now)
    elif not command.start or not lease.bring_back:
        operation = end(operation, "done", "the cards are the rig's again; engine left off", now)
    return accept(state, operation, orders)


def moved_leases(state: RigState, step: float) -> RigState:
    """The wall clock was set by `step` seconds: begin and end of every lease go with it."""
    for group in state.groups:
        lease = group.lease
        if lease is not None:
            until = None if lease.until is None else Wall(lease.until + step)
            moved = replace(lease, since=Wall(lease.since + step), until=until)
            state = with_group(state, replace(group, lease=moved))
    return state


def end_lease(
    state: RigState, group: GroupState, start: bool, now: Mono, why: str
) -> tuple[RigState, tuple[Order, ...]]:
    """The lease is over: keep or bring back the engine, end only what `lend --kill` started."""
    lease = group.lease
    if lease is None:
        return state, ()
    back = start and lease.bring_back
    orders: tuple[Order, ...] = (WriteJournal(group.spec.name, "lease-ended", why),)
    if lease.kill_at_end and lease.worker is not None and state.confirmed:
        orders = (*orders, EndWorker(group.spec.name, lease.worker))
    for other in running_for(state.operations, group.spec.name):
        state = cancel(state, other, why, now)
    group = replace(group, lease=None, wanted=back)
    if not back:
        return with_group(state, group), (*orders, LookNow(group.spec.name))
    state, first = feed_engine(with_group(state, group), group, StopCancelled(why), now)
    current = state.group(group.spec.name)
    assert current is not None
    if isinstance(current.engine.state, Off | Failed | BackingOff):
        state, second = feed_engine(state, current, StartAsked(why), now)
        first = (*first, *second)
    return state, (*orders, *first, LookNow(group.spec.name))
