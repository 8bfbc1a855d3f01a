"""On the daemon's own start: finds again what an earlier one left running, and takes it up."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rigctl.adapters import proc
from rigctl.adapters.process import ProcessLauncher
from rigctl.adapters.spawned import find_by_group
from rigctl.core import phases
from rigctl.core.durable import identity, recall_group
from rigctl.core.engine_states import (
    Engine,
    Failed,
    Loading,
    Off,
    Ready,
    Stage,
    Stopping,
    ThenCrash,
    ThenOff,
)
from rigctl.core.ids import Mono, ProcessIdentity, Wall
from rigctl.core.state import GroupState, RigState
from rigctl.core.watch_state import begin
from rigctl.daemon.engine_logs import EngineLogs

log = logging.getLogger(__name__)


def adopt_group(
    group: GroupState,
    saved: Mapping[str, Any],
    launcher: ProcessLauncher,
    logs: EngineLogs,
    state: RigState,
    now: Mono,
    wall: Wall,
) -> GroupState:
    """The group as the state file left it, its engine looked for by identity alone."""
    group = recall_group(group, saved, now, wall)
    process = identity(saved.get("process"))
    token = str(saved.get("token", ""))
    if process is None and token:
        process = _by_token(token)
    if process is None:
        return group
    recorded = tuple(ProcessIdentity(**each) for each in saved.get("members", ()))
    if launcher.adopt(process, recorded, token):
        logs.resume(group.spec.name)
        return taken_up(group, process, str(saved.get("stage", "")), state, now)
    return _gone(group, process, launcher, now)


def taken_up(
    group: GroupState, process: ProcessIdentity, stage: str, state: RigState, now: Mono
) -> GroupState:
    """An engine that lives: serving, or still loading (its log then says when it is ready)."""
    if stage in ("ready", "draining", "stopping"):
        engine = Engine(Ready(now, process))
    else:
        engine = Engine(Loading(now, process))
    return replace(
        group,
        engine=engine,
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


def _gone(
    group: GroupState, process: ProcessIdentity, launcher: ProcessLauncher, now: Mono
) -> GroupState:
    """It ended while no daemon watched; what it left behind is ended before anything starts."""
    if process.boot_id != proc.boot_id():
        # A reboot: every identity is void, and nothing of it can be left.
        return replace(group, engine=Engine(Off(now, "the machine was rebooted")))
    if isinstance(group.engine.state, Failed):
        return group
    then = (
        ThenCrash("died while no daemon watched", final=False)
        if group.wanted
        else ThenOff("ended while no daemon watched")
    )
    leftovers = launcher.members(process)
    stopping = Stopping(now, Mono(now + 3.0), process, Stage.CLEAR, then, leftovers)
    return replace(group, engine=Engine(stopping))


def rebuild(
    group: GroupState, launcher: ProcessLauncher, logs: EngineLogs, state: RigState, now: Mono
) -> GroupState:
    """No readable state: engines of ours are known by their token, and only looked at."""
    pid = find_by_group(state.spec.tag, group.spec.name)
    found = None if pid is None else proc.identity(pid)
    if found is None or not launcher.adopt(replace(found, argv_hash="")):
        return group
    logs.resume(group.spec.name)
    taken = taken_up(group, replace(found, argv_hash=""), "loading", state, now)
    return replace(taken, wanted=True)
