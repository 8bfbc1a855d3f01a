"""An answer read by a coroutine: what a link hands on waits here until it is asked for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from rigctl.adapters.http1.errors import AnswerTooLargeError, PeerError
from rigctl.adapters.http1.link import Relayed
from rigctl.adapters.http1.messages import Headers, ResponseHead

ANSWER_LIMIT = 8 * 1024 * 1024
"""Bytes of body a whole answer may have unless its reader says otherwise."""


class Inbox:
    """A sink that keeps what comes; past `limit` bytes the connection rests."""

    def __init__(self, limit: int) -> None:
        self.handle: Relayed | None = None
        """Set by who asked, once the question is out."""
        self.ended = False
        """The answer was read to its end."""
        self._limit = limit
        self._head: ResponseHead | None = None
        self._parts: deque[bytes] = deque()
        self._held = 0
        self._paused = False
        self._whole = False
        self._failure: PeerError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def head(self, head: ResponseHead) -> None:
        self._head = head
        self._wake()

    def frame(self, data: bytes) -> bool:
        return False

    def data(self, data: bytes) -> None:
        self._parts.append(data)
        self._held += len(data)
        if self._held > self._limit and not self._paused and self.handle is not None:
            self._paused = True
            self.handle.pause()
        self._wake()

    def end(self) -> None:
        self._whole = True
        self._wake()

    def lost(self, error: PeerError) -> None:
        self._failure = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def answer(self) -> ResponseHead:
        """The answer's head. PeerError when there will be none."""
        while self._head is None:
            await self._wait()
        return self._head

    async def part(self) -> bytes | None:
        """The next bytes of the body, None at its end. PeerError when it breaks off."""
        while not self._parts:
            if self._whole:
                self.ended = True
                return None
            await self._wait()
        part = self._parts.popleft()
        self._held -= len(part)
        if self._paused and not self._parts and self.handle is not None:
            self._paused = False
            self.handle.resume()
        return part

    def close(self) -> None:
        """Give the connection up unless the answer has come to its end."""
        if self.handle is not None:
            self.handle.abort()


class ResponseStream:
    """An answer read as it comes. Close it, or use it as an async context manager."""

    def __init__(self, head: ResponseHead, inbox: Inbox) -> None:
        self.head = head
        self._inbox = inbox

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def headers(self) -> Headers:
        return self.head.headers

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.chunks()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body's bytes as they arrive. PeerError when it breaks off."""
        while not self._inbox.ended:
            part = await self._inbox.part()
            if part is not None:
                yield part

    async def body(self, limit: int = ANSWER_LIMIT) -> bytes:
        """The rest of the body. AnswerTooLargeError past `limit` bytes."""
        parts: list[bytes] = []
        size = 0
        async for part in self.chunks():
            size += len(part)
            if size > limit:
                self.close()
                raise AnswerTooLargeError(f"the answer is over {limit} bytes")
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """Give the connection up unless the answer was read to its end."""
        self._inbox.ended = True
        self._inbox.close()

    async def __aenter__(self) -> ResponseStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
