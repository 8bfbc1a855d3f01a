"""One request and its answer, as a handler sees them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
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

_BODILESS = (204, 304)
_LUMP = 1024 * 1024
"""Bytes of a body kept as they were read."""


class Wire(Protocol):
    """What an exchange needs of its connection."""

    limits: Limits
    peer: str
    writable: bool

    @property
    def last(self) -> bool:
        """Nothing may follow this exchange on the connection."""
        ...

    def write(self, data: bytes) -> None: ...
    def writer(self) -> Callable[[bytes], None]: ...
    async def drained(self) -> None: ...
    def reconsider_reading(self) -> None: ...
    def invited(self) -> None: ...
    def abort(self) -> None: ...


class Exchange:
    """Read the body, then `respond` whole, or `start`, `write` and `finish` a stream.

    A relay writes without waiting: `begin`, `push` and `complete` are the same stream for who has
    no coroutine to hold up, and `on_writable` tells it when to hold its own source up.
    """

    status = 0
    """The status sent, 0 before any."""
    on_gone: Callable[[], None] | None = None
    """Called at once when the client goes before the answer is written to its end."""
    on_writable: Callable[[bool], None] | None = None
    """Called with False when a slow reader has filled its buffer, True when it has room."""
    on_half_close: Callable[[], None] | None = None
    """Called when the client ended its sending side inside an answer: only something pushed
    tells whether it still reads, or is gone. Called again while that is not known."""
    read = 0
    """Bytes of the body that have come."""
    is_gone = False
    """Whether the client has closed."""
    _held = 0
    _gathering = False
    _refusal: RequestError | None = None
    _chunked = False
    _finished = False
    # Made where somebody waits for them: few requests need any.
    _gone: asyncio.Event | None = None
    _answered: asyncio.Event | None = None
    _arrived: asyncio.Future[None] | None = None
    _lump: bytearray | None = None

    def __init__(self, connection: Wire, head: RequestHead) -> None:
        self.head = head
        self._connection = connection
        self._parts: deque[bytes] = deque()
        self._whole = not head.has_body
        self._invited = not head.expects_continue
        self._silent = head.method == "HEAD"
        self._keep = head.keep_alive

    @property
    def gone(self) -> asyncio.Event:
        """Set once the client has closed; writes then raise ClientGoneError."""
        if self._gone is None:
            self._gone = asyncio.Event()
            if self.is_gone:
                self._gone.set()
        return self._gone

    @property
    def answered(self) -> asyncio.Event:
        """Set when the answer's head is written."""
        if self._answered is None:
            self._answered = asyncio.Event()
            if self.status:
                self._answered.set()
        return self._answered

    @property
    def peer(self) -> str:
        """`address:port` of the client."""
        return self._connection.peer

    @property
    def finished(self) -> bool:
        """Whether the answer has been written to its end."""
        return self._finished

    @property
    def writable(self) -> bool:
        """Whether the client takes what is written, rather than a buffer that fills up."""
        return self._connection.writable

    def _invite(self) -> None:
        """Tell a client that asked first (`Expect: 100-continue`) to send its body."""
        if not self._invited and not self._whole and not self.status:
            self._invited = True
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._connection.invited()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The request's body as it arrives. RequestError (413 over the limit), ClientGoneError."""
        self._invite()
        while True:
            while self._parts:
                part = self._parts.popleft()
                self._held -= len(part)
                self._connection.reconsider_reading()
                yield part
            if not await self._more():
                return

    async def body(self) -> bytes:
        """The whole request body. RequestError (413 over the limit), ClientGoneError."""
        if not self._whole or self._refusal is not None:
            self._invite()
            self._gathering = True  # one wake-up when all is there, not one a read
            self._connection.reconsider_reading()
            while await self._more():
                pass
            self._gathering = False
        parts, self._parts = self._parts, deque()
        self._held = 0
        if self._lump is None:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        lump, self._lump = self._lump, None
        for part in parts:
            lump += part
        return bytes(lump)

    async def _more(self) -> bool:
        """Wait for more of the body; False at its end."""
        if self._refusal is not None:
            raise self._refusal
        if self._whole:
            return False
        if self.is_gone:
            raise ClientGoneError("the client closed before its request was complete")
        self._arrived = asyncio.get_running_loop().create_future()
        await self._arrived
        return True

    async def respond(
        self, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """A whole answer. ClientGoneError when nobody is there to read it."""
        fields = list(headers)
        if status not in _BODILESS:
            fields.append((b"content-length", b"%d" % len(body)))
        elif body:
            raise ValueError(f"an answer {status} has no body")
        head = self._open(status, fields)
        self._finished = True
        self._connection.write(head if self._silent else head + body)
        await self._connection.drained()

    def begin(
        self,
        status: int,
        headers: Iterable[tuple[bytes, bytes]] = (),
        written: bytes = b"",
        first: bytes = b"",
    ) -> None:
        """Begin a streamed answer: chunked, or ended by closing for an HTTP/1.0 client.

        `written`: more fields, by `write_fields`. `first`: the body's beginning, which leaves with
        the head in one write. ClientGoneError when nobody is there to read it.
        """
        fields = list(headers)
        if status in _BODILESS:
            self._silent = True  # a frame around nothing would be taken for the next answer
        elif self.head.version == "1.1":
            self._chunked = True
            fields.append((b"transfer-encoding", b"chunked"))
        else:
            self._keep = False
        head = self._open(status, fields, written)
        if first and not self._silent:
            head += write_chunk(first) if self._chunked else first
        self._connection.write(head)

    def frames(self) -> Callable[[bytes], None] | None:
        """`push` of whole chunks with their frames, for an answer that goes out in chunks.

        It goes straight to the transport: not to be called once the answer has ended, however.
        """
        return self._connection.writer() if self._chunked and not self._silent else None

    def push(self, data: bytes) -> None:
        """A part of a streamed answer, without waiting; nothing when the client is gone."""
        if not self.status or self._finished:
            raise RuntimeError("push() belongs between begin() and complete()")
        if data and not self._silent:
            chunked = self._chunked
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)

    def complete(self) -> None:
        """End a streamed answer; nothing when it has ended, or the client is gone."""
        if self._finished:
            return
        if not self.status:
            raise RuntimeError("complete() belongs after begin()")
        self._finished = True
        if self._chunked and not self._silent:
            self._connection.write(END_OF_CHUNKS)

    async def start(self, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """`begin`, and wait while the client reads too slowly. ClientGoneError."""
        self.begin(status, headers)
        await self._connection.drained()

    async def write(self, data: bytes) -> None:
        """`push`, and wait while the client reads too slowly. ClientGoneError."""
        if self.is_gone and not self._finished:
            raise ClientGoneError("the client closed the stream")
        self.push(data)
        await self._connection.drained()

    async def finish(self) -> None:
        """`complete`, and wait while the client reads too slowly."""
        if not self._finished:
            self.complete()
            await self._connection.drained()

    def abort(self) -> None:
        """Break the connection: the client must not take a torn answer for a whole one."""
        self._keep = False
        self._finished = True
        self._connection.abort()

    def _open(self, status: int, fields: list[tuple[bytes, bytes]], written: bytes = b"") -> bytes:
        if self.status:
            raise RuntimeError("an answer was already begun")
        if self.is_gone:
            raise ClientGoneError("the client closed before the answer")
        self.status = status
        if self._answered is not None:
            self._answered.set()
        if not self._whole or self._connection.last:
            self._keep = False
        if not self._keep:
            fields.append((b"connection", b"close"))
        elif self.head.version == "1.0":
            fields.append((b"connection", b"keep-alive"))
        return write_response_head(status, fields, written)

    def take(self, part: bytes | End) -> None:
        """From the connection: a part of the body, or its end."""
        if isinstance(part, End):
            self._whole = True
        else:
            self.read += len(part)
            limit = self._connection.limits.body
            if self.read > limit:
                self.refuse(RequestError(413, f"the body is over {limit} bytes"))
                return
            if self._refusal is not None:
                return
            self._parts.append(part)
            self._held += len(part)
            if self._gathering:
                self._press()
                return
        self._wake()

    def _press(self) -> None:
        """Join what has come, past a size: thousands of reads kept apart would stay with malloc."""
        if self._held > _LUMP:
            if self._lump is None:
                self._lump = bytearray()
            for part in self._parts:
                self._lump += part
            self._parts.clear()
            self._held = 0

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def refuse(self, refusal: RequestError) -> None:
        """From the connection: the body cannot be had; who reads it gets this error."""
        if self._refusal is None:
            self._refusal = refusal
            self._parts.clear()
            self._lump = None
            self._held = 0
            self._wake()

    def lose(self) -> None:
        """From the connection: the client closed."""
        if self.is_gone:
            return
        self.is_gone = True
        if self._gone is not None:
            self._gone.set()
        self._wake()
        if self.on_gone is not None and not self._finished:
            self.on_gone()

    @property
    def invited(self) -> bool:
        """Whether the client knows that its body is wanted."""
        return self._invited

    @property
    def whole(self) -> bool:
        """Whether the request has arrived to its end."""
        return self._whole

    @property
    def over_full(self) -> bool:
        """Whether the handler lags so far behind that the socket should rest."""
        return not self._gathering and self._held > self._connection.limits.buffered

    @property
    def keep(self) -> bool:
        """Whether the connection may serve another request."""
        return self._keep and self._whole and self._finished
