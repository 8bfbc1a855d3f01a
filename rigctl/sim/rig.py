"""The world process: it owns the simulated cards, and everything simulated ends with it.

`python -m rigctl.sim.rig CARDFILE SOCKET`. Engines report to the socket, scenes command it, the
daemon holds on to it. With `--held-by FD` it ends when that pipe does: whoever started it may be
killed with -9, and nothing is left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rigctl.adapters import proc
from rigctl.sim import cardfile
from rigctl.sim.cards import Cards, Tenant
from rigctl.sim.world import Duty

BUSY_SECONDS = 0.4
"""Between two writes of the card file while something works."""
IDLE_SECONDS = 2.0
MADE_BY_DEMO = ".made-by-rigctl-demo"
"""A file in a home that a demo made for itself: without it no folder is ever removed."""


def _start_ticks(pid: int) -> int | None:
    """When a living process started; None where there is none."""
    found = proc.stat(pid)
    return found.start_ticks if found is not None and found.living else None


class _Peer:
    """A process on the line, held by pidfds: its own from when it came, and its children's."""

    def __init__(self, pid: int, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.writer = writer
        self.ours = False
        """Whether it is part of the simulation, to be ended with it."""
        self._fds: dict[int, int] = {}
        self._take(pid)

    def _take(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            self._fds[pid] = os.pidfd_open(pid)

    def adopt(self, pids: Iterable[int]) -> None:
        """Its children, which may be stopped before they come to the line themselves."""
        for pid in pids:
            found = proc.stat(pid) if pid not in self._fds else None
            if found is not None and found.parent == self.pid:
                self._take(pid)

    def end(self) -> None:
        if self.ours:
            for fd in self._fds.values():
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()
        self.writer.close()


class World:
    """One owner of the cards."""

    def __init__(self, path: Path, count: int, speed: float) -> None:
        self._path = path
        self._cards = Cards(count, speed, _start_ticks)
        self._peers: set[_Peer] = set()
        self._moved = asyncio.Event()
        self._last = time.monotonic()

    async def serve(self, sock: str, held_by: int | None, sweep: Path | None) -> None:
        """Until the pipe, a signal or a `stop` ends it; then everything of ours is ended."""
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, over.set)
        if held_by is not None:
            os.set_blocking(held_by, False)
            loop.add_reader(held_by, _drain, held_by, over)
        self._write()
        server = await asyncio.start_unix_server(self._talk, sock)
        os.chmod(sock, 0o600)
        ticking = loop.create_task(self._tick())
        await over.wait()
        ticking.cancel()
        server.close()
        for peer in tuple(self._peers):
            peer.end()
            peer.close()
        with contextlib.suppress(OSError):
            os.unlink(sock)
        if sweep is not None and (sweep / MADE_BY_DEMO).exists():
            await asyncio.sleep(0.5)  # the daemon ends with our socket and writes its last words
            shutil.rmtree(sweep, ignore_errors=True)

    async def _tick(self) -> None:
        while True:
            wait = BUSY_SECONDS if self._cards.busy else IDLE_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), wait)
                await asyncio.sleep(0.05)  # what comes together is written together
            self._moved.clear()
            self._write()

    def _write(self) -> None:
        now = time.monotonic()
        self._cards.limits = cardfile.limits(self._path, 0)
        self._cards.advance(now - self._last, now)
        self._last = now
        cardfile.write(self._path, self._cards.table())

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = writer.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
        )
        peer = _Peer(struct.unpack("3i", raw)[0], writer)
        self._peers.add(peer)
        try:
            while line := await reader.readline():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    self._hear(peer, json.loads(line))
        except (OSError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            pass  # the world ends; passed on, asyncio would print a traceback for each engine
        finally:
            self._peers.discard(peer)
            self._cards.leave(peer.pid)
            self._moved.set()
            peer.close()

    def _hear(self, peer: _Peer, row: Mapping[str, Any]) -> None:
        do = row["do"]
        if do == "hold":
            peer.ours = True
        elif do == "report":
            peer.ours = True
            tenant = Tenant(
                peer.pid,
                self._cards.find(row["cards"]),
                tuple(row["schedulers"]),
                Duty[row["duty"]],
                int(row["bytes"]),
            )
            self._cards.report(tenant)
            peer.adopt(tenant.schedulers)
            self._moved.set()
        elif do == "lose":
            for pid in self._cards.lose(int(row["card"]), int(row.get("code", 15))):
                self._tell(pid, {"do": "crash"})
            self._moved.set()
        elif do == "foreign":
            self._cards.hold(int(row["card"]), int(row["pid"]), int(row["bytes"]))
            self._moved.set()
        elif do in ("crash", "leftover"):
            tenant_pid = self._cards.tenant_on(int(row["card"]))
            if tenant_pid is not None:
                self._tell(tenant_pid, {"do": do})

    def _tell(self, pid: int, row: Mapping[str, Any]) -> None:
        """A command to one engine: its main process, the only one of it that reports."""
        for peer in self._peers:
            if peer.pid == pid:
                peer.writer.write(json.dumps(row).encode() + b"\n")


def _drain(fd: int, over: asyncio.Event) -> None:
    """The pipe became readable: its end is our end, bytes on it are nothing."""
    try:
        if os.read(fd, 4096):
            return
    except BlockingIOError:
        return
    except OSError:
        pass
    asyncio.get_running_loop().remove_reader(fd)
    over.set()


def main(argv: list[str] | None = None) -> int:
    """Run a world until its pipe or a signal ends it."""
    parser = argparse.ArgumentParser(prog="rigctl.sim.rig", description=__doc__)
    parser.add_argument("cardfile", type=Path)
    parser.add_argument("socket")
    parser.add_argument("--cards", type=int, default=8)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--held-by", type=int)
    parser.add_argument("--sweep", type=Path, help="a demo's own home, removed at the end")
    args = parser.parse_args(argv)
    world = World(args.cardfile, args.cards, args.speed)
    asyncio.run(world.serve(args.socket, args.held_by, args.sweep))
    return 0


if __name__ == "__main__":
    sys.exit(main())
