"""Follows one accepted command through the snapshots until it has an outcome."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

from rigctl.cli.exits import FAILED, NOT_RUNNING, TIMED_OUT, End
from rigctl.cli.talk import Conversation, Lost, NotRunning
from rigctl.cli.words import plain, say, span, speaks_utf8

AWAY = 20.0
"""Seconds that a daemon may be gone (restarted, upgraded) before we stop waiting for it."""

UNSEEN = 5
"""Snapshots without the operation after which it is taken for forgotten."""


class Progress:
    """Says how an operation gets on: one rewritten line on a terminal, else only what is new."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._last = ""
        self._open = False

    def show(self, operation: dict[str, Any]) -> None:
        """The operation as the newest snapshot has it."""
        if self._quiet or not operation["say"]:
            return
        text = f"{operation['group'] or operation['kind']}: {operation['say']}"
        if self._terminal:
            line = plain(f"{text} ({span(operation['seconds'])})", speaks_utf8(sys.stderr))
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            self._open = True
            return
        # A countdown changes its digits every second; in a log only new words are news.
        shape = re.sub(r"\d+", "", text)
        if shape != self._last:
            self._last = shape
            say(text)

    def close(self) -> None:
        """End the rewritten line."""
        if self._open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._open = False


def follow(
    path: str, operation: int, *, timeout: float | None, quiet: bool, meanwhile: str
) -> dict[str, Any]:
    """The operation once it has ended. `timeout` in seconds; past it the verb ends with 124.

    `meanwhile` says what the person can do about an operation that goes on without us.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    progress = Progress(quiet)
    try:
        return _until_ended(path, operation, deadline, progress)
    except TimeoutError:
        progress.close()
        raise End(
            TIMED_OUT, f"not done after {span(timeout or 0)}; it goes on. {meanwhile}".rstrip()
        ) from None
    except KeyboardInterrupt:
        progress.close()
        say(f"no longer waiting; it goes on. {meanwhile}".rstrip())
        raise
    finally:
        progress.close()


def _until_ended(
    path: str, operation: int, deadline: float | None, progress: Progress
) -> dict[str, Any]:
    away_since: float | None = None
    while True:
        try:
            with Conversation(path) as talk:
                talk.ask({"do": "watch"})
                away_since = None
                ended = _read(talk, operation, deadline, progress)
                if ended is not None:
                    return ended
        except (Lost, NotRunning) as gone:
            now = time.monotonic()
            away_since = away_since or now
            if deadline is not None and now >= deadline:
                raise TimeoutError from None
            if now - away_since > AWAY:
                raise End(NOT_RUNNING, gone.say) from None
            time.sleep(0.25)


def _read(
    talk: Conversation, operation: int, deadline: float | None, progress: Progress
) -> dict[str, Any] | None:
    unseen = 0
    while True:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        snap = talk.line(left)
        found: list[dict[str, Any]] = [
            each for each in snap["operations"] if each["id"] == operation
        ]
        if not found:
            unseen += 1
            if unseen >= UNSEEN:
                raise End(
                    FAILED,
                    f"the daemon no longer knows operation {operation}, so its outcome is unknown."
                    "\nSee `rigctl status` and `rigctl journal`.",
                )
            continue
        if found[0]["state"] != "running":
            return found[0]
        progress.show(found[0])
