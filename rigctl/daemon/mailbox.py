"""Hands what the loop makes to many clients at once, so that a slow one costs only itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from rigctl.core.snapshot import JournalEntry

JOURNAL_QUEUE = 256
"""Entries a slow follower may be behind before the oldest are lost to it, and that is said."""


class Mailbox:
    """One slot: a reader that comes late finds the newest line and none of those before it."""

    def __init__(self) -> None:
        self._line: bytes | None = None
        self._filled = asyncio.Event()

    def put(self, line: bytes) -> None:
        """Replace what has not been fetched yet."""
        self._line = line
        self._filled.set()

    async def wait(self) -> None:
        """Until there is something to take."""
        await self._filled.wait()

    def take(self) -> bytes | None:
        """The newest line, or None when it was taken already."""
        line, self._line = self._line, None
        self._filled.clear()
        return line


class JournalQueue:
    """Entries in order for one follower, bounded; what it lost is counted, not hidden."""

    def __init__(self) -> None:
        self._entries: deque[JournalEntry] = deque()
        self._missed = 0
        self._filled = asyncio.Event()

    def put(self, entry: JournalEntry) -> None:
        if len(self._entries) >= JOURNAL_QUEUE:
            self._entries.popleft()
            self._missed += 1
        self._entries.append(entry)
        self._filled.set()

    async def take(self) -> JournalEntry | int:
        """The next entry, or first how many were lost before it."""
        await self._filled.wait()
        if self._missed:
            missed, self._missed = self._missed, 0
            return missed
        entry = self._entries.popleft()
        if not self._entries:
            self._filled.clear()
        return entry


class Broadcast:
    """The newest snapshot line and the stream of journal entries, to all who look."""

    def __init__(self, on_watchers: Callable[[int], None] | None = None) -> None:
        """`on_watchers` is told the number of watching clients whenever it changes."""
        self.latest: bytes | None = None
        """The newest snapshot line; None before the first."""
        self._mailboxes: set[Mailbox] = set()
        self._followers: set[JournalQueue] = set()
        self._on_watchers = on_watchers

    @property
    def watchers(self) -> int:
        """Clients that look at snapshots now: the pollers hurry only for them."""
        return len(self._mailboxes)

    def publish(self, line: bytes) -> None:
        """A new snapshot line for everybody."""
        self.latest = line
        for mailbox in self._mailboxes:
            mailbox.put(line)

    def note(self, entry: JournalEntry) -> None:
        """A new journal entry for everybody who follows."""
        for queue in self._followers:
            queue.put(entry)

    def subscribe(self) -> Mailbox:
        """A mailbox, filled already where there is a snapshot."""
        mailbox = Mailbox()
        if self.latest is not None:
            mailbox.put(self.latest)
        self._mailboxes.add(mailbox)
        self._tell()
        return mailbox

    def unsubscribe(self, mailbox: Mailbox) -> None:
        if mailbox in self._mailboxes:
            self._mailboxes.discard(mailbox)
            self._tell()

    def follow(self) -> JournalQueue:
        queue = JournalQueue()
        self._followers.add(queue)
        return queue

    def unfollow(self, queue: JournalQueue) -> None:
        self._followers.discard(queue)

    def _tell(self) -> None:
        if self._on_watchers is not None:
            self._on_watchers(len(self._mailboxes))
