"""Where each accepted command stands, read off the rig after every fact."""

from __future__ import annotations

from dataclasses import replace

from rigctl.core import phases
from rigctl.core.card_use import GIB, Use, engine_gone, uses
from rigctl.core.engine_states import (
    BackingOff,
    Draining,
    Failed,
    Loading,
    Off,
    Ready,
    Spawning,
    Stage,
    Stopping,
    Waiting,
)
from rigctl.core.ids import Mono, Wall
from rigctl.core.operations import Operation, end, mark, put
from rigctl.core.orders import Order, WriteJournal
from rigctl.core.plural import answers
from rigctl.core.reading import Missing, known
from rigctl.core.state import GroupState, RigState, with_group

FRESH = 2.0
"""Seconds that a look at the cards may be older than the free which it answers."""
SETTLE = 20.0
"""Seconds after Ready before an idle engine's watts mean something."""

Advanced = tuple[RigState, tuple[Order, ...]]


def advance(state: RigState, now: Mono) -> Advanced:
    """Bring every open operation up to date."""
    orders: tuple[Order, ...] = ()
    for operation in state.operations:
        if not operation.running or operation.group is None:
            continue
        group = state.group(operation.group)
        if group is None:
            continue
        match operation.kind:
            case "start" | "restart" | "reclaim" | "sleep":
                changed = _towards_ready(state, group, operation, now)
            case "stop":
                changed = _towards_off(state, group, operation, now)
            case "free":
                state, changed, more = _towards_free(state, group, operation, now)
                orders = (*orders, *more)
            case _:
                continue
        if changed != operation:
            state = replace(state, operations=put(state.operations, changed))
    return state, orders


def _stages(group: GroupState, operation: Operation, now: Mono) -> Operation:
    """Mark when the stages of an end were first seen, for the figures."""
    engine = group.engine.state
    if isinstance(engine, Draining):
        return mark(operation, "drain", now)
    if isinstance(engine, Stopping):
        operation = mark(operation, "term", engine.since)
        if engine.stage is Stage.KILL:
            operation = mark(operation, "kill", now)
        if engine.stage is Stage.RELEASE:
            operation = mark(operation, "gone", now)
    return operation


def _figures(operation: Operation, now: Mono) -> dict[str, float]:
    """How long each stage of an end took, in seconds."""
    marks = operation.marks
    found: dict[str, float] = {}
    if "term" in marks:
        if "drain" in marks:
            found["drain_seconds"] = marks["term"] - marks["drain"]
        gone = marks.get("gone", now)
        found["engine_exit_seconds"] = gone - marks["term"]
        found["release_seconds"] = now - gone
    return found


def _killed(operation: Operation) -> str:
    """Said where an engine did not leave by itself: its grace was too short, or it hung (C58)."""
    marks = operation.marks
    if "kill" not in marks or "term" not in marks:
        return ""
    return f", killed after {marks['kill'] - marks['term']:.0f} s"


def ending(group: GroupState, now: Mono) -> str:
    """What an engine on its way down does now, in one line."""
    engine = group.engine.state
    if isinstance(engine, Draining):
        left = max(0.0, engine.deadline - now)
        if engine.in_flight == 0.0 and isinstance(engine.proxied, Missing):
            return f"drains, the endpoint closes its gate, {left:.0f} s left"
        if engine.in_flight == 0.0 and known(engine.proxied, 0.0):
            count = known(engine.proxied, 0.0)
            return f"drains, {answers(count, 'runs', 'run')} at the endpoint, {left:.0f} s left"
        if isinstance(engine.in_flight, Missing):
            return f"drains, running answers not known, {left:.0f} s left"
        return f"drains, {answers(engine.in_flight, 'runs', 'run')}, {left:.0f} s left"
    if isinstance(engine, Stopping):
        left = max(0.0, engine.next_at - now)
        match engine.stage:
            case Stage.TERM:
                return f"asked to leave, killed in {left:.0f} s"
            case Stage.KILL:
                return "killed, waits for the exit"
            case Stage.CLEAR:
                pids = ", ".join(str(pid) for pid in engine.leftovers)
                return f"leftover processes: {pids}" if pids else "its processes leave"
            case Stage.RELEASE:
                return f"processes gone, waits for the cards' memory, {left:.0f} s left"
    return ""


def _towards_off(state: RigState, group: GroupState, operation: Operation, now: Mono) -> Operation:
    operation = _stages(group, operation, now)
    if isinstance(group.engine.state, Off):
        figures = _figures(operation, now)
        say = f"off in {now - operation.since:.1f} s{_killed(operation)}"
        kept = _not_released(state, group) if "term" in operation.marks else ""
        if kept:
            return end(operation, "partly", f"{say}, but {kept}", now, figures)
        return end(operation, "done", say, now, figures)
    return replace(operation, say=ending(group, now) or operation.say)


def _not_released(state: RigState, group: GroupState) -> str:
    """What speaks against the cards being free of this engine; empty when nothing does."""
    if engine_gone(group.spec.cards, state.sweep, group.mine, state.baselines):
        return ""
    sweep = state.sweep
    if sweep is None or sweep.error or not sweep.answered:
        error = "" if sweep is None else sweep.error
        return f"NVML cannot confirm that its cards are free: {error or 'not answering'}"
    look = uses(group.spec.cards, sweep, group.mine, state.baselines)
    kept = [each.say for each in look if each.kind not in ("free", "lost", "foreign")]
    return f"{'; '.join(kept)}; see `nvidia-smi`"


