"""What the process tests share: dummy trees that are always ended, and waiting for a condition."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rigctl.adapters import proc
from rigctl.adapters.process import ProcessLauncher
from rigctl.core.ids import ProcessIdentity

DUMMY = Path(__file__).with_name("dummy_engine.py")


async def until(true: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until the condition holds; AssertionError when it never does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.01)


class Bench:
    """A launcher with its exits noted, and a list of everything that must not outlive the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exits: list[tuple[ProcessIdentity, int | None]] = []
        self.launcher = ProcessLauncher(lambda who, code: self.exits.append((who, code)))
        self._started: set[tuple[int, int]] = set()

    def note(self, pid: int) -> None:
        """This process is ended with the test."""
        line = proc.stat(pid)
        if line is not None:
            self._started.add((pid, line.start_ticks))

    async def start(
        self, *options: str, token: str = "t"
    ) -> tuple[ProcessIdentity, tuple[int, ...]]:
        """Start a dummy tree and wait until it stands: its identity and its children's pids."""
        log = self.folder / f"{len(self._started)}.log"
        argv = [sys.executable, str(DUMMY), *options]
        identity = self.launcher.spawn(argv, {}, str(log), token)
        self.note(identity.pid)
        await until(lambda: b"ready" in log.read_bytes() and b"\n" in log.read_bytes())
        first = log.read_text().splitlines()[0]
        children = tuple(int(pid) for pid in first.split()[1:])
        for child in children:
            self.note(child)
        return identity, children

    def gone(self, *pids: int) -> bool:
        """Whether none of them lives; zombies do not."""
        return all((line := proc.stat(pid)) is None or not line.living for pid in pids)

    async def close(self) -> None:
        for pid, ticks in self._started:
            line = proc.stat(pid)
            if line is not None and line.start_ticks == ticks:
                os.kill(pid, signal.SIGKILL)
        for pid, ticks in self._started:
            await until(
                lambda pid=pid, ticks=ticks: (
                    (line := proc.stat(pid)) is None or not line.living or line.start_ticks != ticks
                )
            )
        await asyncio.sleep(0.02)
        self.launcher.close()
