"""Sees while an answer still runs that it repeats itself: a loop has no end to be judged at."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rigctl.core.answer import Answer
from rigctl.core.ids import Mono
from rigctl.core.repeats import says_the_same
from rigctl.proxy.live import Request

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two looks at one answer; a look reads the last 32 thousand characters."""
LEAST = 100
"""Events that must have come since the last look."""


class Loops:
    """Looks now and then, outside of the hot path."""

    def __init__(self) -> None:
        self._looked: dict[str, tuple[Mono, int]] = {}
        self._found: set[str] = set()

    def look(self, request: Request, now: Mono) -> bool:
        """Whether its answer repeated itself when it was last looked at."""
        attempt = request.attempt
        reader = None if attempt is None else attempt.reader
        if reader is None or not reader.stream:
            return False
        at, seen = self._looked.get(request.id, (Mono(-EVERY), 0))
        if now - at >= EVERY and reader.progress - seen >= LEAST:
            self._looked[request.id] = (now, reader.progress)
            self._judge(request, reader.answer)
        return request.id in self._found

    def _judge(self, request: Request, answer: Answer) -> None:
        if not any(map(says_the_same, answer.choices.values())):
            self._found.discard(request.id)
        elif request.id not in self._found:
            self._found.add(request.id)
            where = request.cluster or "-"
            log.warning(
                "%s on %s repeats itself; `rigctl abort %s` ends it", request.id, where, request.id
            )

    def forget(self, alive: Iterable[str]) -> None:
        """Those that have ended."""
        kept = set(alive)
        self._found &= kept
        for identity in [each for each in self._looked if each not in kept]:
            del self._looked[identity]
