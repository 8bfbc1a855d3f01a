"""What of the rig's state must outlive the daemon, as plain JSON values and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from rigctl.core.endpoint_states import Opening as EndpointOpening
from rigctl.core.endpoint_states import Spawning as EndpointSpawning
from rigctl.core.endpoint_states import followed
from rigctl.core.energy import CardEnergy, EnergyBook
from rigctl.core.engine_states import (
    After,
    Draining,
    Engine,
    Failed,
    Loading,
    Off,
    Ready,
    Spawning,
    State,
    Stopping,
    ThenCrash,
    ThenOff,
    ThenStart,
    process_of,
)
from rigctl.core.ids import GroupName, Mono, OperationId, ProcessIdentity, Wall
from rigctl.core.lease import Lease
from rigctl.core.operations import Operation
from rigctl.core.state import EndpointState, GroupState, RigState

SCHEMA = 1

BOOKED = 600.0
"""Seconds between two writings for the energy's sake alone: so much a killed daemon may forget."""


def remember(state: RigState, now: Mono) -> dict[str, Any]:
    """The part that is written before any order of this state is carried out.

    Monotonic times become wall times: they mean nothing after a reboot.
    """
    offset = state.wall - now
    return {
        "epoch": state.epoch,
        "next_operation": state.next_operation,
        "baselines": dict(state.baselines),
        "groups": {group.spec.name: _group(group, offset) for group in state.groups},
        "operations": [_operation(each, offset) for each in state.operations],
        "confirmed": state.confirmed,
        "endpoint": _endpoint(state.endpoint),
        "energy": {"day": state.energy.day, "cards": _accounts(state.energy)},
    }


