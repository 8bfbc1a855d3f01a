"""Looks at every cluster each five seconds, by `/v1/loads`, which wakes no card."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from rigctl.core.evidence import BytesSeen, Looked, Silent, Unanswered
from rigctl.core.ids import Wall
from rigctl.parse.loads import parse as parse_loads
from rigctl.proxy.admission import Admission
from rigctl.proxy.board import Board, Record
from rigctl.proxy.upstream import probe_efforts

log = logging.getLogger(__name__)

EVERY = 5.0
_SERVING = ("ready", "draining")


class Watcher:
    """One look at a time for each cluster; a slow one holds up no other."""

    def __init__(
        self, board: Board, admission: Admission, last_byte: Callable[[Record], float | None]
    ) -> None:
        """`last_byte`: seconds since an engine last sent any, to requests of ours there; None
        where there are none."""
        self._last_byte = last_byte
        self._board = board
        self._admission = admission
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """For ever."""
        while True:
            self.look()
            await asyncio.sleep(EVERY)

    def look(self) -> None:
        """Begin a look at every cluster that should answer."""
        for record in self._board:
            if record.row.state not in _SERVING or record.name in self._running:
                continue
            task = asyncio.get_running_loop().create_task(self._look(record))
            self._running[record.name] = task
            task.add_done_callback(partial(self._done, record.name))

    def _done(self, name: str, task: asyncio.Task[None]) -> None:
        self._running.pop(name, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("looking at %s failed", name, exc_info=task.exception())

    async def _look(self, record: Record) -> None:
        silent = self._last_byte(record)
        if silent is None:
            self._board.observe(record, Silent(0.0, 0))
        elif silent < EVERY:
            self._board.observe(record, BytesSeen())
        else:
            self._board.observe(record, Silent(silent, record.in_flight))
        found = await record.upstream.look()
        if isinstance(found, str):
            self._board.observe(record, Unanswered(found))
        else:
            loads = parse_loads(found, Wall(time.time()))
            if loads is None:
                self._board.observe(record, Unanswered("/v1/loads is not understood"))
            else:
                self._board.observe(
                    record,
                    Looked(loads.age, loads.running, loads.queued, loads.waiting_tokens),
                )
                await self._probe(record)
        self._admission.wake()

    async def _probe(self, record: Record) -> None:
        """Once for each start of an engine: which effort levels its template takes."""
        if record.probed:
            return
        run = record.row.run
        efforts = await probe_efforts(record.upstream)
        if efforts is not None and record.row.run == run:
            record.efforts = efforts
            record.probed = True
