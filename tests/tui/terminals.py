"""Real terminals for tests: a pseudo-terminal that keeps its bytes, and a panel in a tmux."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

from support_tmux import PATIENCE, TmuxPane, environment

LAUNCHER = str(Path(__file__).with_name("launch_panel.py"))


class Pty:
    """A panel in a pseudo-terminal."""

    def __init__(self, *arguments: str, size: tuple[int, int] = (80, 24), **env: str) -> None:
        self.output = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                time.sleep(0.05)
                argv = [sys.executable, LAUNCHER, *arguments]
                os.execve(sys.executable, argv, environment(**env))
            os._exit(127)
        wide, high = size
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", high, wide, 0, 0))
        self.before = termios.tcgetattr(self.master)

    def read(self, seconds: float) -> bytes:
        """What came within that time, or until the other end closed."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                chunk = os.read(self.master, 65536)
            except OSError:
                break
            if not chunk:
                break
            self.output += chunk
        return self.output

    def until(self, wanted: bytes) -> None:
        """Read until these bytes came."""
        end = time.monotonic() + PATIENCE
        while wanted not in self.output:
            assert time.monotonic() < end, f"{wanted!r} never came: {self.output[-2000:]!r}"
            self.read(0.1)

    def write(self, data: bytes) -> None:
        """Keys, as one read at the other end."""
        os.write(self.master, data)

    def signal(self, number: signal.Signals) -> None:
        """Send it to the panel."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit code as a shell says it; the output is read to its end."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.master >= 0:
                self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                if self.master >= 0:
                    self.read(0.2)
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            time.sleep(0.02)
        raise AssertionError(f"the panel did not end: {self.output[-500:]!r}")

    def hang_up(self) -> None:
        """The terminal goes away, as at the end of an SSH connection."""
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        """End what still runs."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        if self.master >= 0:
            self.hang_up()

    def __enter__(self) -> Pty:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tmux(TmuxPane):
    """A tmux server of our own with one pane that runs a panel on a sample rig."""

    def __init__(self, *arguments: str, size: tuple[int, int], **env: str) -> None:
        super().__init__([sys.executable, LAUNCHER, *arguments], size=size, **env)
