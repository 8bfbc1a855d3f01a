"""A person asked for something: accept it with what will happen, or refuse it in words."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from rigctl.core.asking import (
    Outcome,
    accept,
    ask_stop,
    cancel,
    cannot_end,
    held_cards,
    new_operation,
    refuse,
)
from rigctl.core.commands import (
    AbortAnswer,
    ConfirmState,
    EndLeftovers,
    FreeGroup,
    LendStarted,
    ReclaimGroup,
    ReleaseNvml,
    RestartEndpoint,
    RestartGroup,
    SetPowerLimit,
    SetSleepOnIdle,
    StartGroup,
    StopDaemon,
    StopGroup,
)
from rigctl.core.engine_states import (
    SIGKILL,
    SIGTERM,
    BackingOff,
    Draining,
    Failed,
    Loading,
    Off,
    Ready,
    Spawning,
    StartAsked,
    Stopping,
    Waiting,
)
from rigctl.core.facts import CommandAsked
from rigctl.core.ids import Mono
from rigctl.core.on_endpoint import abort_answer, restart_endpoint
from rigctl.core.on_lease import free, lend_started, reclaim
from rigctl.core.operations import end, running_for
from rigctl.core.orders import (
    EndDaemon,
    LimitPower,
    LookNow,
    NoteOverride,
    Order,
    PauseNvml,
    SignalEndpoint,
    SignalWhole,
)
from rigctl.core.reading import Missing
from rigctl.core.resume import on_began
from rigctl.core.run_engine import Fed, feed_engine
from rigctl.core.state import UNREADABLE, GroupState, RigState, with_group


def on_command(state: RigState, asked: CommandAsked, now: Mono) -> Outcome:
    """Decide one command. A refusal changes nothing."""
    command = asked.command
    if not state.confirmed and not isinstance(command, ConfirmState | StopDaemon):
        return refuse(
            state,
            "the state file could not be read and the rig was rebuilt from /proc; look at "
            "`rigctl status`, then `rigctl daemon confirm`",
            "unconfirmed",
        )
    match command:
        case SetPowerLimit():
            return _power_limit(state, asked, command, now)
        case ReleaseNvml(seconds):
            operation = new_operation(asked, "nvml-release", None, now, f"for {seconds:.0f} s")
            return accept(state, operation, (PauseNvml(operation.id, seconds),))
        case ConfirmState():
            operation = end(new_operation(asked, "confirm", None, now), "done", "confirmed", now)
            state, orders = _confirmed(state, now)
            return accept(state, operation, orders)
        case StopDaemon(stop_engines):
            return _stop_daemon(state, asked, stop_engines, now)
        case AbortAnswer():
            return abort_answer(state, asked, command, now)
        case RestartEndpoint():
            return restart_endpoint(state, asked, now)
        case _:
            pass
    group = state.group(command.group)
    if group is None:
        names = ", ".join(each.spec.name for each in state.groups)
        return refuse(state, f"no group is called {command.group}; there are: {names}", "unknown")
    match command:
        case StartGroup():
            return _start(state, group, asked, now)
        case StopGroup(drain_seconds=drain):
            return _stop(state, group, asked, now, drain, restart=False)
        case RestartGroup(drain_seconds=drain):
            return _stop(state, group, asked, now, drain, restart=True)
        case FreeGroup():
            return free(state, group, asked, command, now)
        case LendStarted():
            return lend_started(state, group, asked, command, now)
        case ReclaimGroup():
            return reclaim(state, group, asked, command, now)
        case SetSleepOnIdle():
            return _sleep(state, group, asked, command, now)
        case EndLeftovers():
            return _end_leftovers(state, group, asked, now)
        case _:
            assert_never(command)


def _confirmed(state: RigState, now: Mono) -> Fed:
    """A person has looked: the rig goes on as it would have at the daemon's start."""
    if state.confirmed:
        return state, ()
    others = tuple(each for each in state.troubles if each.id != UNREADABLE)
    return on_began(replace(state, confirmed=True, troubles=others), False, now)


