"""The routing table: the rig's state as far as the proxy routes by it.

Derived anew from the whole state after every fact, and sent where it differs; nothing in it is
kept beside the state. Keys are in it as the places they are read from, never as themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rigctl.core import phases
from rigctl.core.engine_states import Draining, Loading, Ready, Spawning, Waiting
from rigctl.core.ids import Mono
from rigctl.core.link_words import Progress, Table, TableGroup
from rigctl.core.reading import NOT_YET, Missing, Reading
from rigctl.core.state import GroupState, RigState
from rigctl.core.view_group import state_words
from rigctl.core.watch import flow, rates

SESSION_RADIX = "--enable-session-radix-cache"
STRICT_THINKING = "--enable-strict-thinking"
THINK_TOKENS = "SGLANG_MAX_THINK_TOKENS"
HEADER_OVERRIDES = "SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES"


def table(state: RigState, now: Mono, seq: int, watched: bool) -> Table | None:
    """The whole table; None where rig.toml has no endpoint."""
    spec = state.endpoint.spec
    if spec is None:
        return None
    groups = tuple(_group(state, each, now) for each in state.groups)
    return Table(state.epoch, seq, now, groups, spec.policy, spec.clients, watched)


def essence(made: Table) -> Table:
    """What of a table must differ for it to be sent: not its number, its moment, or a countdown."""
    groups = tuple(replace(each, eta=NOT_YET) for each in made.groups)
    return replace(made, seq=0, at=Mono(0.0), groups=groups)


def lasting(made: Table) -> Table:
    """What of it must differ for it to be written to disk: words that count seconds do not."""
    plain = essence(made)
    groups = tuple(replace(each, say="") for each in plain.groups)
    return replace(plain, groups=groups, watched=True)


def progress(group: GroupState, now: Mono) -> Progress | None:
    """What the engine tells of its work; None where nobody watches it."""
    if group.watch is None or not isinstance(group.engine.state, Ready | Draining):
        return None
    seen = flow(group.watch, now)
    return Progress(
        group.spec.name,
        seen.state,
        seen.tokens_left,
        seen.eta,
        rates(group.watch, now).prefill,
        seen.fresh,
    )


def _group(state: RigState, group: GroupState, now: Mono) -> TableGroup:
    spec, engine = group.spec, group.engine.state
    word, say, _advice = state_words(state, group, now)
    sample = group.sample
    command = group.command
    host, port = _address(spec.url, command)
    foreign = group.process is None and group.foreign is not None and group.foreign.pid is not None
    gate, deadline = "closed", None
    if isinstance(engine, Ready) or (foreign and sample is not None):
        gate = "open"
    elif isinstance(engine, Draining):
        gate, deadline = "finish", engine.deadline
    thinking = group.last_env.get(THINK_TOKENS, "") if group.process is not None else ""
    return TableGroup(
        name=spec.name,
        host=host,
        port=port,
        model=spec.model,
        state=word,
        say=say if word not in ("ready", "draining") else "",
        lent=group.lease is not None,
        gate=gate,
        drain=group.drains if gate == "finish" else 0,
        deadline=deadline,
        eta=_eta(group, now),
        run=_run(group),
        window=_told(None if sample is None else sample.context_length, spec.window),
        pool=_told(None if sample is None else sample.kv.total, spec.pool),
        slots=_told(None if sample is None else sample.slots, spec.slots),
        key=spec.key,
        admin_key=spec.admin_key,
        session_radix=SESSION_RADIX in command,
        strict_thinking=STRICT_THINKING in command,
        think_budget=int(thinking) if thinking.isdecimal() else None,
        fault="" if isinstance(engine, Ready | Draining | Loading) else group.fault,
        header_rid=_on(group.last_env, HEADER_OVERRIDES) and group.process is not None,
    )


def _run(group: GroupState) -> str:
    """Names this start of the engine; one that is not ours by its pid."""
    if group.process is not None:
        return group.token or f"{group.process.pid}.{group.process.start_ticks}"
    if group.foreign is not None and group.foreign.pid is not None:
        return f"foreign.{group.foreign.pid}"
    return ""


def _eta(group: GroupState, now: Mono) -> Reading:
    """Seconds until it is ready, by how long its last good start took."""
    match group.engine.state:
        case Loading() if group.startup is not None:
            return phases.estimate(group.startup, now)
        case Waiting() | Spawning() if group.usual:
            return sum(group.usual.values())
        case _:
            return NOT_YET


def _told(told: Reading | None, configured: int | None) -> int:
    """The engine's own word, else the file's; 0 where neither says."""
    if told is None or isinstance(told, Missing) or told <= 0:
        return configured or 0
    return int(told)


def _address(url: str, command: Sequence[str]) -> tuple[str, int]:
    """Where this host reaches the engine: by its running command line, else by the file."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    host = _flag(command, "--host") or host.strip("[]")
    port = _flag(command, "--port") or port
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return host, int(port) if port.isdecimal() else 0


def _flag(command: Sequence[str], name: str) -> str:
    """The last value of a flag, written as two words or as one."""
    found = ""
    for position, word in enumerate(command):
        if word == name and position + 1 < len(command):
            found = command[position + 1]
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found


def _on(env: Mapping[str, str], name: str) -> bool:
    return env.get(name, "").lower() in ("1", "true", "yes", "on")
