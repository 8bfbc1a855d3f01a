"""The daemon has begun: what was wanted and is not so is taken up again, derived, not replayed."""

from __future__ import annotations

from dataclasses import replace

from rigctl.core.endpoint_states import followed
from rigctl.core.engine_states import (
    SIGTERM,
    Draining,
    Loading,
    Off,
    Ready,
    Stage,
    StartAsked,
    StopAsked,
    Stopping,
    ThenCrash,
)
from rigctl.core.ids import GroupName, Mono
from rigctl.core.on_endpoint import take_up
from rigctl.core.operations import end, put, running_for
from rigctl.core.orders import LookNow, Order, SignalMain, TellPerson, WriteJournal
from rigctl.core.run_endpoint import orphans
from rigctl.core.run_engine import Fed, feed_engine
from rigctl.core.state import GroupState, RigState, with_group

_ITS_DAEMONS = ("nvml-release", "power-limit", "abort", "endpoint-restart")
"""Operations that live in a daemon's memory alone."""


def on_began(state: RigState, first: bool, now: Mono, fresh: tuple[GroupName, ...] = ()) -> Fed:
    """Take up every group where it was left.

    `first`: no daemon ever ran on this home; `fresh`: groups that no earlier one knew.
    """
    orders: tuple[Order, ...] = ()
    for operation in state.operations:
        known = operation.group is not None and state.group(operation.group) is not None
        if operation.running and (not known or operation.kind in _ITS_DAEMONS):
            why = "the daemon was restarted before this was done; ask again"
            ended = end(operation, "cancelled", why, now)
            state = replace(state, operations=put(state.operations, ended))
    for group in state.groups:
        if (first or group.spec.name in fresh) and group.spec.start_with_daemon:
            group = replace(group, wanted=True)
            state = with_group(state, group)
        if not state.confirmed:
            continue  # nothing is started or signalled until a person has looked
        state, more = _take_up(state, group, now)
        orders = (*orders, *_told(group), *more, LookNow(group.spec.name))
    if not state.confirmed:
        return state, orders
    state, more = _endpoint(state, now)
    return state, (*orders, *more)


def _endpoint(state: RigState, now: Mono) -> Fed:
    """What the shell found of the proxy is told, and what is wanted of it taken up."""
    endpoint = state.endpoint
    notes: tuple[Order, ...] = ()
    serving = endpoint.serving
    if serving is not None and serving.adopted:
        pid = serving.process.pid
        say = f"the endpoint's proxy is taken over from an earlier daemon as pid {pid}"
        notes = (WriteJournal("", "endpoint-adopted", say),)
    if endpoint.last_exit and serving is None:
        notes = (WriteJournal("", "endpoint-crashed", endpoint.last_exit),)
    alive = {process.pid for process in followed(endpoint.keeper)}
    for pid, epoch in endpoint.epochs:
        if pid not in alive:
            notes = (*notes, *orphans(state, epoch))
    state, orders = take_up(state, now)
    return state, (*notes, *orders)


def _told(group: GroupState) -> tuple[Order, ...]:
    """What was found, for the journal; a death that no daemon saw is told like any other."""
    name, engine = group.spec.name, group.engine.state
    match engine:
        case Loading() | Ready() | Draining() | Stopping() if group.adopted:
            say = f"taken over from an earlier daemon as pid {engine.process.pid}"
            return (WriteJournal(name, "adopted", say),)
        case Stopping(stage=Stage.CLEAR, then=ThenCrash(why=why)):
            return (WriteJournal(name, "crashed", why), TellPerson("crashed", name, why))
        case _:
            return ()


def _take_up(state: RigState, group: GroupState, now: Mono) -> Fed:
    name = group.spec.name
    open_operations = running_for(state.operations, name)
    match group.engine.state:
        case Ready() | Loading() if group.lease is not None or not group.wanted:
            drain = group.spec.drain if group.lease is None else state.spec.free_drain
            why = "asked before the daemon was restarted"
            return feed_engine(state, group, StopAsked(why, drain), now)
        case Ready() if any(
            each.kind in ("restart", "sleep") and "ready" not in each.marks
            for each in open_operations
        ):
            why = "restart asked before the daemon was restarted"
            return feed_engine(state, group, StopAsked(why, group.spec.drain, True), now)
        case Stopping(stage=Stage.TERM, process=process):
            # Asked before; whether the signal went out, nobody knows. A second one harms nothing.
            return state, (SignalMain(name, process, SIGTERM),)
        case Off() if group.wanted and group.lease is None:
            return feed_engine(state, group, StartAsked("wanted"), now)
        case _:
            return state, ()
