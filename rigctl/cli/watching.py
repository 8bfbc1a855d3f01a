"""`--watch`: the same page again with every snapshot, through the daemon's restarts."""

from __future__ import annotations

import os
import sys
import time

from rigctl.cli.talk import Conversation, Lost, NotRunning, decoded_snapshot
from rigctl.cli.words import raw, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def watch(
    path: str,
    page: Callable[[dict[str, Any]], list[str]],
    data: Callable[[bytes], bytes] | None = None,
) -> NoReturn:
    """Show `page` of each snapshot until ctrl+c; with `data`, write that of its line instead."""
    screen = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    lost = False
    while True:
        try:
            with Conversation(path) as talk:
                talk.ask({"do": "watch"})
                lost = False
                while True:
                    line = talk.raw_line(None)
                    if data is not None:
                        raw(data(line))
                    else:
                        _frame(page(decoded_snapshot(line)), screen)
        except NotRunning:
            if not lost:
                raise
            time.sleep(1.0)
        except Lost:
            say("the daemon went away; waiting for it to come back (ctrl+c ends)")
            lost = True
            time.sleep(0.5)


def _frame(lines: list[str], screen: bool) -> None:
    if screen:
        rows = max(2, os.get_terminal_size(sys.stdout.fileno()).lines)
        if len(lines) >= rows:
            lines = [*lines[: rows - 2], f"({len(lines) - rows + 2} more lines)"]
        # Home, each line cleared to its end, then the rest of the screen: no flicker.
        body = "\x1b[K\r\n".join(lines)
        sys.stdout.write(f"\x1b[H{body}\x1b[K\r\n\x1b[J")
    else:
        sys.stdout.write("\n".join(lines) + "\n\n")
    sys.stdout.flush()
