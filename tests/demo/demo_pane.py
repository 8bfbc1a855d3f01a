"""`rigctl demo` in a tmux of a test's own: the real world, daemon, engines, socket and panel."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from support_tmux import PATIENCE, TmuxPane

from rigctl.tui.screens.asking import ARM_SECONDS

LARGE = (120, 36)
SMALL = (80, 24)
RIGCTL = (sys.executable, "-m", "rigctl")


def until(told: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Wait until that is so."""
    end = time.monotonic() + patience
    while not told():
        assert time.monotonic() < end, f"{what} did not happen within {patience:.0f} s"
        time.sleep(0.1)


def running_for(home: str) -> list[psutil.Process]:
    """Every living process that has this demo's folder on its command line or in its SIM_WORLD."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            ours = any(home in word for word in words)
            ours = ours or process.environ().get("SIM_WORLD", "").startswith(home)
            if ours and process.pid != os.getpid() and words[0] != "tmux":
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, IndexError):
            continue
    return [one for one in found if alive(one)]


def alive(process: psutil.Process) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class DemoPane(TmuxPane):
    """A demo with its panel; leaving the block ends it and its folder."""

    def __init__(
        self,
        scene: str = "team",
        *options: str,
        size: tuple[int, int] = LARGE,
        speed: float = 1.0,
        lend_home: bool = True,
        **env: str,
    ) -> None:
        # Sockets have paths of 107 bytes at most, and pytest's folders are long.
        self.home = tempfile.mkdtemp(prefix="rigctl-test-", dir="/tmp") if lend_home else ""
        super().__init__(
            [*RIGCTL, "demo", "--scene", scene, "--speed", str(speed), *options],
            size=size, RIGCTL_HOME=self.home, **env,
        )  # fmt: skip

    def find_home(self) -> str:
        """The folder of a demo that made its own: its world is told to sweep it."""
        for process in psutil.Process(self.pid()).children(recursive=True):
            words = process.cmdline()
            if "--sweep" in words:
                self.home = words[words.index("--sweep") + 1]
        return self.home

    def programs(self) -> list[psutil.Process]:
        """What runs in the pane."""
        return [one for one in psutil.Process(self.pid()).children(recursive=True) if alive(one)]

    def status(self) -> dict[str, Any]:
        """The snapshot as any client gets it: what the panel shows is held against this."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(Path(self.home, "state", "rigctl.sock")))
            line.sendall(b'{"do": "snapshot"}\n')
            got = line.makefile("rb").readline()
        answer: dict[str, Any] = json.loads(got)
        return answer

    def group(self, name: str) -> dict[str, Any]:
        """One group of it."""
        found: dict[str, Any] = next(g for g in self.status()["groups"] if g["name"] == name)
        return found

    def endpoint(self) -> dict[str, Any]:
        """The one address in front of the groups, with its rows."""
        found: dict[str, Any] = self.status()["endpoint"]
        return found

    def sessions(self, *states: str) -> list[dict[str, Any]]:
        """Its rows in these states; in any, without one."""
        rows = self.endpoint()["rows"]["sessions"]
        return [row for row in rows if not states or row["state"] in states]

    def cards(self, name: str) -> list[dict[str, Any]]:
        """The group's cards of it."""
        return [card for card in self.status()["cards"] if card["group"] == name]

    def ready(self) -> str:
        """Wait until both groups are shown as ready."""
        return self.until_match(r"● ready.*● ready")

    def escape(self) -> None:
        """Alone: with a key right after it a terminal would mean that key with alt."""
        self.keys("Escape")
        time.sleep(0.25)

    def confirm(self, key: str, question: str) -> str:
        """Press, read the question, wait as long as it wants, press again; returns what it said."""
        self.press(key)
        text = self.until(f"{key} again: {question}")
        time.sleep(ARM_SECONDS + 0.2)
        self.press(key)
        self.until(f"{key} again: ", gone=True)
        return text

    def close(self) -> None:
        """End the demo, whatever state it is in."""
        super().close()
        if self.home:
            until(lambda: not self.left(), "the demo's end")
        shutil.rmtree(self.home, ignore_errors=True)

    def left(self) -> list[psutil.Process]:
        return running_for(self.home)
