"""On the daemon's own start: finds the proxy again that an earlier daemon left serving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rigctl.adapters import proc
from rigctl.adapters.process import ProcessLauncher
from rigctl.adapters.spawned import find_by_group
from rigctl.core.durable import identity
from rigctl.core.endpoint_states import Absent, Keeper, Leaver, Serving
from rigctl.core.ids import Mono, ProcessIdentity
from rigctl.core.run_endpoint import PROXY, patience
from rigctl.core.spec import EndpointSpec
from rigctl.core.state import EndpointState

DIED = "the proxy died while no daemon watched; its streams are lost, engines stay"


def adopt_endpoint(
    spec: EndpointSpec | None,
    saved: Mapping[str, Any] | None,
    tag: str,
    launcher: ProcessLauncher,
    now: Mono,
) -> EndpointState:
    """The endpoint as the state file left it; without a record its start token tells.

    KeyError, TypeError and ValueError say that the record is not ours.
    """
    fresh = EndpointState(spec, Keeper(Absent(now, "not started yet")))
    if saved is None:
        pid = find_by_group(tag, PROXY)
        found = None if pid is None else proc.identity(pid)
        process = None if found is None else replace(found, argv_hash="")
        return fresh if process is None else _served(fresh, process, launcher, now)
    token = str(saved.get("token", ""))
    epochs = tuple((int(pid), str(epoch)) for pid, epoch in saved.get("epochs", ()))
    state = replace(fresh, token=token, epochs=epochs, address=str(saved.get("address", "")))
    if token and not token.startswith(f"{tag}."):
        return fresh  # this folder was copied: the other home's proxy is that home's
    serving, opening = identity(saved.get("serving")), identity(saved.get("opening"))
    if opening is None and saved.get("spawning"):
        opening = _by_token(token)
    state = _leaving(state, saved, launcher, now)
    # A newer one that had not said hello takes over once the older one is gone, not before.
    for position, process in enumerate((serving, opening)):
        if process is None or not launcher.adopt(process, (), token):
            continue
        if isinstance(state.keeper.phase, Serving):
            return _ends(state, process, now)
        state = _served(state, process, launcher, now, known=position == 0)
    if serving is not None and not isinstance(state.keeper.phase, Serving):
        if serving.boot_id == proc.boot_id():
            state = replace(state, last_exit=DIED, crashes=1)
        else:
            state = replace(state, epochs=())
    return state


def _served(
    state: EndpointState,
    process: ProcessIdentity,
    launcher: ProcessLauncher,
    now: Mono,
    known: bool = False,
) -> EndpointState:
    if not known and not launcher.adopt(process):
        return state
    phase = Serving(now, process, linked=False, moved=now, adopted=True)
    return replace(state, keeper=replace(state.keeper, phase=phase))


def _leaving(
    state: EndpointState, saved: Mapping[str, Any], launcher: ProcessLauncher, now: Mono
) -> EndpointState:
    for fields in saved.get("leaving", ()):
        process = identity(fields)
        if process is not None and launcher.adopt(process):
            state = _ends(state, process, now)
    return state


def _ends(state: EndpointState, process: ProcessIdentity, now: Mono) -> EndpointState:
    """It was asked to leave before, or is of no use: its time begins anew."""
    patient = patience(state)
    leaver = Leaver(process, now, Mono(now + patient.drain + patient.leave))
    keeper = replace(state.keeper, leavers=(*state.keeper.leavers, leaver))
    return replace(state, keeper=keeper)


def _by_token(token: str) -> ProcessIdentity | None:
    pid = proc.find_by_token(token)
    found = None if pid is None else proc.identity(pid)
    return None if found is None else replace(found, argv_hash="")
