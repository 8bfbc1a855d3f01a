"""Bookkeeping that no byte waits for: done when the bytes are on their way.

Whoever decides by it asks for it first (`run`), so that nobody can tell it was put off; it is done
by itself a moment later, when the engine's first byte has most likely gone through.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

MOMENT = 0.002
"""Seconds for which it is put off at most."""


class Afterwards:
    """Work that was put off, in its order."""

    __slots__ = ("_due", "_timer")

    def __init__(self) -> None:
        self._due: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, work: Callable[[], None]) -> None:
        """Put it off."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOMENT, self._in_time)
        self._due.append(work)

    def _in_time(self) -> None:
        self._timer = None
        self.run()

    def run(self) -> None:
        """Do what was put off. What fails is logged and keeps nothing else from being done."""
        while self._due:
            work = self._due.popleft()
            try:
                work()
            except Exception:
                log.exception("bookkeeping failed")
