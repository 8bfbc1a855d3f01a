"""What every asked-for change shares: refusals, new operations, the beginning of a stop."""

from __future__ import annotations

from dataclasses import replace

from rigctl.core.card_use import uses
from rigctl.core.commands import Accepted, Answer, Refused
from rigctl.core.engine_states import InFlight, StopAsked
from rigctl.core.facts import CommandAsked
from rigctl.core.ids import GroupName, Mono, OperationId
from rigctl.core.operations import Operation, end, put
from rigctl.core.orders import LookNow, Order
from rigctl.core.reading import Missing
from rigctl.core.run_engine import feed_engine
from rigctl.core.state import GroupState, RigState, with_group
from rigctl.core.watch_state import Doing

Outcome = tuple[RigState, tuple[Order, ...], Answer]


def ask_stop(
    state: RigState, group: GroupState, why: str, drain: float, restart: bool, now: Mono
) -> tuple[RigState, tuple[Order, ...]]:
    """Begin the end of an engine; a sample that just saw it idle counts as the first of two."""
    name = group.spec.name
    if group.watch is not None and group.watch.doing in (Doing.HUNG, Doing.BROKEN):
        # Answers that cannot end are not waited for.
        drain, why = 0.0, f"{why}; it is {group.watch.doing.value}, so no answer was waited for"
    state, orders = feed_engine(
        with_group(state, group), group, StopAsked(why, drain, restart), now
    )
    sample = group.sample
    fresh = sample is not None and now - sample.at <= 2.0
    if fresh and sample is not None and not isinstance(sample.active, Missing):
        current = state.group(name)
        assert current is not None
        state, more = feed_engine(state, current, InFlight(sample.active), now)
        orders = (*orders, *more)
    return state, (*orders, LookNow(name))


def held_cards(state: RigState, group: GroupState) -> str:
    """Why this group's cards are not free for it, in words; empty when they are."""
    if group.spec.missing:
        return "; ".join(group.spec.missing)
    if not group.spec.cards:
        return ""
    sweep = state.sweep
    if sweep is None:
        return "NVML has not answered yet; its cards are not known to be free"
    if sweep.error or not sweep.answered:
        return f"NVML cannot say whether its cards are free: {sweep.error or 'not answering'}"
    # A scheduler that has just died is still listed with its memory: it is no stranger's.
    ours = group.mine if group.process is not None else ()
    busy = [
        each.say
        for each in uses(group.spec.cards, sweep, ours, state.baselines)
        if each.kind not in ("free", "ours")
    ]
    return "; ".join(busy)


def cannot_end(state: RigState, group: GroupState, asked: CommandAsked) -> tuple[str, str] | None:
    """Why an engine must not be ended now, with its code."""
    name = group.spec.name
    if group.foreign is not None and group.foreign.pid is not None and group.process is None:
        say = (
            f"{name} runs outside rigctl (pid {group.foreign.pid}); rigctl signals only what it "
            f"started. End it yourself, then `rigctl start {name}`"
        )
        return say, "foreign"
    sweep = state.sweep
    force = getattr(asked.command, "force", False)
    if sweep is not None and sweep.reboot_needed and not force and group.process is not None:
        say = (
            f"{sweep.error}: a stopped server will not come back before a reboot; "
            "add --force to stop it all the same"
        )
        return say, "needs-confirmation"
    return None


def new_operation(
    asked: CommandAsked, kind: str, group: GroupName | None, now: Mono, say: str = ""
) -> Operation:
    return Operation(asked.operation, kind, group, asked.by, now, say=say)


def cancel(state: RigState, operation: Operation, why: str, now: Mono) -> RigState:
    ended = end(operation, "cancelled", why, now)
    return replace(state, operations=put(state.operations, ended))


def accept(state: RigState, operation: Operation, orders: tuple[Order, ...]) -> Outcome:
    state = replace(
        state,
        operations=put(state.operations, operation),
        next_operation=OperationId(operation.id + 1),
    )
    return state, orders, Accepted(operation.id, operation.say)


def refuse(state: RigState, say: str, code: str) -> Outcome:
    return state, (), Refused(say, code)
