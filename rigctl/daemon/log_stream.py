"""The lines of an engine's log for one client: the last ones, folded, then the new ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from rigctl.adapters.logfold import Fold
from rigctl.adapters.tail import Tail, last_lines

_LOOK_EVERY = 0.25
"""Seconds between two looks at a followed file; one `fstat` each."""

_FLUSH_AFTER = 4
"""Looks without another line after which the count of a repeated one is shown."""


async def log_lines(path: Path, count: int, follow: bool) -> AsyncIterator[str]:
    """The last `count` lines of the file, repeated ones folded; then, with `follow`, new ones.

    FileNotFoundError where there is no file, unless it is followed: then it is waited for.
    """
    fold = Fold()
    offset = 0
    try:
        end = last_lines(path, count)
    except FileNotFoundError:
        if not follow:
            raise
    else:
        offset = end.offset
        last = [end.rest] if end.rest and not follow else []
        for line in (*end.lines, *last):
            for shown in fold.feed(line):
                yield shown
    if not follow:
        for shown in fold.flush():
            yield shown
        return
    tail = Tail(path, offset)
    quiet = 0
    try:
        while True:
            lines = tail.read()
            quiet = 0 if lines else quiet + 1
            for line in lines:
                for shown in fold.feed(line):
                    yield shown
            if quiet >= _FLUSH_AFTER:
                for shown in fold.flush():
                    yield shown
            if not lines:
                await asyncio.sleep(_LOOK_EVERY)
            else:
                await asyncio.sleep(0)  # a flood is one client's; the loop has others
    finally:
        tail.close()
