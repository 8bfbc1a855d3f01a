"""Colour on a terminal, never as the only sign of a state."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "good": "32", "warning": "33", "bad": "31"}


def width(stream: TextIO | None = None) -> int:
    """Columns of the terminal; 100 where the output goes elsewhere, so that a log keeps all."""
    try:
        wanted = int(os.environ.get("COLUMNS") or 0)
    except ValueError:
        wanted = 0
    if wanted > 0:
        return wanted
    try:
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or 80
    except (OSError, ValueError):
        return 100


def colours_on(stream: TextIO | None = None) -> bool:
    """A terminal that knows colours, and nobody asked for none (an empty NO_COLOR is no wish)."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("dumb", ""):
        return False
    try:
        return stream.isatty()
    except ValueError:
        return False


class Paint:
    """Wraps text in a colour, or leaves it alone."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, tone: str) -> str:
        if not self.on or not tone or not text:
            return text
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m"
