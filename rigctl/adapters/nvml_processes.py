"""NVML's process list made believable: rows checked, doubles merged, names and users added."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from rigctl.core.cards import CardProcess
from rigctl.core.harmless import one_line
from rigctl.core.reading import Missing, Reading, Why

_INIT = 1
"""Process 1 computes on no card: seen in a list, it is the number in another namespace (C04)."""


class ProcessNames:
    """Looks pids up in /proc. One instance serves one sweep, so each pid is looked up once."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._found: dict[int, tuple[bool, str, str]] = {}

    def find(self, pid: int) -> tuple[bool, str, str]:
        """Whether the pid is visible here, its comm and its user."""
        if pid not in self._found:
            self._found[pid] = self._look(pid)
        return self._found[pid]

    def _look(self, pid: int) -> tuple[bool, str, str]:
        folder = f"{self._proc}/{pid}"
        if pid <= _INIT:
            return False, "", ""
        try:
            owner = os.stat(folder).st_uid
            with open(f"{folder}/comm", encoding="utf-8", errors="replace") as file:
                return True, one_line(file.read()), user_name(owner)
        except OSError:
            return False, "", ""


@lru_cache(maxsize=256)
def user_name(uid: int) -> str:
    """The account's name, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def processes(
    rows: Iterable[tuple[int, int | None]], memory_total: Reading, names: ProcessNames
) -> tuple[CardProcess, ...]:
    """One entry a pid; its bytes only where the pid exists and they fit the card (C84)."""
    merged: dict[int, Reading] = {}
    for pid, used in rows:
        merged[pid] = _larger(merged.get(pid), _bytes(pid, used, memory_total, names))
    return tuple(
        CardProcess(pid, used, name, user, visible)
        for pid, used in sorted(merged.items())
        for visible, name, user in (names.find(pid),)
    )


def _bytes(pid: int, used: int | None, memory_total: Reading, names: ProcessNames) -> Reading:
    if used is None:
        return Missing(Why.UNSUPPORTED)
    if not names.find(pid)[0]:
        return Missing(Why.IMPLAUSIBLE, "no such process here")
    if used <= 0 or (not isinstance(memory_total, Missing) and used > memory_total):
        return Missing(Why.IMPLAUSIBLE, f"{used} bytes")
    return float(used)


def _larger(one: Reading | None, other: Reading) -> Reading:
    """The same pid twice is one context seen as compute and as graphics, not two shares."""
    if one is None or isinstance(one, Missing):
        return other
    return one if isinstance(other, Missing) else max(one, other)
