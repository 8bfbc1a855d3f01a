"""A config as a person reads it: each value as TOML, its origin, secrets masked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from rigctl.config.flags import MASK, mask, secret_name
from rigctl.config.proxy import AT_RESTART, RESTART
from rigctl.config.schema import CardRef, Config, Secret
from rigctl.config.toml_text import toml_value


@dataclass(frozen=True, slots=True)
class Shown:
    """One value with its place."""

    table: str
    """`[rig]`, or `[[group]] standard`."""
    key: str
    """`group.standard.port`: as in `Config.origins`."""
    value: object
    """As JSON has it; None where it is left out."""
    text: str
    """`port = 30001`."""
    origin: str
    after: str = ""
    """The command from which on a change of it counts; empty: at once, or, in a group, from the
    engine's next start."""


def shown_values(config: Config) -> tuple[Shown, ...]:
    """Every value of the config, in the order of the schema."""
    values = [
        _shown(config, "[rig]", "rig", field.name, config.rig) for field in _fields(config.rig)
    ]
    if config.proxy is not None:
        values += [
            _shown(config, "[proxy]", "proxy", field.name, config.proxy)
            for field in _fields(config.proxy)
        ]
    for group in config.groups:
        title, prefix = f"[[group]] {group.name}", f"group.{group.name}"
        values += [_shown(config, title, prefix, field.name, group) for field in _fields(group)]
    return tuple(values)


def _fields(table: object) -> tuple[dataclasses.Field[object], ...]:
    assert dataclasses.is_dataclass(table)
    return dataclasses.fields(table)


def _shown(config: Config, table: str, prefix: str, key: str, holder: object) -> Shown:
    value = plain_value(key, getattr(holder, key))
    text = f"{key} is not set" if value is None else f"{key} = {toml_value(value)}"
    name = f"{prefix}.{key}"
    after = RESTART if prefix == "proxy" and key in AT_RESTART else ""
    return Shown(table, name, value, text, config.origins.get(name, "default"), after)


def plain_value(key: str, value: object) -> object:
    """A schema value as TOML and JSON have it, without secrets."""
    if isinstance(value, Secret):
        # Where a key is read from is no secret; the key itself never enters a config value.
        return {value.source: value.where}
    if key == "env" and isinstance(value, dict):
        return {name: MASK if secret_name(name) else text for name, text in value.items()}
    if key in ("flags", "engine", "on_event") and isinstance(value, tuple):
        return list(mask(value))
    if isinstance(value, tuple):
        return [_card(item) if isinstance(item, CardRef) else item for item in value]
    return value


def _card(card: CardRef) -> object:
    return int(card.value) if card.kind == "index" else card.value
