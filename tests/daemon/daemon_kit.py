"""A simulated rig under a real daemon process, seen from outside: socket, files, processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tomli_w

from rigctl.adapters import proc
from rigctl.sim.demo import FIRST_LINE, DemoRig

PATIENCE = 40.0
"""Seconds that anything may take on busy cores before a test gives up."""


class Rig:
    """The demo's rig at speed, its daemon started and ended by the test."""

    def __init__(self, home: str, speed: float = 20.0) -> None:
        self.demo = DemoRig(speed=speed, load_seconds=20.0, home=home)
        self.paths = self.demo.prepare()
        self.home = Path(self.paths.home)
        self.paths.places.clients.unlink()  # a test makes those that it asks with
        self.daemon: subprocess.Popen[bytes] | None = None
        self.configure(lambda _: None)

    # ---- setting up --------------------------------------------------------------------

    def configure(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Edit rig.toml as a person would; nothing starts by itself."""
        path = self.paths.places.config
        table = tomllib.loads(path.read_text())
        for group in table["group"]:
            group["start_with_daemon"] = False
            group["stop_grace"] = 3.0
        table["rig"]["stagger"] = 0.0
        table.pop("proxy", None)
        change(table)
        path.write_text(FIRST_LINE + tomli_w.dumps(table))

    def begin(self) -> Rig:
        """Start the world and the daemon."""
        self.demo.start_world()
        return self.begin_daemon()

    def begin_daemon(self, log: str = "daemon-test.log") -> Rig:
        """Start a daemon on this home and wait until it answers with a snapshot."""
        output = open(self.home / log, "ab")  # noqa: SIM115  the child's for its whole life
        with output:
            self.daemon = subprocess.Popen(
                self.demo.daemon_command(), stdout=output, stderr=output, start_new_session=True
            )
        self.wait(lambda: self.snapshot() is not None, "the daemon to answer")
        return self

    def kill_daemon(self) -> None:
        """End the daemon as the kernel would."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()
        self.daemon = None

    def close(self) -> None:
        """End the daemon and, by its lifeline, everything simulated."""
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(PATIENCE)
            self.daemon = None
        self.demo.stop()
        self.wait(lambda: not self.strays(), "everything simulated to end")

    def strays(self) -> list[int]:
        """Living processes that belong to this rig's home."""
        mark = f"SIM_WORLD={self.paths.world}".encode()
        found = []
        for pid in proc.scan():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(pid)
        return found

    # ---- looking -----------------------------------------------------------------------

    def wait(self, holds: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """Until it holds; what it gave."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            found = holds()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"waited {patience:.0f} s for {what}: {self.snapshot()}")

    def snapshot(self) -> dict[str, Any] | None:
        """The daemon's snapshot; None when none answers."""
        ask = subprocess.run(
            [sys.executable, "-m", "rigctl", "--home", str(self.home), "status", "--json"],
            capture_output=True,
            check=False,
        )
        if ask.returncode != 0:
            return None
        shown: dict[str, Any] = json.loads(ask.stdout)
        return shown

    def group(self, name: str) -> dict[str, Any]:
        shown = self.snapshot()
        assert shown is not None
        return next(each for each in shown["groups"] if each["name"] == name)

    def state(self, name: str) -> str:
        return str(self.group(name)["state"])

    def until(self, name: str, state: str) -> dict[str, Any]:
        """Wait for a state; the group then."""
        self.wait(lambda: self.state(name) == state, f"{name} to be {state}")
        return self.group(name)

    def notice(self, identifier: str) -> str:
        """What a standing notice says; empty without it."""
        shown = self.snapshot() or {"notices": []}
        found = [each["say"] for each in shown["notices"] if each["id"] == identifier]
        return str(found[0]) if found else ""

    def journal(self) -> str:
        return self.run("journal", "--lines", "200").stdout

    def session(self, pid: int) -> tuple[int, ...]:
        return tuple(x.pid for x in proc.scan().values() if x.session == pid and x.living)

    def talk(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        """A question on the control socket; the lines of its answer."""
        found = []
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(PATIENCE)
            line.connect(str(self.paths.places.socket))
            line.sendall(json.dumps(question).encode() + b"\n")
            with line.makefile("rb") as lines:
                for each in lines:
                    found.append(json.loads(each))
                    if found[-1]["kind"] not in ("route", "journal", "log"):
                        break
        return found

    def act(self, command: str, **args: Any) -> dict[str, Any]:
        """A command on the control socket; `accepted` or `refused`."""
        return self.talk({"do": "act", "command": command, "args": args})[0]

    # ---- acting ------------------------------------------------------------------------

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line, as a person types it."""
        return subprocess.run(
            [sys.executable, "-m", "rigctl", "--home", str(self.home), *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE * 2,
        )

    def start(self, name: str) -> int:
        """Start a group and wait until it serves; its pid."""
        done = self.run("start", name, "--wait")
        assert done.returncode == 0, done.stderr
        return int(self.until(name, "ready")["pid"])

    def tell_world(self, **row: Any) -> None:
        """A mishap, told as the scenes tell it."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(self.paths.world)
            line.sendall(json.dumps(row).encode() + b"\n")

    @contextlib.contextmanager
    def frozen_world(self) -> Iterator[None]:
        """The world writes no card file meanwhile, so that the test may."""
        world = self.demo._world
        assert world is not None
        world.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            world.send_signal(signal.SIGCONT)

    def state_file(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.paths.places.state_file.read_text())
        return loaded

    def port(self, name: str) -> int:
        return int(self.group(name)["url"].rpartition(":")[2])


class Answer(threading.Thread):
    """One streamed answer, read to its end; every chunk counted."""

    def __init__(self, port: int, tokens: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.tokens = tokens
        self.chunks = 0
        self.complete = False
        self.error = ""
        self.start()

    def run(self) -> None:
        body = {
            "model": "m",
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": self.tokens,
            "ignore_eos": True,
            "stream": True,
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE * 2) as answer:
                for line in answer:
                    self.chunks += line.startswith(b"data: {")
                    self.complete |= line.startswith(b"data: [DONE]")
        except OSError as error:
            self.error = str(error)


def alive(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    line = proc.stat(pid)
    return line is not None and line.living


def end(pid: int) -> None:
    """Kill one process of the test's own."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


__all__ = ["PATIENCE", "Answer", "Rig", "alive", "end"]
