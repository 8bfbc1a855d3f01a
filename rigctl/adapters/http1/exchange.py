"""One request and its answer, as a handler sees them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from rigctl.adapters.http1.errors import ClientGoneError, RequestError
from rigctl.adapters.http1.messages import (
    END_OF_CHUNKS,
    Limits,
    RequestHead,
    write_chunk,
    write_response_head,
)
from rigctl.adapters.http1.parsing import End


class Wire(Protocol):
    """What an exchange needs of its connection."""

    limits: Limits
    closing: bool
    peer: str

    def write(self, data: bytes) -> None: ...
    async def drained(self) -> None: ...
    def reconsider_reading(self) -> None: ...
    def abort(self) -> None: ...


class Exchange:
    """Read the body, then `respond` whole or `start`, `write` and `finish` a stream."""

    def __init__(self, connection: Wire, head: RequestHead) -> None:
        self.head = head
        self.gone = asyncio.Event()
        """Set once the client has closed; writes then raise ClientGoneError."""
        self.status = 0
        """The status sent, 0 before any."""
        self.answered = asyncio.Event()
        """Set when the answer's head is written."""
        self._connection = connection
        self._parts: deque[bytes] = deque()
        self._held = 0
        self._read = 0
        self._arrived = asyncio.Event()
        self._whole = not head.has_body
        self._told_to_continue = False
        self._chunked = False
        self._finished = False
        self._keep = head.keep_alive

    @property
    def peer(self) -> str:
        """`address:port` of the client."""
        return self._connection.peer

    @property
    def finished(self) -> bool:
        """Whether the answer has been written to its end."""
        return self._finished

    async def chunks(self) -> AsyncIterator[bytes]:
        """The request's body as it arrives. RequestError 413 over the limit, ClientGoneError."""
        if self.head.expects_continue and not self._told_to_continue and not self._whole:
            self._told_to_continue = True
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while True:
            while self._parts:
                part = self._parts.popleft()
                self._held -= len(part)
                self._connection.reconsider_reading()
                yield part
            if self._read > self._connection.limits.body:
                raise RequestError(413, f"the body is over {self._connection.limits.body} bytes")
            if self._whole:
                return
            if self.gone.is_set():
                raise ClientGoneError("the client closed before its request was complete")
            self._arrived.clear()
            await self._arrived.wait()

    async def body(self) -> bytes:
        """The whole request body. RequestError 413 over the limit, ClientGoneError."""
        return b"".join([part async for part in self.chunks()])

    async def respond(
        self, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """A whole answer. ClientGoneError when nobody is there to read it."""
        fields = [*headers, (b"content-length", b"%d" % len(body))]
        head = self._open(status, fields)
        self._finished = True
        self._connection.write(head if self.head.method == "HEAD" else head + body)
        await self._connection.drained()

    async def start(self, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Begin a streamed answer: chunked, or ended by closing for an HTTP/1.0 client."""
        fields = list(headers)
        if self.head.version == "1.1":
            self._chunked = True
            fields.append((b"transfer-encoding", b"chunked"))
        else:
            self._keep = False
        self._connection.write(self._open(status, fields))
        await self._connection.drained()

    async def write(self, data: bytes) -> None:
        """A part of a streamed answer; waits while the client reads too slowly. ClientGoneError."""
        if not self.status or self._finished:
            raise RuntimeError("write() belongs between start() and finish()")
        if self.gone.is_set():
            raise ClientGoneError("the client closed the stream")
        if data and self.head.method != "HEAD":
            self._connection.write(write_chunk(data) if self._chunked else data)
            await self._connection.drained()

    async def finish(self) -> None:
        """End a streamed answer."""
        if self._finished:
            return
        self._finished = True
        if self._chunked and self.head.method != "HEAD" and not self.gone.is_set():
            self._connection.write(END_OF_CHUNKS)
            await self._connection.drained()

    def abort(self) -> None:
        """Break the connection: the client must not take a torn answer for a whole one."""
        self._keep = False
        self._finished = True
        self._connection.abort()

    def _open(self, status: int, fields: list[tuple[bytes, bytes]]) -> bytes:
        if self.status:
            raise RuntimeError("an answer was already begun")
        if self.gone.is_set():
            raise ClientGoneError("the client closed before the answer")
        self.status = status
        self.answered.set()
        if not self._whole or self._connection.closing:
            self._keep = False
        if not self._keep:
            fields.append((b"connection", b"close"))
        elif self.head.version == "1.0":
            fields.append((b"connection", b"keep-alive"))
        return write_response_head(status, fields)

    def take(self, part: bytes | End) -> None:
        """From the connection: a part of the body, or its end."""
        if isinstance(part, End):
            self._whole = True
        else:
            self._read += len(part)
            if self._read <= self._connection.limits.body:
                self._parts.append(part)
                self._held += len(part)
        self._arrived.set()

    def lose(self) -> None:
        """From the connection: the client closed."""
        self.gone.set()
        self._arrived.set()

    @property
    def whole(self) -> bool:
        """Whether the request has arrived to its end."""
        return self._whole

    @property
    def over_full(self) -> bool:
        """Whether the handler lags so far behind that the socket should rest."""
        return self._held > self._connection.limits.buffered

    @property
    def keep(self) -> bool:
        """Whether the connection may serve another request."""
        return self._keep and self._whole and self._finished
