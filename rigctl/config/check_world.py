"""Whether what a config names is here: cards, keys, models, engine programs, flags."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rigctl.config.cards import resolve_group
from rigctl.config.checks import warnings
from rigctl.config.engine_help import ask_engine, unknown_flags
from rigctl.config.faults import origin_line
from rigctl.config.plan import own_flags
from rigctl.config.proxy_checks import proxy_warnings
from rigctl.config.schema import Config, ConfigError, GroupConfig
from rigctl.config.secrets import group_keys
from rigctl.core.cards import CardSample


def world_faults(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Programs, keys and models that a start would miss, one line each with file and line."""
    faults: list[str] = []
    for group in config.groups:
        program = group.engine[0]
        if not shutil.which(program, path=environ.get("PATH", os.defpath)):
            say = f"group {group.name!r}: engine program {program!r} is not found"
            faults.append(_at(config, group, "engine", say))
        try:
            group_keys(group, environ)
        except ConfigError as error:
            key = "api_key" if group.api_key else "admin_key"
            faults.append(_at(config, group, key, f"group {group.name!r}: {error.say}"))
        for key in ("model", "draft_model"):
            path = getattr(group, key)
            if path.startswith("/") and not Path(path).exists():
                say = f"group {group.name!r}: `{key}` {path} does not exist"
                faults.append(_at(config, group, key, say))
    return tuple(faults)


def card_faults(config: Config, present: Sequence[CardSample]) -> tuple[str, ...]:
    """Cards that are missing, lost or shared, one line a group."""
    faults: list[str] = []
    for group in config.groups:
        try:
            resolve_group(group, config, present)
        except ConfigError as error:
            faults.append(str(error))
    return tuple(faults)


def world_warnings(config: Config) -> tuple[str, ...]:
    """What is allowed and probably not meant."""
    lines = [line for group in config.groups for line in warnings(group)]
    if config.proxy is not None:
        lines += proxy_warnings(config.proxy, config.groups)
    return tuple(lines)


def engine_faults(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Flags that an installed engine does not know; each program is asked once, for seconds."""
    answers: dict[tuple[str, ...], frozenset[str] | str] = {}
    faults: list[str] = []
    for group in config.groups:
        if group.engine not in answers:
            try:
                answers[group.engine] = ask_engine(group.engine, {**environ, **group.env})
            except ConfigError as error:
                answers[group.engine] = error.say
        answer = answers[group.engine]
        if isinstance(answer, str):
            faults.append(_at(config, group, "engine", f"group {group.name!r}: {answer}"))
            continue
        argv = (*own_flags(group, len(group.cards), group.sleep_on_idle, None), *group.flags)
        faults += (
            _at(config, group, "flags", f"group {group.name!r}: {line}")
            for line in unknown_flags(argv, answer)
        )
    return tuple(faults)


def _at(config: Config, group: GroupConfig, key: str, say: str) -> str:
    """The fault with file and line of the key, or of the group's name where it is a default."""
    origins = config.origins
    line = origin_line(origins.get(f"group.{group.name}.{key}", ""))
    line = line or origin_line(origins.get(f"group.{group.name}.name", ""))
    return str(ConfigError(say, path=config.path, line=line))