def _towards_ready(
    state: RigState, group: GroupState, operation: Operation, now: Mono
) -> Operation:
    engine = group.engine.state
    operation = _stages(group, operation, now)
    if isinstance(engine, Waiting | Spawning | Loading):
        operation = mark(operation, "start", now)
    match engine:
        case Ready():
            down = {"term", "start"} & operation.marks.keys()
            if operation.kind in ("restart", "sleep") and not down:
                return operation  # still the old engine
            operation = mark(operation, "ready", now)
            if operation.kind == "sleep":
                return _settled(state, group, operation, now)
            seconds = now - operation.since
            return end(operation, "done", f"ready in {seconds:.0f} s", now)
        case Failed(why=why):
            return end(operation, "failed", why, now)
        case BackingOff(why=why):
            return end(operation, "failed", f"{why}; it is tried again by itself", now)
        case Off() if group.wanted:
            return operation  # found so by a new daemon, which takes it up next
        case Off(why=why):
            return end(operation, "cancelled", why, now)
        case Waiting(on=on):
            return replace(operation, say=f"waits: {on}" if on else "waits for its turn")
        case Spawning():
            return replace(operation, say="starts")
        case Loading():
            phase = "" if group.startup is None else phases.say(group.startup, now)
            return replace(operation, say=f"starts: {phase}" if phase else "starts")
        case Draining() | Stopping():
            return replace(operation, say=ending(group, now))


def _settled(state: RigState, group: GroupState, operation: Operation, now: Mono) -> Operation:
    """After a sleep toggle: measured watts and scheduler CPU once the idle engine has settled."""
    ready = operation.marks["ready"]
    busy = group.sample is not None and group.sample.active != 0.0
    if now - ready < SETTLE:
        return replace(operation, say=f"ready; measures the idle draw, {SETTLE:.0f} s")
    figures: dict[str, float] = {}
    if group.watched is not None and not isinstance(group.watched.scheduler_cpu, Missing):
        figures["scheduler_cpu_after"] = group.watched.scheduler_cpu
    if not busy and state.sweep is not None and group.spec.cards:
        watts = [each.watts for each in state.sweep.cards if each.uuid in group.spec.cards]
        known = [each for each in watts if not isinstance(each, Missing)]
        if len(known) == len(group.spec.cards):
            figures["watts_after"] = sum(known)
    word = "on" if group.running_sleep else "off"
    say = f"sleep-on-idle {word}"
    merged = {**operation.figures, **figures}
    for name, unit in (("watts", "W idle"), ("scheduler_cpu", "of a core")):
        before, after = merged.get(f"{name}_before"), merged.get(f"{name}_after")
        if before is not None and after is not None:
            digits = 0 if name == "watts" else 2
            say += f", {before:.{digits}f} → {after:.{digits}f} {unit}"
    if group.spec.cards and not {"watts_before", "watts_after"} <= merged.keys():
        say += "; watts are compared only where it is idle before and after"
    return end(operation, "done", say, now, figures)


def _towards_free(
    state: RigState, group: GroupState, operation: Operation, now: Mono
) -> tuple[RigState, Operation, tuple[Order, ...]]:
    operation = _stages(group, operation, now)
    if not isinstance(group.engine.state, Off | Failed):
        return state, replace(operation, say=ending(group, now) or operation.say), ()
    # The engine's end waited for NVML already; what is held now is somebody else's, or stuck.
    look = uses(group.spec.cards, state.sweep, group.pids, state.baselines)
    if group.spec.cards and (state.sweep is None or state.sweep.error or not state.sweep.answered):
        error = "" if state.sweep is None else state.sweep.error
        say = f"engine off, but NVML cannot confirm that the cards are free: {error}"
        return _leased(state, group, operation, "partly", say, now)
    if look and state.sweep is not None and state.sweep.at < operation.since - FRESH:
        return state, replace(operation, say="its cards are looked at"), ()
    free = [each for each in look if each.kind == "free"]
    figures = {
        **_figures(operation, now),
        "cards_free": float(len(free)),
        "cards": float(len(look)),
    }
    operation = replace(operation, figures=figures)
    if len(free) < len(look):
        held = "; ".join(each.say for each in look if each.kind != "free")
        say = f"{len(free)} of {len(look)} free: {held}"
        return _leased(state, group, operation, "partly", say, now)
    seconds = now - operation.since
    if not look:
        say = f"off, and it has no cards, {seconds:.1f} s{_killed(operation)}"
        return _leased(state, group, operation, "done", say, now)
    say = f"{len(free)} of {len(look)} cards free, {_memory(state, look)}, {seconds:.1f} s"
    say += _killed(operation)
    return _leased(state, group, operation, "done", say, now)


def _leased(
    state: RigState, group: GroupState, operation: Operation, outcome: str, say: str, now: Mono
) -> tuple[RigState, Operation, tuple[Order, ...]]:
    """The lease begins when the cards are free, not when they were asked for."""
    lease = group.lease
    if lease is not None:
        until = None if operation.for_seconds is None else Wall(state.wall + operation.for_seconds)
        lease = replace(lease, since=state.wall, until=until)
        state = with_group(state, replace(group, lease=lease))
    ended = end(operation, outcome, say, now)
    note = f"lent to “{operation.holder}”: {say}"
    return state, ended, (WriteJournal(group.spec.name, "freed", note, ended.figures),)


def _memory(state: RigState, look: tuple[Use, ...]) -> str:
    """Free memory of these cards together."""
    cards = {each.uuid: each for each in (() if state.sweep is None else state.sweep.cards)}
    found = 0.0
    for each in look:
        card = cards.get(each.card)
        if card is None or isinstance(card.memory_total, Missing):
            return "memory not known"
        if isinstance(card.memory_used, Missing):
            return "memory not known"
        reserved = 0.0 if isinstance(card.memory_reserved, Missing) else card.memory_reserved
        found += card.memory_total - card.memory_used - reserved
    return f"{found / GIB:.1f} GiB"
