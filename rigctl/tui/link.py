"""The panel's one worker: snapshots in, messages out, again and again after a loss."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from rigctl.control.client import RigError
from rigctl.core.snapshot import Snapshot
from rigctl.ports import RigClient

ClientFactory = Callable[[], RigClient]

FAULTS = (OSError, RigError)
"""What a question to the daemon may end with: it is gone, or it says no."""

RETRY_SECONDS = 1.0
"""Between two tries to reach a daemon that is gone."""


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


class Link:
    """Holds the client in use, and follows its snapshots."""

    def __init__(self, factory: ClientFactory, post: Callable[[Message], object]) -> None:
        self._factory = factory
        self._post = post
        self._client: RigClient | None = None

    @property
    def client(self) -> RigClient:
        """The client to ask and send with; a fresh one after a loss."""
        if self._client is None:
            self._client = self._factory()
        return self._client

    async def follow(self) -> None:
        """Runs until cancelled."""
        while True:
            why = "the daemon closed the connection"
            try:
                async for snapshot in self.client.snapshots():
                    self._post(SnapshotArrived(snapshot))
            except FAULTS as error:
                why = str(error) or type(error).__name__
            finally:
                await self.close()
            self._post(LinkDown(why))
            await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Let go of the client; the next use makes another."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
