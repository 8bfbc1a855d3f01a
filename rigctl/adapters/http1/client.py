"""The asking end: kept connections, one exchange at a time on each, whole or streamed answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from rigctl.adapters.http1.errors import (
    AnswerTooLargeError,
    DisconnectedError,
    HttpError,
    TimedOutError,
    UnreachableError,
)
from rigctl.adapters.http1.messages import (
    Headers,
    Limits,
    Response,
    ResponseHead,
    write_request_head,
)
from rigctl.adapters.http1.parsing import End, ResponseParser

ANSWER_LIMIT = 8 * 1024 * 1024
"""Bytes of body a whole answer may have unless its reader says otherwise."""

Fields = Iterable[tuple[bytes, bytes]]


class _Link(asyncio.Protocol):
    """One connection to a server: the events of the answer in progress, in order."""

    def __init__(self, limits: Limits) -> None:
        self.alive = True
        self.answered = False
        """Whether a byte of the answer in progress has come."""
        self._limits = limits
        self._parser = ResponseParser(limits)
        self._transport: asyncio.Transport | None = None
        self._events: deque[ResponseHead | bytes | End] = deque()
        self._held = 0
        self._failure: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._paused = False
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self.abort()  # an answer to no question: nothing after it can be trusted
            return
        self.answered = True
        try:
            events = self._parser.feed(data)
        except HttpError as failure:
            self._failure = failure
            self._events.extend(self._parser.events)
            self.abort()
        else:
            self._events.extend(events)
            self._held += len(data)
            if self._held > self._limits.buffered and self._transport and not self._paused:
                self._paused = True
                self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.alive = False
        if self._parser.until_close and self._failure is None and error is None:
            self._events.append(End())
        elif self._failure is None:
            say = f"the connection ended: {error}" if error else "the server closed the connection"
            self._failure = DisconnectedError(say, answered=self.answered)
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._wake()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def ask(self, head: bytes, body: bytes) -> None:
        """Send one request."""
        self._busy = True
        self.answered = False
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(head + body if len(body) < 65536 else head)
        if len(body) >= 65536:
            self._transport.write(body)
        if self._writable is not None:
            await self._writable

    async def next(self) -> ResponseHead | bytes | End:
        """The next event of the answer. HttpError when there will be none."""
        while not self._events:
            if self._failure is not None:
                raise self._failure
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        event = self._events.popleft()
        if isinstance(event, bytes):
            self._held -= len(event)
        if not self._events:
            self._held = 0
            if self._paused and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
        return event

    def done(self) -> bool:
        """The answer is read to its end; whether another question may follow."""
        self._busy = False
        return self.alive and not self._events and self._failure is None

    def abort(self) -> None:
        self.alive = False
        if self._transport is not None:
            self._transport.abort()


class ResponseStream:
    """An answer read as it comes. Close it, or use it as an async context manager."""

    def __init__(self, client: HttpClient, key: tuple[str, int], link: _Link) -> None:
        self.head: ResponseHead
        self._client = client
        self._key = key
        self._link = link
        self._ended = False

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
        while not self._ended:
            event = await self._link.next()
            if isinstance(event, bytes):
                yield event
            elif isinstance(event, End):
                self._ended = True
                self._client.release(self._key, self._link, self.head)

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
        if not self._ended:
            self._ended = True
            self._link.abort()

    async def __aenter__(self) -> ResponseStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class HttpClient:
    """Asks servers named by host and port; keeps idle connections, at most a few a server.

    Environment proxies are not looked at (C44): a desktop's `http_proxy` must never stand
    between this host and its own loopback.
    """

    def __init__(self, limits: Limits | None = None, keep: int = 2) -> None:
        self._limits = limits or Limits()
        self._keep = keep
        self._idle: dict[tuple[str, int], list[_Link]] = {}

    async def get(
        self,
        host: str,
        port: int,
        path: str,
        headers: Fields = (),
        timeout: float = 5.0,
        limit: int = ANSWER_LIMIT,
    ) -> Response:
        """GET a whole answer within `timeout` seconds and `limit` bytes. PeerError."""
        return await self.request("GET", host, port, path, headers, b"", timeout, limit)

    async def request(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        headers: Fields = (),
        body: bytes = b"",
        timeout: float | None = 5.0,
        limit: int = ANSWER_LIMIT,
    ) -> Response:
        """A whole answer. PeerError; TimedOutError counts connecting, asking and reading."""
        try:
            async with asyncio.timeout(timeout):
                stream = await self.open(method, host, port, path, headers, body)
                async with stream:
                    return Response(stream.status, stream.headers, await stream.body(limit))
        except TimeoutError:
            raise TimedOutError(f"{host}:{port}{path} gave no answer in {timeout} s") from None

    async def open(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        headers: Fields = (),
        body: bytes = b"",
    ) -> ResponseStream:
        """Ask, and return once the answer's head is there, however long that takes. PeerError.

        A kept connection that the server has closed meanwhile is replaced unnoticed, where
        resending is harmless: no byte of an answer came and the method changes nothing.
        """
        fields = list(headers)
        if body or method in ("POST", "PUT", "PATCH"):
            fields.append((b"content-length", b"%d" % len(body)))
        head = write_request_head(method, path, host, port, fields)
        key = (host, port)
        while True:
            link = self._take(key)
            fresh = link is None
            if link is None:
                link = await self._connect(key)
            stream = ResponseStream(self, key, link)
            try:
                await link.ask(head, body)
                event = await link.next()
            except DisconnectedError as gone:
                if fresh or gone.answered or method not in ("GET", "HEAD"):
                    raise
                continue
            except BaseException:
                link.abort()
                raise
            assert isinstance(event, ResponseHead)
            stream.head = event
            if method == "HEAD":
                stream.close()  # its length is that of a body which does not come
            return stream

    def _take(self, key: tuple[str, int]) -> _Link | None:
        links = self._idle.get(key, [])
        while links:
            link = links.pop()
            if link.alive:
                return link
        return None

    async def _connect(self, key: tuple[str, int]) -> _Link:
        loop = asyncio.get_running_loop()
        try:
            _, link = await loop.create_connection(lambda: _Link(self._limits), *key)
        except OSError as error:
            raise UnreachableError(f"{key[0]}:{key[1]}: {error.strerror or error}") from error
        return link

    def release(self, key: tuple[str, int], link: _Link, head: ResponseHead) -> None:
        """Keep a connection whose answer was read to its end, or drop it."""
        links = self._idle.setdefault(key, [])
        if link.done() and head.keep_alive and len(links) < self._keep:
            links.append(link)
        else:
            link.abort()

    async def close(self) -> None:
        """Drop every kept connection."""
        for links in self._idle.values():
            for link in links:
                link.abort()
        self._idle.clear()
        await asyncio.sleep(0)
