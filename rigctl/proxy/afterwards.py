"""Bookkeeping that no byte waits for: done when the bytes are on their way.

Nobody can tell that it was put off. What decisions go by is done before anything is decided
(`run`), what an answer taught before the next turn of its conversation is (`learn`), metrics, sums
and the log before anybody reads them (`settle`). All are done by themselves a moment later: the
next request of a client often comes in the very millisecond of the last answer's end, and its first
byte does not wait for what the last one leaves to be written down.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], None]

MOMENT = 0.002
"""Seconds for which what decisions go by is put off at most: an engine's first byte has most likely
gone through by then."""
LATER = 0.005
"""Seconds for which the rest is put off at most."""


class Afterwards:
    """Work that was put off, each kind in its order."""

    __slots__ = ("_late", "_late_timer", "_lessons", "_soon", "_soon_timer")

    def __init__(self) -> None:
        self._soon: deque[Work] = deque()
        self._soon_timer: asyncio.TimerHandle | None = None
        self._lessons: deque[Work] = deque()
        self._late: deque[Work] = deque()
        self._late_timer: asyncio.TimerHandle | None = None

    def add(self, work: Work) -> None:
        """Put off what a decision goes by."""
        if self._soon_timer is None:
            self._soon_timer = asyncio.get_running_loop().call_later(MOMENT, self._soon_is_due)
        self._soon.append(work)

    def add_lesson(self, work: Work) -> None:
        """Put off what the next turn of the same conversation goes by."""
        self._wake_late()
        self._lessons.append(work)

    def add_late(self, work: Work) -> None:
        """Put off what is only written down."""
        self._wake_late()
        self._late.append(work)

    def _wake_late(self) -> None:
        if self._late_timer is None:
            self._late_timer = asyncio.get_running_loop().call_later(LATER, self._late_is_due)

    def _soon_is_due(self) -> None:
        self._soon_timer = None
        self.run()

    def _late_is_due(self) -> None:
        self._late_timer = None
        self.settle()

    def run(self) -> None:
        """Do what decisions go by."""
        _do(self._soon)

    def learn(self) -> bool:
        """Do what the next turn of a conversation goes by; whether there was any of it."""
        self.run()
        had = bool(self._lessons)
        _do(self._lessons)
        return had

    def settle(self) -> None:
        """Do all of it."""
        self.learn()
        _do(self._late)


def _do(due: deque[Work]) -> None:
    """What fails is logged and keeps nothing else from being done."""
    while due:
        work = due.popleft()
        try:
            work()
        except Exception:
            log.exception("bookkeeping failed")
