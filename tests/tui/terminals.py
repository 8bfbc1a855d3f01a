"""Real terminals for tests: a pseudo-terminal that keeps its bytes, and a tmux of our own."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

LAUNCHER = str(Path(__file__).with_name("launch_panel.py"))
PATIENCE = 30.0
"""Seconds a loaded machine may take for what usually takes a tenth of one."""

_numbers = itertools.count()


def environment(**changes: str) -> dict[str, str]:
    """The test's environment with a UTF-8 true-colour terminal, and then the changes."""
    made = {**os.environ, "LANG": "C.UTF-8", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    made = {**made, "TZ": "UTC", **changes}
    for name in ("LC_ALL", "LC_CTYPE", "RIGCTL_ASCII"):
        if name not in changes:
            made.pop(name, None)
    return made


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


class Tmux:
    """A tmux server of our own with one pane that runs a panel."""

    def __init__(self, *arguments: str, size: tuple[int, int], **env: str) -> None:
        self.name = f"rigctl-test-{os.getpid()}-{next(_numbers)}"
        changes = {"TERM": "tmux-256color", **env}
        wanted = environment(**changes)
        names = {"LANG", "LC_ALL", "COLORTERM", "TZ", "NO_COLOR", "RIGCTL_ASCII", "TERM"}
        # A stale size in the environment must not count (C96): readline exports one.
        settings = ["COLUMNS=80", "LINES=24"]
        settings += [f"{name}={wanted[name]}" for name in sorted(names) if name in wanted]
        line = " ".join(
            ["env", *(f"'{one}'" for one in settings), sys.executable, LAUNCHER, *arguments]
        )
        wide, high = size
        self.run("-f", "/dev/null", "new-session", "-d", "-x", str(wide), "-y", str(high),
                 f"{line}; echo ENDED $?; sleep 60")  # fmt: skip

    def run(self, *arguments: str) -> str:
        """One tmux command."""
        done = subprocess.run(
            ["tmux", "-u", "-L", self.name, *arguments],
            capture_output=True, check=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        return done.stdout

    def keys(self, *names: str) -> None:
        """Keys by tmux's names."""
        self.run("send-keys", *names)

    def bytes(self, *values: int) -> None:
        """Bytes in one write, so that the other end reads them together."""
        self.run("send-keys", "-H", *(f"{value:x}" for value in values))

    def text(self, *options: str) -> str:
        """What the pane shows."""
        return self.run("capture-pane", "-p", *options)

    def until(self, wanted: str, *, gone: bool = False) -> str:
        """Wait until the pane shows that, or no longer does."""
        end = time.monotonic() + PATIENCE
        while (wanted in (text := self.text())) == gone:
            assert time.monotonic() < end, (
                f"{wanted!r} {'stayed' if gone else 'never came'}:\n{text}"
            )
            time.sleep(0.05)
        return text

    def resize(self, wide: int, high: int) -> None:
        """Another window size."""
        self.run("resize-window", "-x", str(wide), "-y", str(high))

    def close(self) -> None:
        """End this server, and with it the panel."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run("kill-server")

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
