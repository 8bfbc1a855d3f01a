"""Asks running engines about themselves for `doctor --probe`; keeps only what is looked at.

`/server_info` has the keys in clear text, so nothing of it leaves here but the named fields. It
wakes the engine's scheduler but launches no forward pass.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from rigctl.cli import where
from rigctl.cli.exits import End
from rigctl.cli.talk import snapshot
from rigctl.config.load import load
from rigctl.config.paths import find_home
from rigctl.config.schema import ConfigError, GroupConfig
from rigctl.config.secrets import group_keys
from rigctl.core.probe import EngineFacts
from rigctl.parse import metrics

PATIENCE = 20.0
"""Seconds: an engine answers between two steps, and a step can be an 8 s prefill chunk."""


def engines(home: str | None) -> Iterator[EngineFacts]:
    """The facts of every group whose engine runs."""
    places = find_home(home)
    try:
        config = load(places.config, places.overrides)
    except (ConfigError, OSError):
        return  # doctor's own check of the config says so
    try:
        views = {group["name"]: group for group in snapshot(where.socket_file(home))["groups"]}
    except End:
        views = {}
    for group in config.groups:
        view = views.get(group.name, {})
        if not views or view.get("state") in ("ready", "draining"):
            yield _ask(group, view.get("pid"))


def _ask(group: GroupConfig, pid: int | None) -> EngineFacts:
    host = "127.0.0.1" if group.host in ("0.0.0.0", "") else group.host
    base = f"http://{'[::1]' if host == '::' else host}:{group.port}"
    try:
        keys = group_keys(group, os.environ)
        headers = {"Authorization": f"Bearer {keys['api-key']}"} if "api-key" in keys else {}
        # No environment proxies: they would catch loopback traffic (C44).
        with httpx.Client(
            base_url=base, headers=headers, timeout=PATIENCE, trust_env=False
        ) as client:
            info = client.get("/server_info")
            info.raise_for_status()
            series = metrics.parse(client.get("/metrics").content)
            told = info.json()
    except httpx.HTTPStatusError as error:
        return EngineFacts(group.name, error=f"HTTP {error.response.status_code} from /server_info")
    except (httpx.HTTPError, ValueError, ConfigError, OSError) as error:
        return EngineFacts(group.name, error=f"{base}: {type(error).__name__}")
    return facts(group, told, series, budget_variable(pid))


def facts(
    group: GroupConfig, told: Mapping[str, Any], series: metrics.Metrics, variable: str | None
) -> EngineFacts:
    """The named fields, and nothing else, of the engine's answers."""
    states = told.get("internal_states") or [{}]
    accept = states[0].get("avg_spec_accept_length") or series.values.get("accept_length")
    memory = states[0].get("memory_usage") or {}
    parts = [series.values.get(f"mamba_{part}") for part in ("used", "cached", "free")]
    known = [part for part in parts if part is not None]
    return EngineFacts(
        group=group.name,
        version=str(told.get("version", "")),
        wants_draft=bool(group.draft_model),
        algorithm=str(told.get("speculative_algorithm") or ""),
        accept_length=float(accept) if accept else None,
        wants_budget=group.think_budget,
        strict_thinking=bool(told.get("enable_strict_thinking")),
        reasoning_parser=str(told.get("reasoning_parser") or ""),
        grammar_backend=str(told.get("grammar_backend") or ""),
        budget_variable=variable,
        state_slots=sum(known) if known else None,
        weights_gb=memory.get("weight"),
        tokens_gb=memory.get("kvcache"),
        start_gb=memory.get("startup_available"),
        memory_saver=bool(told.get("enable_memory_saver")),
        wants_sleep=group.sleep_on_idle,
        sleeps=bool(told.get("sleep_on_idle")),
    )


def budget_variable(pid: int | None) -> str | None:
    """SGLANG_MAX_THINK_TOKENS of that process: empty where unset, None where we may not look."""
    if pid is None:
        return None
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    for pair in environment.split(b"\0"):
        if pair.startswith(b"SGLANG_MAX_THINK_TOKENS="):
            return pair.partition(b"=")[2].decode("ascii", "replace")
    return ""