# ---- start, stop, restart ------------------------------------------------------------


def _start(state: RigState, group: GroupState, asked: CommandAsked, now: Mono) -> Outcome:
    name = group.spec.name
    if group.lease is not None:
        return refuse(
            state,
            f"{name} is lent to “{group.lease.holder}”; `rigctl reclaim {name}` takes it back",
            "lent",
        )
    if group.foreign is not None and group.foreign.pid is not None:
        return refuse(
            state,
            f"a server that rigctl did not start (pid {group.foreign.pid}) answers on "
            f"{group.spec.url}; end it yourself, then `rigctl start {name}`",
            "port-taken",
        )
    if isinstance(group.engine.state, Ready | Loading | Waiting | Spawning):
        return refuse(state, f"{name} already runs or starts", "already")
    held = held_cards(state, group)
    if held and not isinstance(group.engine.state, Stopping | Draining):
        return refuse(state, f"{name} cannot start: {held}", "cards")
    for other in running_for(state.operations, name):
        state = cancel(state, other, f"start asked by {asked.by}", now)
    group = replace(group, wanted=True, crashes=0, last_exit="", remedy="")
    state, orders = feed_engine(with_group(state, group), group, StartAsked(), now)
    operation = new_operation(asked, "start", name, now, "waits for its turn")
    return accept(state, operation, (*orders, LookNow(name)))


def _stop(
    state: RigState,
    group: GroupState,
    asked: CommandAsked,
    now: Mono,
    drain: float | None,
    *,
    restart: bool,
) -> Outcome:
    name = group.spec.name
    refusal = cannot_end(state, group, asked)
    if refusal:
        return refuse(state, *refusal)
    if group.lease is not None and restart:
        return refuse(state, f"{name} is lent; `rigctl reclaim {name}` first", "lent")
    if restart and not isinstance(group.engine.state, Off | Failed | BackingOff):
        held = held_cards(state, group)
        if held:
            return refuse(state, f"{name} would not come back: {held}", "cards")
    if not restart and isinstance(group.engine.state, Off | Failed):
        return refuse(state, f"{name} does not run; nothing to stop", "already")
    running = running_for(state.operations, name)
    freed = [other for other in running if other.kind == "free"]
    for other in running:
        if other not in freed:
            state = cancel(state, other, f"stop asked by {asked.by}", now)
    patience = group.spec.drain if drain is None else drain
    group = replace(group, wanted=restart, crashes=0)
    state, orders = ask_stop(state, group, f"stopped by {asked.by}", patience, restart, now)
    operation = new_operation(asked, "restart" if restart else "stop", name, now)
    if freed:
        # The free gets there sooner, and its lease stays as it was asked for.
        say = "the free under way ends it; `rigctl status` shows when"
        operation = end(operation, "done", say, now)
    return accept(state, operation, orders)


# ---- the rest ------------------------------------------------------------------------


def _sleep(
    state: RigState, group: GroupState, asked: CommandAsked, command: SetSleepOnIdle, now: Mono
) -> Outcome:
    name = group.spec.name
    word = "on" if command.on else "off"
    note = NoteOverride(name, command.on, asked.by)
    # What is leaving, to be stopped or lent, is not brought back by a wish for its next start.
    runs = isinstance(group.engine.state, Ready | Loading)
    group = replace(group, sleep_on_idle=command.on)
    operation = new_operation(asked, "sleep", name, now, f"sleep-on-idle {word}")
    if group.running_sleep == command.on and runs:
        ended = end(operation, "done", f"it already runs with sleep-on-idle {word}", now)
        return accept(with_group(state, group), ended, (note,))
    if not runs or not command.restart:
        ended = end(operation, "done", f"sleep-on-idle {word} from the next start on", now)
        return accept(with_group(state, group), ended, (note,))
    refusal = cannot_end(state, group, asked)
    if refusal:
        return refuse(state, *refusal)
    for other in running_for(state.operations, name):
        state = cancel(state, other, f"sleep-on-idle {word} asked by {asked.by}", now)
    before: dict[str, float] = {}
    if group.watched is not None and not isinstance(group.watched.scheduler_cpu, Missing):
        before["scheduler_cpu_before"] = group.watched.scheduler_cpu
    idle = group.sample is not None and group.sample.active == 0.0
    watts = _watts(state, group)
    if idle and watts is not None:
        before["watts_before"] = watts
    group = replace(group, wanted=True)
    why = f"sleep-on-idle {word} asked by {asked.by}"
    state, orders = ask_stop(state, group, why, group.spec.drain, True, now)
    return accept(state, replace(operation, figures=before), (note, *orders))


