"""A tmux of a test's own with one pane that runs a command: keys go in, what is drawn comes out."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import subprocess
import time
from collections.abc import Sequence

PATIENCE = 30.0
"""Seconds a loaded machine may take for what usually takes a tenth of one."""

CARRIED = ("COLORTERM", "LANG", "LC_ALL", "NO_COLOR", "RIGCTL_ASCII", "RIGCTL_HOME", "TERM", "TZ")
"""What of the environment reaches the pane; the rest is the tmux server's."""

_numbers = itertools.count()


def environment(**changes: str) -> dict[str, str]:
    """The test's environment with a UTF-8 true-colour terminal, and then the changes."""
    made = {**os.environ, "LANG": "C.UTF-8", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    made = {**made, "TZ": "UTC", **changes}
    for name in ("LC_ALL", "LC_CTYPE", "RIGCTL_ASCII"):
        if name not in changes:
            made.pop(name, None)
    return made


class TmuxPane:
    """A tmux server of our own with one pane; its shell says `ENDED code` after the command."""

    def __init__(self, command: Sequence[str], *, size: tuple[int, int], **env: str) -> None:
        self.name = f"rigctl-test-{os.getpid()}-{next(_numbers)}"
        wanted = environment(**{"TERM": "tmux-256color", **env})
        # A stale size in the environment must not count (C96): readline exports one.
        settings = ["COLUMNS=80", "LINES=24"]
        settings += [f"{name}={wanted[name]}" for name in CARRIED if name in wanted]
        line = shlex.join(["env", *settings, *command])
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

    def press(self, key: str) -> None:
        """One key as it is: a semicolon or a word would be tmux's otherwise."""
        self.run("send-keys", "-l", key)

    def bytes(self, *values: int) -> None:
        """Bytes in one write, so that the other end reads them together."""
        self.run("send-keys", "-H", *(f"{value:x}" for value in values))

    def text(self, *options: str) -> str:
        """What the pane shows."""
        return self.run("capture-pane", "-p", *options)

    def until(self, wanted: str, *, gone: bool = False, patience: float = PATIENCE) -> str:
        """Wait until the pane shows that, or no longer does."""
        return self.until_match(re.escape(wanted), gone=gone, patience=patience)

    def until_match(self, pattern: str, *, gone: bool = False, patience: float = PATIENCE) -> str:
        """The same for a regular expression."""
        found = re.compile(pattern, re.MULTILINE)
        end = time.monotonic() + patience
        while (found.search(text := self.text()) is not None) == gone:
            assert time.monotonic() < end, (
                f"{pattern!r} {'stayed' if gone else 'never came'}:\n{text}"
            )
            time.sleep(0.05)
        return text if gone else self._whole(text)

    def _whole(self, text: str) -> str:
        """The screen once it is drawn to its end: tmux may have shown the upper half of it."""
        for _ in range(10):
            time.sleep(0.03)
            before, text = text, self.text()
            if text == before:
                break
        return text

    def resize(self, wide: int, high: int) -> None:
        """Another window size."""
        self.run("resize-window", "-x", str(wide), "-y", str(high))

    def pid(self) -> int:
        """The pane's shell."""
        return int(self.run("display-message", "-p", "#{pane_pid}"))

    def close(self) -> None:
        """End this server, and with it what runs in the pane."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run("kill-server")

    def __enter__(self) -> TmuxPane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
