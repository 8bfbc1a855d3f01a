"""The endpoint's newest decisions, for `rigctl route explain`: a ring of the shell."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence

from rigctl.core.flow import RouteRecord

KEPT = 500
"""Decisions that are kept."""
_BEHIND = 256
"""Records a slow follower may be behind before the oldest are lost to it."""


class RouteFollower:
    """One client's queue: newest records, bounded."""

    def __init__(self) -> None:
        self._waiting: deque[RouteRecord] = deque(maxlen=_BEHIND)
        self._filled = asyncio.Event()

    def put(self, record: RouteRecord) -> None:
        self._waiting.append(record)
        self._filled.set()

    async def take(self) -> RouteRecord:
        """The oldest that is waiting."""
        await self._filled.wait()
        record = self._waiting.popleft()
        if not self._waiting:
            self._filled.clear()
        return record


class RouteRing:
    """A record comes twice where its request took a while: at its decision, and at its end."""

    def __init__(self) -> None:
        self._records: OrderedDict[tuple[str, int], RouteRecord] = OrderedDict()
        self._followers: set[RouteFollower] = set()

    def put(self, records: Sequence[RouteRecord]) -> None:
        """Take new ones in, and the ends of known ones in their place."""
        for record in records:
            self._records[(record.request, record.seq)] = record
            for follower in self._followers:
                follower.put(record)
        while len(self._records) > KEPT:
            self._records.popitem(last=False)

    def newest(self, limit: int) -> tuple[RouteRecord, ...]:
        """The last so many, oldest first."""
        everything = tuple(self._records.values())
        return everything[-limit:] if limit > 0 else ()

    def follow(self) -> RouteFollower:
        made = RouteFollower()
        self._followers.add(made)
        return made

    def unfollow(self, follower: RouteFollower) -> None:
        self._followers.discard(follower)
