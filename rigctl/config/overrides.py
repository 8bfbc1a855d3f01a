"""What keys and commands have changed, kept beside the owner's file, which stays as written."""

from __future__ import annotations

import datetime
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rigctl.config.faults import Faults
from rigctl.config.schema import ConfigError
from rigctl.config.secrets import replace_file
from rigctl.core.ids import GroupName, Wall


@dataclass(frozen=True, slots=True)
class Override:
    """One value that somebody changed at run time."""

    group: GroupName
    key: Literal["sleep_on_idle"]
    value: bool
    at: Wall
    """When it was set."""
    by: str
    """Who set it, and how: `anna, key z`."""


def describe(change: Override) -> str:
    """`set by anna, key z on 2026-11-29 20:14`, in local time."""
    moment = datetime.datetime.fromtimestamp(change.at).astimezone()
    by = f" by {change.by}" if change.by else ""
    return f"set{by} on {moment:%Y-%m-%d %H:%M}"


def read_overrides(path: Path) -> tuple[Override, ...]:
    """All changes; none where the file is absent. ConfigError when it cannot be understood."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=str(path)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"is damaged ({error}): remove it, then set again what it held", path=str(path)
        ) from error
    faults = Faults(str(path))
    changes: list[Override] = []
    groups = data.get("group", {})
    for group, keys in groups.items() if isinstance(groups, dict) else ():
        for key, entry in keys.items() if isinstance(keys, dict) else ():
            change = _entry(group, key, entry)
            if change is None:
                faults.add(f"cannot use group.{group}.{key}: remove it, then set it again")
            else:
                changes.append(change)
    faults.raise_if_any()
    return tuple(changes)


def _entry(group: str, key: str, entry: object) -> Override | None:
    """One change as written, or None where it is not one of ours."""
    if key != "sleep_on_idle" or not isinstance(entry, dict):
        return None
    value, at, by = entry.get("value"), entry.get("at"), entry.get("by", "")
    if not isinstance(value, bool) or not isinstance(at, datetime.datetime):
        return None
    return Override(GroupName(group), "sleep_on_idle", value, Wall(at.timestamp()), str(by))


def write_overrides(path: Path, changes: tuple[Override, ...]) -> None:
    """Put all changes in place at once. OSError (a full disk) leaves the old file whole."""
    import tomli_w

    groups: dict[str, dict[str, Any]] = {}
    for change in changes:
        moment = datetime.datetime.fromtimestamp(change.at, datetime.UTC)
        groups.setdefault(change.group, {})[change.key] = {
            "value": change.value,
            "at": moment,
            "by": change.by,
        }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    head = "# Written by rigctl: what keys and commands changed. rig.toml is never rewritten.\n"
    replace_file(path, (head + tomli_w.dumps({"group": groups})).encode())


def set_override(path: Path, change: Override) -> None:
    """Add one change, in place of an earlier one of the same group and key."""
    kept = tuple(
        old for old in read_overrides(path) if (old.group, old.key) != (change.group, change.key)
    )
    write_overrides(path, (*kept, change))
