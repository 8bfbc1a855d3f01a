"""On the daemon's own start: finds again what an earlier one left running, and takes it up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from rigctl.adapters import proc
from rigctl.adapters.process import ProcessLauncher
from rigctl.adapters.spawned import find_by_group
from rigctl.config.flags import mask
from rigctl.core import phases
from rigctl.core.durable import identity, recall_group, recall_then
from rigctl.core.engine_states import (
    Draining,
    Engine,
    Failed,
    Loading,
    Off,
    Ready,
    Stage,
    State,
    Stopping,
    ThenCrash,
    ThenOff,
)
from rigctl.core.failure import classify
from rigctl.core.ids import Mono, ProcessIdentity, Wall
from rigctl.core.state import GroupState, RigState
from rigctl.core.watch_state import begin
from rigctl.daemon.engine_logs import EngineLogs

REBOOTED = "the machine was rebooted"


def adopt_group(
    group: GroupState,
    saved: Mapping[str, Any],
    launcher: ProcessLauncher,
    logs: EngineLogs,
    state: RigState,
    now: Mono,
    wall: Wall,
) -> GroupState:
    """The group as the state file left it, its engine looked for by identity alone.

    One that the file does not know at all may be running all the same: the file was removed, or
    the group was taken out of rig.toml for a while. Then its start token tells.
    """
    if not saved:
        return rebuild(group, launcher, logs, state, now)
    group = recall_group(group, saved, now, wall)
    if group.token and not group.token.startswith(f"{state.spec.tag}."):
        return _anothers(group, now)
    process = identity(saved.get("process"))
    token = group.token
    if process is None and saved.get("stage") == "spawning":
        process = _by_token(token)
        if process is not None:
            group = _as_seen(group, process)
    if process is None:
        return group
    recorded = tuple(ProcessIdentity(**each) for each in saved.get("members", ()))
    if launcher.adopt(process, recorded, token):
        logs.resume(group.spec.name)
        return _taken_up(group, process, _living(group, process, saved, now, wall), state, now)
    return _gone(group, process, saved, launcher, logs, now)


def _anothers(group: GroupState, now: Mono) -> GroupState:
    """The folder was copied or moved: what the other home started is that one's to end."""
    why = "this folder was copied from another home, whose daemon keeps the engine"
    return replace(group, engine=Engine(Off(now, why)), wanted=False, lease=None, token="")


def _living(
    group: GroupState, process: ProcessIdentity, saved: Mapping[str, Any], now: Mono, wall: Wall
) -> State:
    """Serving, on its way down, or still loading (its log then says when it is ready)."""
    stage, then = saved.get("stage"), recall_then(saved)
    since = group.engine.state.since
    if stage == "stopping" and then is not None:
        patience = Mono(now + group.spec.policy.grace)
        return Stopping(now, patience, process, Stage.TERM, then)
    if stage == "draining" and then is not None:
        deadline = Mono(float(saved.get("deadline") or wall) - (wall - now))
        return Draining(now, deadline, process, then, ready_since=since)
    if stage in ("ready", "draining", "stopping"):
        return Ready(since, process)
    return Loading(now, process)


def _taken_up(
    group: GroupState, process: ProcessIdentity, engine: State, state: RigState, now: Mono
) -> GroupState:
    return replace(
        group,
        engine=Engine(engine),
        adopted=True,
        startup=phases.begin(now, group.spec.ranks, group.usual),
        watch=begin(now, state.spec.watch, group.costs),
    )


def _by_token(token: str) -> ProcessIdentity | None:
    """The daemon died between spawn and record: its child carries the token it wrote first."""
    pid = proc.find_by_token(token)
    found = None if pid is None else proc.identity(pid)
    # As a fresh spawn has it: the command line is recorded at Ready, wrappers exec.
    return None if found is None else replace(found, argv_hash="")


def _as_seen(group: GroupState, process: ProcessIdentity) -> GroupState:
    """Its command line, where nobody has written down how it was started."""
    argv = proc.cmdline(process.pid)
    shown = mask(argv)
    return replace(
        group, command=shown, last_command=shown, running_sleep="--sleep-on-idle" in argv
    )


def _gone(
    group: GroupState,
    process: ProcessIdentity,
    saved: Mapping[str, Any],
    launcher: ProcessLauncher,
    logs: EngineLogs,
    now: Mono,
) -> GroupState:
    """It ended while no daemon watched; what it left behind is ended before anything starts."""
    if process.boot_id != proc.boot_id():
        # A reboot: every identity is void, and nothing of it can be left.
        return replace(group, engine=Engine(Off(now, REBOOTED)))
    if isinstance(group.engine.state, Failed):
        return group
    then = recall_then(saved)
    if then is None and group.wanted:
        failure = classify(group.spec.name, None, logs.last_words(group.spec.name))
        why = f"died while no daemon watched; {failure.line}"
        then = ThenCrash(why, failure.config_error)
        group = replace(group, last_exit=why, remedy=failure.advice, crashes=group.crashes + 1)
    then = then or ThenOff("ended while no daemon watched")
    leftovers = launcher.members(process)
    stopping = Stopping(now, Mono(now + 3.0), process, Stage.CLEAR, then, leftovers)
    return replace(group, engine=Engine(stopping))


def after_reboot(group: GroupState, now: Mono) -> GroupState:
    """What had failed gets another chance: a reboot mends lost cards and drivers."""
    if not isinstance(group.engine.state, Failed):
        return group
    return replace(group, engine=Engine(Off(now, REBOOTED)))


def rebuild(
    group: GroupState, launcher: ProcessLauncher, logs: EngineLogs, state: RigState, now: Mono
) -> GroupState:
    """No record of it: an engine of ours is known by its token."""
    pid = find_by_group(state.spec.tag, group.spec.name)
    found = None if pid is None else proc.identity(pid)
    if found is None:
        return group
    process = replace(found, argv_hash="")
    token = (proc.environ(process.pid) or {}).get(proc.TOKEN_VARIABLE, "")
    if not launcher.adopt(process, (), token):
        return group
    logs.resume(group.spec.name)
    taken = _taken_up(_as_seen(group, process), process, Loading(now, process), state, now)
    return replace(
        taken,
        wanted=True,
        token=token,
        # It may serve for days: its silence is not a start that is stuck.
        startup=None,
    )


def unlisted(saved: Mapping[str, Any], listed: Collection[str]) -> dict[str, Any]:
    """Records of groups that rig.toml no longer has and whose engine still runs, by name."""
    found: dict[str, Any] = {}
    for name, record in saved.items():
        process = None if name in listed else identity(record.get("process"))
        if process is not None and proc.same(process) is not None:
            found[name] = record
    return found
