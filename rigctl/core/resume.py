"""The daemon has begun: what was wanted and is not so is taken up again, derived, not replayed."""

from __future__ import annotations

from dataclasses import replace

from rigctl.core.engine_states import Loading, Off, Ready, StartAsked, StopAsked
from rigctl.core.ids import Mono
from rigctl.core.operations import end, put, running_for
from rigctl.core.orders import LookNow, Order
from rigctl.core.run_engine import Fed, feed_engine
from rigctl.core.state import GroupState, RigState, with_group

_ITS_DAEMONS = ("nvml-release", "power-limit")
"""Operations that live in a daemon's memory alone."""


def on_began(state: RigState, first: bool, now: Mono) -> Fed:
    """Take up every group where it was left. `first`: no daemon ever ran on this home."""
    orders: tuple[Order, ...] = ()
    for operation in state.operations:
        known = operation.group is not None and state.group(operation.group) is not None
        if operation.running and (not known or operation.kind in _ITS_DAEMONS):
            why = "the daemon was restarted before this was done; ask again"
            ended = end(operation, "cancelled", why, now)
            state = replace(state, operations=put(state.operations, ended))
    for group in state.groups:
        if first and group.spec.start_with_daemon:
            group = replace(group, wanted=True)
            state = with_group(state, group)
        if not state.confirmed:
            continue  # nothing is started or signalled until a person has looked
        state, more = _take_up(state, group, now)
        orders = (*orders, *more, LookNow(group.spec.name))
    return state, orders


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
        case Off() if group.wanted and group.lease is None:
            return feed_engine(state, group, StartAsked("wanted"), now)
        case _:
            return state, ()
