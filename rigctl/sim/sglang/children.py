"""The scheduler and detokenizer processes of one engine: started, stepped, watched, ended."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rigctl.sim.sglang.settings import Settings

CHILD = Path(__file__).with_name("child.py")


class Children:
    """One process a rank and the detokenizer, under SGLang's names."""

    def __init__(self, ranks: int, settings: Settings, sleeps: bool) -> None:
        self._settings = settings
        self._spin = 0.0 if sleeps else settings.spin
        self._talks: list[socket.socket] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        names = ["sglang::scheduler"] if ranks == 1 else []
        names = names or [f"sglang::scheduler_TP{rank}" for rank in range(ranks)]
        self.names = [*names, "sglang::detokenizer"]
        self._ranks = ranks

    @property
    def schedulers(self) -> list[int]:
        """Pids by rank."""
        return [process.pid for process in self._processes[: self._ranks]]

    def start(self) -> None:
        """Start them all; they have no title and do not die with us until `name`."""
        for number, name in enumerate(self.names):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            spin = self._spin if number < self._ranks else 0.0
            leaves = self._settings.leftover and number == min(2, self._ranks - 1)
            words = [
                name,
                str(theirs.fileno()),
                str(spin),
                self._settings.world,
                str(self._settings.orphan_seconds),
                "leftover" if leaves else "plain",
            ]
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-S", "-E", str(CHILD), *words], pass_fds=[theirs.fileno()]
                )
            )
            theirs.close()
            ours.setblocking(False)
            self._talks.append(ours)

    def name(self) -> None:
        """They are up: they take their titles, and die with us from now on."""
        self._all(b"named")

    def escape(self) -> None:
        """One scheduler leaves the session and will outlive a polite stop."""
        self._say(min(2, self._ranks - 1), b"escape")

    def quit(self) -> None:
        """Ask them to leave."""
        self._all(b"quit")

    def _all(self, message: bytes) -> None:
        for number in range(len(self._talks)):
            self._say(number, message)

    def _say(self, number: int, message: bytes) -> None:
        try:
            self._talks[number].send(message)
        except OSError:
            pass  # it has just died; the watch will tell

    async def step(self) -> None:
        """Ask scheduler 0 for its part in the next batch: stopped or dead, nothing goes on."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._talks[0], b"step")
            if await loop.sock_recv(self._talks[0], 16) == b"":
                await asyncio.Event().wait()
        except OSError:
            await asyncio.Event().wait()

    async def watch(self, period: float, died: Callable[[int, int, int], None]) -> None:
        """Look every `period` seconds; call `died(rank, pid, code)` for the first that is gone."""
        while True:
            await asyncio.sleep(period)
            for number, process in enumerate(self._processes):
                code = process.poll()
                if code is not None:
                    died(number, process.pid, code)
                    return

    async def gone(self, seconds: float) -> list[int]:
        """Wait for the schedulers to leave; the pids that did not."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            left = [process.pid for process in self._processes if process.poll() is None]
            if not left:
                return []
            await asyncio.sleep(0.05)
        return [process.pid for process in self._processes if process.poll() is None]

    def kill(self) -> None:
        """SIGKILL what is left in our own session: a leftover has gone its own way."""
        for process in self._processes:
            if process.poll() is None:
                try:
                    if os.getsid(process.pid) == os.getsid(0):
                        process.kill()
                except ProcessLookupError:
                    pass