def lasting(state: RigState) -> object:
    """A cheap value that differs whenever `remember` would, so that a tick costs no encoding."""
    groups = tuple(
        (
            group.engine.state if not isinstance(group.engine.state, Draining) else Draining,
            group.wanted,
            group.lease,
            group.token,
            group.command,
            group.last_command,
            group.usual,
            group.crashes,
            group.drains,
        )
        for group in state.groups
    )
    operations = tuple((each.id, each.state, each.marks) for each in state.operations)
    booked = int(state.wall // BOOKED)
    return groups, operations, state.baselines, state.confirmed, booked, _endpoint_key(state)


def _group(group: GroupState, offset: float) -> dict[str, Any]:
    engine = group.engine.state
    process = process_of(engine)
    return {
        "wanted": group.wanted,
        "process": None if process is None else asdict(process),
        "stage": _STAGES.get(type(engine), "off"),
        "since": _served_since(engine) + offset,
        "deadline": engine.deadline + offset if isinstance(engine, Draining) else None,
        "then": _then(engine.then) if isinstance(engine, Draining | Stopping) else None,
        "failed": engine.why if isinstance(engine, Failed) else "",
        "off": engine.why if isinstance(engine, Off) else "",
        "token": group.token,
        "lease": None if group.lease is None else asdict(group.lease),
        "command": list(group.command),
        "last_command": list(group.last_command),
        "last_env": dict(group.last_env),
        "running_sleep": group.running_sleep,
        "usual": dict(group.usual),
        "last_exit": group.last_exit,
        "remedy": group.remedy,
        "crashes": group.crashes,
        "drains": group.drains,
    }


def _endpoint_key(state: RigState) -> object:
    endpoint = state.endpoint
    spawning = isinstance(endpoint.keeper.phase, EndpointSpawning)
    return endpoint.token, spawning, followed(endpoint.keeper), endpoint.epochs


def _endpoint(endpoint: EndpointState) -> dict[str, Any]:
    """Which proxies live, so that the next daemon finds them; their traffic they tell anew."""
    current = endpoint.serving
    phase = endpoint.keeper.phase
    opening = phase.process if isinstance(phase, EndpointOpening) else None
    return {
        "token": endpoint.token,
        "spawning": isinstance(phase, EndpointSpawning),
        "serving": None if current is None else asdict(current.process),
        "opening": None if opening is None else asdict(opening),
        "leaving": [asdict(each.process) for each in endpoint.keeper.leavers],
        "epochs": [list(each) for each in endpoint.epochs],
        "address": endpoint.address,
    }


def _served_since(engine: State) -> Mono:
    if isinstance(engine, Draining) and engine.ready_since is not None:
        return engine.ready_since
    return engine.since


def _then(then: After) -> dict[str, Any]:
    return {"what": _AFTER[type(then)], **asdict(then)}


def recall_then(saved: Mapping[str, Any]) -> After | None:
    """What was to follow the end that was under way; None where none was."""
    fields = dict(saved.get("then") or {})
    what = fields.pop("what", None)
    for kind, word in _AFTER.items():
        if word == what:
            made: After = kind(**fields)
            return made
    return None


_AFTER: dict[type[Any], str] = {ThenOff: "off", ThenStart: "start", ThenCrash: "crash"}

_STAGES: dict[type, str] = {
    Spawning: "spawning",
    Loading: "loading",
    Ready: "ready",
    Draining: "draining",
    Stopping: "stopping",
}


def _operation(operation: Operation, offset: float) -> dict[str, Any]:
    fields = asdict(operation)
    fields["since"] = operation.since + offset
    fields["ended"] = None if operation.ended is None else operation.ended + offset
    fields["marks"] = {name: at + offset for name, at in operation.marks.items()}
    return fields


def identity(fields: Mapping[str, Any] | None) -> ProcessIdentity | None:
    """A remembered process, or None. KeyError and TypeError say the file is not ours."""
    return None if fields is None else ProcessIdentity(**fields)


def recall_group(group: GroupState, saved: Mapping[str, Any], now: Mono, wall: Wall) -> GroupState:
    """A group as it was left, its engine not yet looked for: that is the shell's to find out."""
    lease = saved.get("lease")
    offset = wall - now
    since = Mono(min(now, float(saved.get("since", wall)) - offset))
    state: Off | Failed = Off(since, str(saved.get("off") or "not running"))
    if saved.get("failed"):
        state = Failed(since, str(saved["failed"]))
    return replace(
        group,
        engine=Engine(state),
        wanted=bool(saved.get("wanted")),
        token=str(saved.get("token", "")),
        lease=None if lease is None else _lease(lease),
        command=tuple(saved.get("command", ())),
        last_command=tuple(saved.get("last_command", ())),
        last_env={str(k): str(v) for k, v in saved.get("last_env", {}).items()},
        running_sleep=saved.get("running_sleep"),
        usual={str(name): float(value) for name, value in saved.get("usual", {}).items()},
        last_exit=str(saved.get("last_exit", "")),
        remedy=str(saved.get("remedy", "")),
        crashes=int(saved.get("crashes", 0)),
        drains=int(saved.get("drains", 0)),
    )


def _lease(fields: Mapping[str, Any]) -> Lease:
    known = dict(fields)
    known["holder_process"] = identity(known.get("holder_process"))
    known["worker"] = identity(known.get("worker"))
    return Lease(**known)


def recall_rig(state: RigState, saved: Mapping[str, Any], now: Mono, wall: Wall) -> RigState:
    """The rig's own part: operations, numbers, baselines."""
    offset = wall - now
    operations = tuple(_recall_operation(each, offset) for each in saved.get("operations", ()))
    highest = max((each.id for each in operations), default=0)
    return replace(
        state,
        next_operation=OperationId(max(int(saved.get("next_operation", 1)), highest + 1)),
        operations=operations,
        baselines={str(k): float(v) for k, v in saved.get("baselines", {}).items()},
        confirmed=bool(saved.get("confirmed", True)),
        energy=_recall_energy(saved.get("energy", {})),
    )


def _accounts(book: EnergyBook) -> dict[str, Any]:
    return {uuid: asdict(account) for uuid, account in book.cards.items()}


def _recall_energy(fields: Mapping[str, Any]) -> EnergyBook:
    cards = {str(uuid): CardEnergy(**each) for uuid, each in fields.get("cards", {}).items()}
    return EnergyBook(str(fields.get("day", "")), cards)


def _recall_operation(fields: Mapping[str, Any], offset: float) -> Operation:
    known = dict(fields)
    known["id"] = OperationId(int(known["id"]))
    group = known.get("group")
    known["group"] = None if group is None else GroupName(str(group))
    known["since"] = Mono(float(known["since"]) - offset)
    ended = known.get("ended")
    known["ended"] = None if ended is None else Mono(float(ended) - offset)
    known["marks"] = {name: float(at) - offset for name, at in known.get("marks", {}).items()}
    known["pending"] = tuple(known.get("pending", ()))
    return Operation(**known)
