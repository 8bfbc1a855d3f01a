"""SGLang's log: stamped lines on stdout, `[2026-11-29 20:02:31 TP0] …`."""

from __future__ import annotations

import sys
import time


class Log:
    """Writes lines as the real server's processes do, each in one write."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks

    def main(self, text: str) -> None:
        """A line of the HTTP process: no rank."""
        self._write(f"[{self._stamp()}] {text}")

    def rank(self, number: int, text: str) -> None:
        """A line of a scheduler: its rank stands in the stamp once there are several."""
        rank = f" TP{number}" if self._ranks > 1 else ""
        self._write(f"[{self._stamp()}{rank}] {text}")

    def ranks(self, text: str) -> None:
        """The same line from every scheduler."""
        for number in range(self._ranks):
            self.rank(number, text)

    def bare(self, text: str) -> None:
        """Library noise and tracebacks: no stamp."""
        self._write(text)

    @staticmethod
    def _stamp() -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S")

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
