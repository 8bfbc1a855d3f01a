"""The daemon's memory on disk: one JSON object, replaced whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigctl.adapters.os_words import reason, worded

Migration = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns an object of schema n into one of schema n + 1."""

_KEPT_ASIDE = 5
"""Unreadable files that are kept; the oldest goes first."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The file is there and cannot be used; it was copied aside and not touched."""

    reason: str
    """What is wrong with it, in words."""
    kept: str
    """Path of the copy; empty where the disk did not take one."""


class StateFile:
    """One JSON object with a `schema` number. One writer: the daemon that holds the home's lock."""

    def __init__(
        self, path: Path, schema: int, migrations: Mapping[int, Migration] | None = None
    ) -> None:
        self.path = path
        self._schema = schema
        self._migrations = dict(migrations or {})

    def load(self) -> dict[str, Any] | Unreadable:
        """The object, brought to this schema; `{}` where no file was ever written.

        A bad file stays in place until the next `save`, so that a daemon which dies before it
        has told anybody does not look like a first start to the next one.
        """
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            return Unreadable(f"cannot read {self.path}: {reason(error)}", "")
        problem, state = self._understand(raw)
        if problem:
            return Unreadable(f"{self.path} {problem}", self._keep_aside(raw))
        return state

    def refuse(self, reason: str) -> Unreadable:
        """Whole JSON, but not what this rigctl writes: set aside like any unreadable one."""
        try:
            raw = self.path.read_bytes()
        except OSError:
            return Unreadable(f"{self.path} {reason}", "")
        return Unreadable(f"{self.path} {reason}", self._keep_aside(raw))

    def _understand(self, raw: bytes) -> tuple[str, dict[str, Any]]:
        if not raw.strip(b"\0 \n"):
            return "is empty (a full disk or a power cut while it was written)", {}
        try:
            state = json.loads(raw)
        except ValueError as error:
            return f"is not whole JSON ({error})", {}
        if not isinstance(state, dict):
            return "does not hold a JSON object", {}
        schema = state.get("schema")
        if not isinstance(schema, int) or isinstance(schema, bool):
            return "has no schema number", {}
        if schema > self._schema:
            newer = f"schema {schema}, this one reads up to {self._schema}"
            return f"was written by a newer rigctl ({newer}); update rigctl", {}
        while schema < self._schema:
            migration = self._migrations.get(schema)
            if migration is None:
                return f"has schema {schema}, which this rigctl no longer reads", {}
            try:
                state = migration(state)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                return f"cannot be brought from schema {schema} to {schema + 1} ({error!r})", {}
            schema += 1
            state["schema"] = schema
        return "", state

    def _keep_aside(self, raw: bytes) -> str:
        """Copy the bad bytes beside the file; the same bytes are kept only once."""
        mark = hashlib.sha256(raw).hexdigest()[:8]
        aside = self.path.with_name(f"{self.path.name}.unreadable-{mark}")
        try:
            _write_new(aside, raw)
            older = sorted(
                self.path.parent.glob(f"{self.path.name}.unreadable-*"),
                key=lambda found: found.stat().st_mtime,
            )
            for surplus in older[:-_KEPT_ASIDE]:
                surplus.unlink(missing_ok=True)
        except OSError:
            return str(aside) if aside.exists() and aside.stat().st_size == len(raw) else ""
        return str(aside)

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the file; on OSError (its `strerror` is a sentence) the old one is intact."""
        raw = json.dumps({**state, "schema": self._schema}, separators=(",", ":")).encode()
        # The name behind a link is replaced, not the link: people keep such files elsewhere.
        target = Path(os.path.realpath(self.path))
        fresh = target.with_name(f".{target.name}.new")
        try:
            _write_new(fresh, raw)
            os.replace(fresh, target)
            _sync_folder(target.parent)
        except OSError as error:
            try:
                fresh.unlink(missing_ok=True)
            except OSError:  # a read-only disk has nothing to tidy
                pass
            raise worded(
                error, f"cannot write {self.path}, the state as it was before stays"
            ) from error


def _write_new(path: Path, raw: bytes) -> None:
    """Write and flush a 0600 file to the disk; a leftover of that name is written over."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # a leftover may have had another mode
        left = memoryview(raw)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)  # some file systems report a full disk only here
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
