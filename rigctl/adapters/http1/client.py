"""The asking end: kept connections, one exchange at a time on each; answers whole or as they come.

`relay` hands an answer on by callbacks, for whoever carries thousands of parts a second; `open` and
`request` are for coroutines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from rigctl.adapters.http1.errors import DisconnectedError, TimedOutError, UnreachableError
from rigctl.adapters.http1.link import Link, Piece, Relayed, Sink
from rigctl.adapters.http1.messages import Limits, Response, write_request_head
from rigctl.adapters.http1.stream import ANSWER_LIMIT, Inbox, ResponseStream

__all__ = ["HttpClient", "Relayed", "ResponseStream", "Sink"]

Fields = Iterable[tuple[bytes, bytes]]

_BODILESS = ("GET", "HEAD", "DELETE", "OPTIONS")
"""Methods whose request names no length when it has no body."""


class HttpClient:
    """Asks servers named by host and port; keeps idle connections, at most a few a server.

    Environment proxies are not looked at (C44): a desktop's `http_proxy` must never stand
    between this host and its own loopback.
    """

    def __init__(
        self, limits: Limits | None = None, keep: int = 2, keep_seconds: float = 4.0
    ) -> None:
        """Keep up to `keep` unused connections a server, each for `keep_seconds`.

        uvicorn closes a connection after 5 s without a request: ours goes first, so that a
        question seldom meets a connection that is just being closed.
        """
        self._limits = limits or Limits()
        self._keep = keep
        self._keep_seconds = keep_seconds
        self._idle: dict[tuple[str, int], list[Link]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def relay(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        headers: Fields,
        parts: Sequence[Piece],
        sink: Sink,
        *,
        connect_timeout: float = 3.0,
    ) -> Relayed:
        """Ask, and hand the answer to `sink` as it comes. UnreachableError, TimedOutError.

        Returns when the request is with the transport; its body is `parts`, written without being
        joined, and Content-Length is theirs. A kept connection that the server closed before any
        answer byte is told as `lost(DisconnectedError(answered=False))`: the caller knows whether
        asking again is harmless.
        """
        relayed = self.relay_kept(method, host, port, path, headers, parts, sink)
        if relayed is not None:
            return relayed
        try:
            async with asyncio.timeout(connect_timeout):
                link = await self._connect((host, port))
        except TimeoutError:
            say = f"{host}:{port} took no connection in {connect_timeout} s"
            raise TimedOutError(say) from None
        head = self._head(method, host, port, path, headers, sum(map(len, parts)))
        return link.send(head, parts, sink, bodiless=method == "HEAD")

    def relay_kept(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        headers: Fields,
        parts: Sequence[Piece],
        sink: Sink,
    ) -> Relayed | None:
        """`relay` on a kept connection, at once; None where there is none, and nothing was sent."""
        link = self._take((host, port))
        if link is None:
            return None
        head = self._head(method, host, port, path, headers, sum(map(len, parts)))
        return link.send(head, parts, sink, bodiless=method == "HEAD")

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
        request = self._head(method, host, port, path, headers, len(body))
        key = (host, port)
        while True:
            link = self._take(key) or await self._connect(key)
            inbox = Inbox(self._limits.buffered)
            inbox.handle = link.send(request, (body,), inbox, bodiless=method == "HEAD")
            try:
                return ResponseStream(await inbox.answer(), inbox)
            except DisconnectedError as gone:
                if not inbox.handle.reused or gone.answered or method not in ("GET", "HEAD"):
                    raise
            except BaseException:
                inbox.close()
                raise

    @staticmethod
    def _head(method: str, host: str, port: int, path: str, headers: Fields, length: int) -> bytes:
        fields = list(headers)
        if length or method not in _BODILESS:
            fields.append((b"content-length", b"%d" % length))
        return write_request_head(method, path, host, port, fields)

    def _take(self, key: tuple[str, int]) -> Link | None:
        links = self._idle.get(key)
        while links:
            link = links.pop()
            if link.usable:
                return link
        return None

    async def _connect(self, key: tuple[str, int]) -> Link:
        loop = asyncio.get_running_loop()

        def make() -> Link:
            return Link(self._limits, lambda link: self._put(key, link), self._forget(key))

        try:
            _, link = await loop.create_connection(make, *key)
        except OSError as error:
            raise UnreachableError(f"{key[0]}:{key[1]}: {error.strerror or error}") from error
        return link

    def _put(self, key: tuple[str, int], link: Link) -> bool:
        """Keep a connection that is free; False where there are enough."""
        links = self._idle.setdefault(key, [])
        if self._closed or len(links) >= self._keep:
            return False
        loop = asyncio.get_running_loop()
        link.expires = loop.time() + self._keep_seconds
        links.append(link)
        if self._sweep is None:
            self._sweep = loop.call_at(link.expires, self._close_expired)
        return True

    def _forget(self, key: tuple[str, int]) -> Callable[[Link], None]:
        def forget(link: Link) -> None:
            links = self._idle.get(key, [])
            if link in links:
                links.remove(link)

        return forget

    def _close_expired(self) -> None:
        """Close what was not used for `keep_seconds`, and look again when the next is due."""
        self._sweep = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        waiting: list[float] = []
        for links in self._idle.values():
            for link in tuple(links):
                if link.expires <= now:
                    links.remove(link)
                    link.drop()
                else:
                    waiting.append(link.expires)
        if waiting:
            self._sweep = loop.call_at(min(waiting), self._close_expired)

    async def close(self) -> None:
        """Drop every kept connection; from here on none is kept."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for links in tuple(self._idle.values()):
            for link in tuple(links):
                link.drop()
        self._idle.clear()
        await asyncio.sleep(0)
