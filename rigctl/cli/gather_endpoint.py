"""Gathers what doctor looks at of the endpoint: its port, its keys, its engines' flags."""

from __future__ import annotations

import os
from typing import Any

from rigctl.adapters import proc
from rigctl.adapters.listeners import listener, listens
from rigctl.cli.endpoint_words import endpoint_of
from rigctl.cli.words import number
from rigctl.config.clients import read_clients
from rigctl.config.flags import canonical
from rigctl.config.load import load
from rigctl.config.paths import Home
from rigctl.config.plan import HEADER_OVERRIDES, own_flags
from rigctl.config.proxy_checks import is_loopback
from rigctl.config.schema import ConfigError, GroupConfig
from rigctl.core.doctor_facts import EndpointFacts, ServedEngine

NOT_RUNNING = "planned, not running"
"""How `config.diff` ends the line of a flag that the running engine lacks."""


def endpoint_facts(places: Home, snap: dict[str, Any] | None) -> EndpointFacts | None:
    """The facts; None where rig.toml has no `[proxy]` or cannot be read."""
    try:
        config = load(places.config, places.overrides)
    except (ConfigError, OSError):
        return None  # the check of the config says so
    proxy = config.proxy
    if proxy is None:
        return None
    fault = ""
    clients = 0
    try:
        clients = len(read_clients(places.clients))
    except ConfigError as error:
        fault = str(error)
    view: dict[str, Any] = endpoint_of(snap) if snap else {"state": ""}
    rows = {row["cluster"]: row for row in view.get("rows", {}).get("clusters", ())}
    groups = {group["name"]: group for group in (snap["groups"] if snap else ())}
    return EndpointFacts(
        host=proxy.host,
        port=proxy.port,
        loopback=is_loopback(proxy.host),
        state=view["state"],
        say=view.get("say", ""),
        listening=_listening(proxy.port, view.get("pid")),
        clients=clients,
        clients_fault=fault,
        engines=tuple(
            _engine(group, groups.get(group.name), rows.get(group.name)) for group in config.groups
        ),
    )


def _listening(port: int, ours: int | None) -> str:
    if not listens(port):
        return ""
    pid = listener(port)
    if pid is None:
        return "a process of another user"
    command = proc.cmdline(pid)
    if pid == ours or "rigctl.proxy.main" in command:
        return "ours"
    return f"{os.path.basename(command[0]) if command else 'a process'} (pid {pid})"


def _engine(
    group: GroupConfig, view: dict[str, Any] | None, row: dict[str, Any] | None
) -> ServedEngine:
    """By rig.toml, less what the running engine was started without."""
    argv = (*own_flags(group, len(group.cards), group.sleep_on_idle, None), *group.flags)
    differs = view["differs"] if view else ()
    lacks = {line.split(":")[0] for line in differs if line.endswith(NOT_RUNNING)}
    flags = {canonical(word) for word in argv if word.startswith("--")} - lacks
    variable = group.env.get(HEADER_OVERRIDES) or os.environ.get(HEADER_OVERRIDES) or "1"
    effective = number(view["slots"]["effective"]) if view else None
    slots = row["slots"] if row and row["slots"] else effective
    return ServedEngine(
        group=group.name,
        session_cache="--enable-session-radix-cache" in flags,
        cache_report="--enable-cache-report" in flags,
        header_rid=variable.lower() in ("1", "true")
        and not any(each.startswith(HEADER_OVERRIDES) for each in lacks),
        strict_thinking="--enable-strict-thinking" in flags,
        think_budget=group.think_budget,
        configured_slots=group.max_running_requests,
        slots=None if slots is None else int(slots),
    )
