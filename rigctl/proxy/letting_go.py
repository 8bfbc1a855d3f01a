"""Ends a request on its engine after its client has left, and sees its slot free again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rigctl.core.ids import Wall
from rigctl.core.reading import Missing
from rigctl.parse.loads import parse as parse_loads
from rigctl.proxy.attempt import Attempt
from rigctl.proxy.board import Record

FINISH = 1.0
"""Seconds that an aborted answer may take to end by itself; then the connection is closed."""
CHUNK = 15.0
"""Seconds after which its slot counts as free whatever the engine says: longer than any chunk."""
LOOK = 0.5


async def let_go(attempt: Attempt, record: Record, others: Callable[[], int]) -> bool:
    """Abort, wait for the end, close. Returns once the slot is free; False where that was assumed.

    The abort comes first: an engine whose client is gone forgets the request's id before it has
    ended the work, and then takes no abort for it (0.5.18, 0.5.19). A prompt that is being read in
    chunks leaves its slot only after the running one; and where the engine knows no id for the
    request, or refuses the abort, it notices the closed connection up to 4 s later if the answer
    was to be no stream. `others` counts the answers of ours that run there beside it.
    """
    took = bool(attempt.rid) and await record.upstream.abort(attempt.rid)
    if took:
        try:
            async with asyncio.timeout(FINISH):
                await attempt.over.wait()
        except TimeoutError:
            pass
    seen = attempt.over.is_set()
    attempt.drop()
    if seen:
        return True
    end = time.monotonic() + CHUNK
    while time.monotonic() < end:
        if not took:
            await asyncio.sleep(LOOK)  # it was told of nothing: what it says now is of before
        look = await record.upstream.look()
        if isinstance(look, str):
            return False
        loads = parse_loads(look, Wall(time.time()))
        if loads is not None and not isinstance(loads.running, Missing):
            queued = 0.0 if isinstance(loads.queued, Missing) else loads.queued
            waiting = 0.0 if isinstance(loads.waiting_tokens, Missing) else loads.waiting_tokens
            reading = 1 if waiting and not queued else 0
            if loads.running + queued + reading <= others():
                return True
        if took:
            await asyncio.sleep(LOOK)
    return False
