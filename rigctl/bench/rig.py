"""A simulated rig to measure on: `rigctl demo` in a home of its own, and a client to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigctl.bench import cost
from rigctl.config.paths import find_home
from rigctl.control import address

START_LIMIT = 90.0
"""Seconds for the simulated engines to answer."""


class RigError(Exception):
    """The rig to measure on did not come up, or did not do as asked."""


def command() -> tuple[str, ...]:
    """How this very rigctl is started: its installed script, else the module."""
    script = Path(sys.executable).with_name("rigctl")
    return (str(script),) if script.exists() else (sys.executable, "-m", "rigctl")


@dataclass(frozen=True, slots=True)
class Rig:
    """A rig with a daemon that answers."""

    home: Path
    env: dict[str, str]
    """For programs that shall find this rig."""

    @classmethod
    def at(cls, home: Path) -> Rig:
        """The rig of that home."""
        return cls(home, {**os.environ, "RIGCTL_HOME": str(home)})

    def ask(self, question: Mapping[str, Any], seconds: float = 10.0) -> dict[str, Any]:
        """One question on a connection of its own, one line as the answer."""
        with self.connect() as line:
            line.settimeout(seconds)
            line.sendall(json.dumps(question).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
        return answer

    def connect(self) -> socket.socket:
        """A connection to the daemon; OSError while there is none."""
        return address.connect(find_home(str(self.home)).socket, 10.0)

    def snapshot(self) -> dict[str, Any]:
        """The rig as it is now."""
        return self.ask({"do": "snapshot"})

    def daemon_pids(self) -> tuple[int, ...]:
        """The daemon and its NVML worker, without the engines that are its children too."""
        with self.connect() as line:
            found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        (daemon, _, _) = struct.unpack("3i", found)
        own_session = os.getsid(daemon)
        return (daemon, *(p for p in cost.children(daemon) if os.getsid(p) == own_session))

    def await_states(self, wanted: Mapping[str, str], seconds: float) -> None:
        """Wait until each named group is in the named state; RigError says what they are in."""
        states: dict[str, str] = {}
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                states = {g["name"]: g["state"] for g in self.snapshot()["groups"]}
                if all(states.get(name) == state for name, state in wanted.items()):
                    return
            time.sleep(0.1)
        raise RigError(f"groups are {states} after {seconds:.0f} s, wanted {dict(wanted)}")


class Watcher:
    """A client that takes every snapshot as the panel does; keeps the newest."""

    def __init__(self, rig: Rig) -> None:
        self._line = rig.connect()
        self._line.sendall(b'{"do": "watch"}\n')
        self._rest = b""
        self.newest: dict[str, Any] = {}
        self.seen = 0
        """Snapshots taken so far."""

    def take(self) -> None:
        """Read what has come; does not wait."""
        while select.select([self._line], [], [], 0)[0]:
            got = self._line.recv(1 << 20)
            if not got:
                raise RigError("the daemon hung up")
            *lines, self._rest = (self._rest + got).split(b"\n")
            if lines:
                self.seen += len(lines)
                self.newest = json.loads(lines[-1])

    def close(self) -> None:
        """Hang up."""
        self._line.close()


@contextlib.contextmanager
def demo(folder: Path, *options: str) -> Iterator[Rig]:
    """`rigctl demo --no-panel` with both engines ready; everything it started ends with it."""
    folder.mkdir(parents=True, exist_ok=True)
    rig = Rig.at(folder)
    log = folder / "demo.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command(), "demo", "--no-panel", *options],
            env=rig.env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_ready(rig, process, log)
        yield rig
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _await_ready(rig: Rig, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RigError(f"rigctl demo exited {process.returncode}: {_tail(log)}")
        with contextlib.suppress(OSError, ValueError):
            groups: Sequence[Mapping[str, Any]] = rig.snapshot()["groups"]
            if groups and all(group["state"] == "ready" for group in groups):
                return
        time.sleep(0.2)
    raise RigError(f"rigctl demo was not ready after {START_LIMIT:.0f} s: {_tail(log)}")


def _tail(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").splitlines()[-5:])