def _watts(state: RigState, group: GroupState) -> float | None:
    """The group's watts now, or None where a card does not tell."""
    if state.sweep is None or not group.spec.cards:
        return None
    found = {each.uuid: each.watts for each in state.sweep.cards}
    parts = [found.get(card) for card in group.spec.cards]
    known = [each for each in parts if isinstance(each, float)]
    return sum(known) if len(known) == len(parts) else None


def _power_limit(
    state: RigState, asked: CommandAsked, command: SetPowerLimit, now: Mono
) -> Outcome:
    present = () if state.sweep is None else state.sweep.cards
    if command.card is not None:
        cards = tuple(each.uuid for each in present if each.uuid == command.card)
        if not cards:
            return refuse(state, f"no card {command.card}; see `rigctl status`", "unknown")
    elif command.group is not None:
        group = state.group(command.group)
        if group is None:
            return refuse(state, f"no group is called {command.group}", "unknown")
        cards = group.spec.cards
    else:
        cards = tuple(each.uuid for each in present)
    if not cards:
        return refuse(state, "there are no cards to limit", "unknown")
    if command.watts <= 0:
        return refuse(state, f"{command.watts:g} W is not a power limit", "usage")
    operation = replace(
        new_operation(asked, "power-limit", command.group, now, f"{command.watts:g} W"),
        pending=tuple(cards),
    )
    orders = tuple(LimitPower(operation.id, card, command.watts) for card in cards)
    return accept(state, operation, orders)


def _end_leftovers(state: RigState, group: GroupState, asked: CommandAsked, now: Mono) -> Outcome:
    name = group.spec.name
    engine = group.engine.state
    if not isinstance(engine, Stopping) or not engine.leftovers:
        return refuse(state, f"{name} has no leftover processes of its own", "already")
    pids = ", ".join(str(pid) for pid in engine.leftovers)
    operation = end(
        new_operation(asked, "leftovers", name, now), "done", f"signalled pid {pids}", now
    )
    return accept(state, operation, (SignalWhole(name, engine.process, SIGKILL), LookNow(name)))


def _stop_daemon(state: RigState, asked: CommandAsked, stop_engines: bool, now: Mono) -> Outcome:
    running = [each for each in state.groups if not isinstance(each.engine.state, Off | Failed)]
    if stop_engines and running:
        names = ", ".join(each.spec.name for each in running)
        return refuse(
            state,
            f"{names} still run; `rigctl stop GROUP` each of them, then `rigctl daemon stop`",
            "busy",
        )
    say = "engines go on" if running else "no engine runs"
    orders: tuple[Order, ...] = ()
    serving = state.endpoint.serving
    if serving is not None and stop_engines:
        orders = (SignalEndpoint(serving.process, SIGTERM),)
        say = f"{say}; the endpoint finishes what it has and ends"
    elif serving is not None:
        say = f"{say}, and so does the endpoint"
    operation = end(new_operation(asked, "daemon-stop", None, now), "done", say, now)
    return accept(state, operation, (*orders, EndDaemon()))
