"""A program in tmux with a client attached, as a person runs it over SSH: bytes are counted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

COLUMNS, ROWS = 120, 36
"""The size that the overview is drawn for."""


class TmuxError(Exception):
    """tmux is missing or did not do as asked."""


class Attached:
    """A tmux session with one program and one client."""

    def __init__(
        self, tmux: Sequence[str], client: subprocess.Popen[bytes], master: int, began: float
    ) -> None:
        self._tmux = tmux
        self._client = client
        self._master = master
        self._began = began
        self.received = 0
        """Bytes that the client wrote to its terminal so far."""

    @property
    def pid(self) -> int:
        """The program's own process."""
        return int(_tmux(self._tmux, "list-panes", "-F", "#{pane_pid}"))

    def screen(self) -> str:
        """The text on the screen."""
        return _tmux(self._tmux, "capture-pane", "-p")

    def drain(self) -> None:
        """Take what the client has written; keeps it from blocking."""
        while select.select([self._master], [], [], 0)[0]:
            try:
                self.received += len(os.read(self._master, 65536))
            except OSError:
                return

    def await_text(self, words: Sequence[str], seconds: float) -> float:
        """Wait until all words stand on the screen; seconds since the program was started.

        TmuxError, with the screen as it is, when that does not happen within `seconds`.
        """
        while time.monotonic() - self._began < seconds:
            self.drain()
            text = self.screen()
            if all(word in text for word in words):
                return time.monotonic() - self._began
            time.sleep(0.02)
        raise TmuxError(f"{words} not on the screen after {seconds:.0f} s:\n{self.screen()}")


def _tmux(tmux: Sequence[str], *words: str) -> str:
    done = subprocess.run([*tmux, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TmuxError(f"tmux {words[0]}: {done.stderr.strip()}")
    return done.stdout.rstrip("\n")


@contextlib.contextmanager
def attached(argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> Iterator[Attached]:
    """Run a program in a private tmux server with one client attached; both end with the block."""
    if shutil.which("tmux") is None:
        raise TmuxError("tmux is not installed (apt install tmux)")
    folder.mkdir(parents=True, exist_ok=True)
    tmux = ("tmux", "-S", str(folder / "tmux"), "-f", "/dev/null")
    size = ("-x", str(COLUMNS), "-y", str(ROWS))
    began = time.monotonic()
    start = [*tmux, "new-session", "-d", *size, "--", *argv]
    subprocess.run(start, env=dict(env), check=True, stdin=subprocess.DEVNULL)
    master, slave = pty.openpty()
    client: subprocess.Popen[bytes] | None = None
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        _tmux(tmux, "set", "-g", "status", "off")
        client = subprocess.Popen(
            [*tmux, "attach"],
            env={**env, "TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        yield Attached(tmux, client, master, began)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
        if client is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.wait(5)
            if client.poll() is None:
                client.send_signal(signal.SIGKILL)
                client.wait()
        os.close(master)
        os.close(slave)
