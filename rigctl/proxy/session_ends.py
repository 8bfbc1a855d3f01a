"""Tells engines which sessions have left them for good, so that they may drop what they hold."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable

from rigctl.core.home import Ended
from rigctl.proxy.board import Board

log = logging.getLogger(__name__)

MOST = 1_024
"""Sessions still to be told; beyond, the oldest are the engine's own to forget."""


class SessionEnds:
    """One question at a time, beside everything else: an engine that is slow to take them, as one
    in the midst of a prompt is, holds up no clock of the proxy."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._due: deque[Ended] = deque(maxlen=MOST)
        self._task: asyncio.Task[None] | None = None

    def tell(self, ended: Iterable[Ended]) -> None:
        """These have ended."""
        self._due.extend(each for each in ended if self._wants(each))
        if self._due and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
            self._task.add_done_callback(self._done)

    def stop(self) -> None:
        """The process ends; engines forget the rest by themselves."""
        if self._task is not None:
            self._task.cancel()

    def _wants(self, ended: Ended) -> bool:
        """Whether that very start of the engine still runs and keeps sessions."""
        record = self._board.get(ended.cluster)
        if record is None or not record.row.session_radix or record.row.state != "ready":
            return False
        return record.row.run == ended.run

    async def _work(self) -> None:
        while self._due:
            ended = self._due.popleft()
            record = self._board.get(ended.cluster)
            if record is not None and self._wants(ended):
                await record.upstream.close_session(ended.label)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            log.error("telling of ended sessions failed", exc_info=task.exception())
