"""rig.toml from the disk to a Config, or every reason why it is none."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from rigctl.config.checks import check_between, check_group
from rigctl.config.clients import read_clients
from rigctl.config.faults import Faults, nearest
from rigctl.config.groups import GROUP_KEYS, RIG_KEYS, read_group, read_rig
from rigctl.config.lines import KeyPath, key_lines
from rigctl.config.overrides import Override, describe, read_overrides
from rigctl.config.proxy import PROXY_KEYS, read_proxy
from rigctl.config.proxy_checks import check_open, check_proxy
from rigctl.config.schema import (
    SCHEMA_VERSION,
    ClientConfig,
    Config,
    ConfigError,
    GroupConfig,
    ProxyConfig,
)
from rigctl.config.values import Table

_TOP = ("schema_version", "rig", "keys", "proxy", "group")
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def load(path: Path, overrides: Path | None = None, clients: Path | None = None) -> Config:
    """Read the owner's file, on top of it what keys have changed, and who may use the endpoint.

    Each value's origin is kept in `Config.origins`. ConfigError carries every fault found, one
    line each. Nothing outside these files and the key files they name is looked at. Without
    `clients` nobody is known, and an endpoint that is open to others is not judged.
    """
    faults = Faults(str(path))
    text = _read(path)
    data = _parse(text, path)
    lines = key_lines(text)
    top = Table(data, (), lines, faults, path.name)
    _check_top(top)
    rig_table = _table(data.get("rig", {}), ("rig",), lines, faults, "[rig]")
    rig = read_rig(rig_table)
    keys = _keys(data.get("keys", {}), lines, faults)
    tables = _group_tables(top, lines, faults)
    groups = [read_group(table) for table in tables]
    for group, table in zip(groups, tables, strict=True):
        check_group(group, table)
    check_between(rig, groups, tables, rig_table)
    proxy_table = _proxy_table(data, lines, faults)
    proxy: ProxyConfig | None = None
    if proxy_table is not None:
        proxy = read_proxy(proxy_table)
        check_proxy(proxy, proxy_table, groups, tables)
    changes: tuple[Override, ...] = ()
    if overrides is not None:
        try:
            changes = read_overrides(overrides)
        except ConfigError as error:
            faults.take(error)
    known: tuple[ClientConfig, ...] = ()
    if clients is not None:
        try:
            known = read_clients(clients)
        except ConfigError as error:
            faults.take(error)
        else:
            if proxy is not None and proxy_table is not None:
                check_open(proxy, proxy_table, known)
    faults.raise_if_any()
    origins = {f"rig.{key}": rig_table.origin(key) for key in RIG_KEYS}
    for group, table in zip(groups, tables, strict=True):
        origins |= {f"group.{group.name}.{key}": table.origin(key) for key in GROUP_KEYS}
    if proxy_table is not None:
        origins |= {f"proxy.{key}": proxy_table.origin(key) for key in PROXY_KEYS}
    config = Config(rig, tuple(groups), str(path), origins, keys, proxy, known)
    return apply_overrides(config, changes)


def apply_overrides(config: Config, changes: tuple[Override, ...]) -> Config:
    """The config with what keys have changed; a change for a group that is gone has no effect."""
    origins = dict(config.origins)
    groups: list[GroupConfig] = list(config.groups)
    for change in changes:
        for position, group in enumerate(groups):
            if group.name == change.group:
                key = f"group.{group.name}.{change.key}"
                instead = origins.get(key, "default")
                written = "true" if group.sleep_on_idle else "false"
                origins[key] = f"overrides: {describe(change)}, instead of {written} ({instead})"
                groups[position] = dataclasses.replace(group, sleep_on_idle=change.value)
    return dataclasses.replace(config, groups=tuple(groups), origins=origins)


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            "there is no such file: run `rigctl config init` to write one from the cards it finds",
            path=str(path),
        ) from error
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}", path=str(path)) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"byte 0x{raw[error.start]:02x} is not UTF-8, which TOML files are: save the file as "
            "UTF-8",
            path=str(path),
            line=line,
        ) from error


def _parse(text: str, path: Path) -> dict[str, object]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _AT.search(message)
        line, column = 0, ""
        if place:
            message = message[: place.start()]
            line = int(place[1]) if place[1] else text.count("\n") + (not text.endswith("\n"))
            column = f" in column {place[2]}" if place[2] else ""
        hint = _SYNTAX_HINTS.get(message, "")
        raise ConfigError(
            f"this is not TOML: {message[:1].lower()}{message[1:]}{column}{hint}",
            path=str(path),
            line=max(line, 1),
        ) from error
    if not data:
        raise ConfigError(
            "the file is empty: remove it and run `rigctl config init`, or write a [[group]] with "
            "name, cards, port and model",
            path=str(path),
            line=1,
        )
    return data


_SYNTAX_HINTS = {
    "Invalid value": ': text stands in "quotes", true and false are lower case',
    "Cannot overwrite a value": ": the key is written twice, remove one",
}


def _check_top(top: Table) -> None:
    """Unknown sections, and a file of a later rigctl."""
    for key in top.data:
        if key not in _TOP:
            plain = key.lower().rstrip("s")
            meant = plain if plain in _TOP else nearest(key, _TOP)
            if key in GROUP_KEYS:
                advice = f"`{key}` belongs below a [[group]]"
            elif key in RIG_KEYS:
                advice = f"`{key}` belongs below [rig]"
            elif key in PROXY_KEYS:
                advice = f"`{key}` belongs below [proxy]"
            elif meant:
                advice = f"did you mean {_HEADERS[meant]}?"
            else:
                advice = "the file has [rig], [proxy] and one [[group]] for each server"
            top.faults.add(f"unknown section or key `{key}`: {advice}", top.line(key))
    version = top.data.get("schema_version", SCHEMA_VERSION)
    if type(version) is not int or version < 1:
        top.faults.add(f"`schema_version` is {SCHEMA_VERSION}", top.line("schema_version"))
    elif version > SCHEMA_VERSION:
        top.faults.add(
            f"`schema_version` {version} is of a later rigctl, this one reads up to "
            f"{SCHEMA_VERSION}: upgrade rigctl",
            top.line("schema_version"),
        )


_HEADERS = {
    "rig": "[rig]",
    "keys": "[keys]",
    "proxy": "[proxy]",
    "group": "[[group]]",
    "schema_version": "`schema_version`",
}


def _proxy_table(
    data: Mapping[str, object], lines: Mapping[KeyPath, int], faults: Faults
) -> Table | None:
    """`[proxy]`, or None where the file has none: then there is no endpoint."""
    if "proxy" not in data:
        return None
    return _table(data["proxy"], ("proxy",), lines, faults, "[proxy]")


def _keys(value: object, lines: Mapping[KeyPath, int], faults: Faults) -> dict[str, str]:
    """The panel's rebound keys, action to key; the panel itself knows which actions there are."""
    table = _table(value, ("keys",), lines, faults, "[keys]")
    for action, key in table.data.items():
        if not isinstance(key, str) or not key:
            faults.add(
                f'[keys]: `{action}` takes a key as text, like `{action} = "f"`',
                lines.get(("keys", action), 0),
            )
    return {action: key for action, key in table.data.items() if isinstance(key, str)}


def _table(
    value: object, at: KeyPath, lines: Mapping[KeyPath, int], faults: Faults, title: str
) -> Table:
    if isinstance(value, dict):
        return Table(value, at, lines, faults, title)
    line = lines.get(at) or lines.get((*at, 0), 0)
    faults.add(f"{title} is a table: write {title} on a line of its own", line)
    return Table({}, at, lines, faults, title)


def _group_tables(top: Table, lines: Mapping[KeyPath, int], faults: Faults) -> list[Table]:
    value = top.data.get("group", [])
    if isinstance(value, dict):
        top.faults.add(
            "[group] is written with two brackets, since there may be several: [[group]]",
            top.line("group"),
        )
        return []
    if not isinstance(value, list):
        top.faults.add("`group` is no table: write [[group]]", top.line("group"))
        return []
    if not value and not top.faults.found:
        top.faults.add("there is no [[group]]: write one with name, cards, port and model", 1)
    tables: list[Table] = []
    for index, entry in enumerate(value):
        at: KeyPath = ("group", index)
        name = entry.get("name") if isinstance(entry, dict) else None
        title = f"group {name!r}" if isinstance(name, str) and name else f"group {index + 1}"
        tables.append(_table(entry, at, lines, faults, title))
    return tables
