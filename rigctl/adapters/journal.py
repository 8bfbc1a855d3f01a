"""The journal on disk: one JSON line an event, numbered, bounded, never in the way."""

from __future__ import annotations

import errno
import json
import math
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rigctl.adapters.os_words import reason
from rigctl.core.snapshot import JournalEntry

KEPT_IN_MEMORY = 500
"""Newest entries held, so that the usual questions never touch the disk."""


class Journal:
    """Appends events and answers for them. A full disk costs entries on disk, never an error.

    `PATH` grows to `limit_bytes`, then becomes `PATH.1` in place of an earlier one.
    """

    def __init__(self, path: Path, limit_bytes: int = 2 * 1024 * 1024) -> None:
        self._path = path
        self._older = path.with_name(path.name + ".1")
        self._limit = limit_bytes
        self._recent: deque[JournalEntry] = deque(maxlen=KEPT_IN_MEMORY)
        self.dropped = 0
        """Entries that are in memory only, because the disk did not take them."""
        self.trouble = ""
        """Why the last write failed, in words; empty while the disk takes them."""
        for entry in (*_read(self._older), *_read(path)):
            self._recent.append(entry)
        self.last_seq = max((entry.seq for entry in self._recent), default=0)

    def write(
        self,
        wall: float,
        group: str,
        kind: str,
        say: str,
        figures: Mapping[str, float] | None = None,
    ) -> JournalEntry:
        """Number an event, remember it and append it to the file. Never raises for the disk."""
        self.last_seq += 1
        # JSON has no infinity and no not-a-number; a reader would stumble over the whole line.
        finite = {name: value for name, value in (figures or {}).items() if math.isfinite(value)}
        entry = JournalEntry(self.last_seq, wall, group, kind, say, finite)
        self._recent.append(entry)
        line = json.dumps(asdict(entry), separators=(",", ":"), ensure_ascii=False) + "\n"
        try:
            self._append(line.encode("utf-8", "replace"))
        except OSError as error:
            self.dropped += 1
            self.trouble = f"journal not written to {self._path}: {reason(error)}"
        else:
            self.trouble = ""
        return entry

    def _append(self, line: bytes) -> None:
        if self._size() + len(line) > self._limit and self._size():
            os.replace(self._path, self._older)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # a torn last line of an earlier crash stays its own line
            if os.write(descriptor, line) < len(line):
                # The disk filled up within the line: take the half of it back.
                os.ftruncate(descriptor, size)
                raise OSError(errno.ENOSPC, "short write")
        finally:
            os.close(descriptor)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def tail(self, limit: int) -> tuple[JournalEntry, ...]:
        """The newest entries held in memory, oldest first."""
        return tuple(self._recent)[-limit:] if limit > 0 else ()

    def after(self, seq: int, limit: int) -> tuple[JournalEntry, ...]:
        """The newest `limit` entries with a higher number, oldest first; old ones from the disk."""
        held = self._recent
        if held and held[0].seq <= seq + 1:
            found = [entry for entry in held if entry.seq > seq]
        else:
            on_disk = {entry.seq: entry for entry in (*_read(self._older), *_read(self._path))}
            on_disk |= {entry.seq: entry for entry in held}
            found = [on_disk[number] for number in sorted(on_disk) if number > seq]
        return tuple(found[-limit:]) if limit > 0 else ()


def _read(path: Path) -> list[JournalEntry]:
    """Every whole line; torn, foreign or damaged ones are passed over."""
    try:
        raw = path.read_bytes()
    except OSError:
        return []
    return [entry for line in raw.split(b"\n") if (entry := _entry(line)) is not None]


def _entry(line: bytes) -> JournalEntry | None:
    if not line.startswith(b"{"):
        return None
    try:
        fields: dict[str, Any] = json.loads(line)
        return JournalEntry(
            int(fields["seq"]),
            float(fields["wall"]),
            str(fields["group"]),
            str(fields["kind"]),
            str(fields["say"]),
            {str(name): float(value) for name, value in fields.get("figures", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
