"""Questions before an act: asked once, on a terminal only, and no is the default."""

from __future__ import annotations

import sys
import termios

from rigctl.cli.exits import FAILED, USAGE, End
from rigctl.cli.words import plain, say, speaks_utf8


def somebody_there() -> bool:
    """Whether a question would be seen and could be answered."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except ValueError:
        return False


def confirm(question: str, consequence: list[str], *, yes: bool) -> None:
    """Say the consequence and go on only with a clear yes; else end the verb."""
    for line in consequence:
        say(line)
    if yes:
        return
    if not somebody_there():
        raise End(
            USAGE,
            f"nobody is here to answer `{question}`, so nothing was done.\n"
            "Say --yes to go on without the question, or --dry-run to see what would happen.",
        )
    if _answer(f"{question} [y/N] ").lower() not in ("y", "yes"):
        raise End(FAILED, "nothing was done.")


def typed(word: str) -> None:
    """Go on only when the word is typed: for what cannot be taken back for a long time."""
    if _answer(f"To do it all the same, type {word}: ") != word:
        raise End(FAILED, "nothing was done.")


def _answer(prompt: str) -> str:
    """One line from the terminal; empty at its end. Keys typed before the question do not count."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    print(plain(prompt, speaks_utf8(sys.stderr)), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip(" \t\r\n")
