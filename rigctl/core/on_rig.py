"""Facts about the rig as a whole: foreign servers, limits, suspend, troubles, found cards."""

from __future__ import annotations

from dataclasses import replace

from rigctl.core import watch as watching
from rigctl.core.facts import (
    ForeignEngineSeen,
    GroupFound,
    NvmlReleased,
    PowerLimitSet,
    TroubleSeen,
)
from rigctl.core.ids import Mono
from rigctl.core.on_lease import moved_leases
from rigctl.core.operations import Operation, end, put
from rigctl.core.orders import WriteJournal
from rigctl.core.run_engine import Fed
from rigctl.core.state import RigState, Trouble, with_group


def on_foreign(state: RigState, fact: ForeignEngineSeen) -> Fed:
    """A server we did not start appeared on a group's port, or left it."""
    group = state.group(fact.group)
    if group is None or group.process is not None:
        return state, ()
    before = None if group.foreign is None else group.foreign.pid
    if fact.pid == before:
        return state, ()
    name = group.spec.name
    if fact.pid is None:
        group = replace(
            group, foreign=None, watch=None, sample=None, running_sleep=None, command=()
        )
        return with_group(state, group), (
            WriteJournal(name, "foreign-gone", f"pid {before}, not ours, has left the port"),
        )
    group = replace(
        group,
        foreign=fact,
        watch=None,
        command=fact.command,
        running_sleep=fact.sleep_on_idle,
    )
    say = f"a server that rigctl did not start answers as pid {fact.pid}: watched, never signalled"
    return with_group(state, group), (WriteJournal(name, "foreign", say),)


def on_found(state: RigState, fact: GroupFound) -> Fed:
    """The owner's cards were looked up anew, or his file changed."""
    group = state.group(fact.group)
    if group is None:
        return state, ()
    # While one is missing, which cards an index means cannot be told: they stay what they were.
    # Nor does another line in the file move an engine, or a loan, to other cards.
    bound = fact.missing or group.process is not None or group.lease is not None
    cards = group.spec.cards if bound and group.spec.cards else fact.cards
    # A running engine keeps what it was started with; the file counts from its next start on.
    asked = group.spec if fact.spec is None or group.process is not None else fact.spec
    spec = replace(asked, cards=cards, missing=fact.missing, command=fact.command)
    differs = fact.differs if group.process is not None else ()
    return with_group(state, replace(group, spec=spec, differs=differs)), ()


def on_limit(state: RigState, fact: PowerLimitSet, now: Mono) -> Fed:
    """One card took its power limit, or did not."""
    for operation in state.operations:
        if operation.id != fact.operation or not operation.running:
            continue
        pending = tuple(each for each in operation.pending if each != fact.card)
        errors = [operation.say] if operation.figures.get("refused") else []
        figures = dict(operation.figures)
        if fact.error:
            figures["refused"] = figures.get("refused", 0.0) + 1
            errors.append(f"{fact.error}; try `sudo nvidia-smi -i {fact.card} -pl {fact.watts:g}`")
        else:
            figures["taken"] = figures.get("taken", 0.0) + 1
        say = "; ".join(errors) or _limited(state, operation, fact, figures["taken"])
        changed = replace(operation, pending=pending, say=say, figures=figures)
        orders: tuple[WriteJournal, ...] = ()
        if not pending:
            outcome = "failed" if figures.get("refused") else "done"
            changed = end(changed, outcome, say, now)
            orders = (WriteJournal(operation.group or "", "power-limit", say),)
        return replace(state, operations=put(state.operations, changed)), orders
    return state, ()


def _limited(state: RigState, operation: Operation, fact: PowerLimitSet, taken: float) -> str:
    """`limit 280 W on 4 cards`; a single card by its number."""
    if taken > 1 or operation.group is not None:
        return f"limit {fact.watts:g} W on {taken:.0f} card{'s' if taken != 1 else ''}"
    cards = () if state.sweep is None else state.sweep.cards
    index = next((str(card.index) for card in cards if card.uuid == fact.card), fact.card)
    return f"limit {fact.watts:g} W on card {index}"


def on_resumed(state: RigState, seconds: float, now: Mono) -> Fed:
    """The machine slept: nothing that was silent meanwhile is judged by it (C91)."""
    for group in state.groups:
        if group.watch is not None:
            watch = watching.resumed(group.watch, now)
            state = with_group(state, replace(group, watch=watch))
    # Suspend looks as if the wall clock had been set forward, but a lease runs on in it.
    state = moved_leases(state, -seconds)
    say = (
        f"the machine slept for {seconds / 60:.0f} min; engines are watched anew. Where one fails "
        "now: `rigctl restart GROUP`, and if CUDA stays broken, with the engines stopped, "
        "`sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm`"
    )
    return state, (WriteJournal("", "resumed", say),)


def on_trouble(state: RigState, fact: TroubleSeen) -> Fed:
    """A standing fault began, changed or ended."""
    others = tuple(each for each in state.troubles if each.id != fact.id)
    had = len(others) != len(state.troubles)
    if not fact.say:
        if not had:
            return state, ()
        return replace(state, troubles=others), (WriteJournal("", fact.id, "over"),)
    trouble = Trouble(fact.id, fact.say, fact.level)
    state = replace(state, troubles=(*others, trouble))
    return state, () if had else (WriteJournal("", fact.id, fact.say),)


def on_nvml_released(state: RigState, fact: NvmlReleased, now: Mono) -> Fed:
    """The NVML handles were closed on request, or are open again (C89)."""
    paused = "" if fact.over else "NVML is released on request; a card can be reset now"
    state = replace(state, nvml_paused=paused)
    for operation in state.operations:
        if operation.id == fact.operation and operation.running:
            if fact.over:
                ended = end(operation, "done", "NVML is read again", now)
                state = replace(state, operations=put(state.operations, ended))
                return state, (WriteJournal("", "nvml-release", "NVML is read again"),)
            told = replace(operation, say=paused)
            return replace(state, operations=put(state.operations, told)), ()
    return state, ()
