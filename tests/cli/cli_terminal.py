"""A pseudo-terminal with a program on it: what it shows, what is typed, how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence


class Terminal:
    """80 x 24, xterm, its program the session's leader as under a real login."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "LANG": "C.UTF-8", **env},
            preexec_fn=own_terminal,
        )
        os.close(slave)
        self.seen = ""
        self._hung_up = False

    def expect(self, text: str, patience: float = 20.0) -> None:
        """Read until the text was shown; fails with all that was shown instead."""
        deadline = time.monotonic() + patience
        while text not in self.seen:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} was not shown; this was:\n{self.seen}")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def wait(self, patience: float = 20.0) -> int:
        """Until the program has ended: its exit code, negative for a signal."""
        deadline = time.monotonic() + patience
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running; it showed:\n{self.seen}"
            self._read(0.05)
        while self._read(0.05):
            pass
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self.master)
        self._hung_up = True

    def modes(self) -> list[object]:
        """The terminal's settings, as termios has them."""
        return termios.tcgetattr(self.master)

    def close(self) -> None:
        """End what is still there."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        if not self._hung_up:
            self.hang_up()

    def _read(self, patience: float) -> bool:
        ready, _, _ = select.select([self.master], [], [], max(0.0, patience))
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other end was closed: EIO
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)
