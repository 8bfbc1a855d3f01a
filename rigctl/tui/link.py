"""The panel's one worker: snapshots in, messages out, again and again after a loss."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from rigctl.control.client import RigError
from rigctl.core.snapshot import Snapshot
from rigctl.ports import RigClient

ClientFactory = Callable[[], RigClient]

Revive = Callable[[], str]
"""Starts the daemon anew where it died, and blocks meanwhile; returns what to tell the person,
empty where there is nothing to do: it was ended on purpose."""

FAULTS = (OSError, RigError)
"""What a question to the daemon may end with: it is gone, or it says no."""

RETRY_SECONDS = 1.0
"""Between two tries to reach a daemon that is gone."""
REVIVE_SECONDS = (5.0, 30.0, 300.0)
"""After a loss, then after each try to start one; a service manager has the first 5 s to itself."""


@dataclass
class SnapshotArrived(Message):
    """The newest snapshot; one that still waits in the queue is replaced by it."""

    snapshot: Snapshot

    def can_replace(self, message: Message) -> bool:
        """Only the newest matters."""
        return isinstance(message, SnapshotArrived)


@dataclass
class LinkDown(Message):
    """The daemon is gone; says why."""

    why: str


@dataclass
class Revived(Message):
    """A daemon that had died was started anew, or could not be; says which."""

    say: str


class Link:
    """Holds the client in use, follows its snapshots, and has a dead daemon started anew."""

    def __init__(
        self,
        factory: ClientFactory,
        post: Callable[[Message], object],
        revive: Revive | None = None,
    ) -> None:
        self._factory = factory
        self._post = post
        self._client: RigClient | None = None
        self._revive = revive
        self._tries = 0
        self._revive_at = 0.0

    @property
    def client(self) -> RigClient:
        """The client to ask and send with; a fresh one after a loss."""
        if self._client is None:
            self._client = self._factory()
        return self._client

    async def follow(self) -> None:
        """Runs until cancelled."""
        lost = False
        while True:
            why = "the daemon closed the connection"
            try:
                async for snapshot in self.client.snapshots():
                    lost = False
                    self._post(SnapshotArrived(snapshot))
            except FAULTS as error:
                why = str(error) or type(error).__name__
            finally:
                await self.close()
            self._post(LinkDown(why))
            if not lost:
                lost, self._tries = True, 0
                self._revive_at = time.monotonic() + REVIVE_SECONDS[0]
            elif self._revive is not None and time.monotonic() >= self._revive_at:
                await self._try_to_revive(self._revive)
            await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_revive(self, revive: Revive) -> None:
        """In a thread that nobody waits for: leaving the panel must not take as long as a start."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()

        def tell(say: str) -> None:
            if not done.done():
                done.set_result(say)

        def work() -> None:
            say = revive()
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell, say)

        threading.Thread(target=work, daemon=True).start()
        say = await done
        self._tries += 1
        wait = REVIVE_SECONDS[min(self._tries, len(REVIVE_SECONDS) - 1)]
        self._revive_at = time.monotonic() + wait
        if say:
            self._post(Revived(say))

    async def close(self) -> None:
        """Let go of the client; the next use makes another."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
