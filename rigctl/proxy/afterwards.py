"""Bookkeeping that no byte waits for: done when the bytes are on their way.

Whoever decides by it asks for it first (`run`), so that nobody can tell it was put off; and it is
done at the loop's next turn where nobody asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)


class Afterwards:
    """Work that was put off, in its order."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: deque[Callable[[], None]] = deque()

    def add(self, work: Callable[[], None]) -> None:
        """Put it off, until the loop's next turn at most."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self.run)
        self._due.append(work)

    def run(self) -> None:
        """Do what was put off. What fails is logged and keeps nothing else from being done."""
        while self._due:
            work = self._due.popleft()
            try:
                work()
            except Exception:
                log.exception("bookkeeping failed")
