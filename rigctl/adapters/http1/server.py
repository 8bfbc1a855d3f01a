"""The listening end: connections, one exchange at a time on each, and what a handler may do."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable

from rigctl.adapters.http1.errors import ClientGoneError, RequestError
from rigctl.adapters.http1.exchange import Exchange
from rigctl.adapters.http1.messages import Limits, RequestHead, write_response_head
from rigctl.adapters.http1.parsing import End, RequestParser

log = logging.getLogger(__name__)

LINGER_SECONDS = 1.0
"""How long a refused body is still read away, so that the refusal is not lost to a reset."""


Handler = Callable[[Exchange], Awaitable[None]]


class _Connection(asyncio.Protocol):
    """One client's socket."""

    def __init__(self, server: HttpServer) -> None:
        self.limits = server.limits
        self.closing = False
        self.peer = "?"
        self._server = server
        self._parser = RequestParser(server.limits)
        self._transport: asyncio.Transport | None = None
        self._current: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[RequestHead | bytes | End] = deque()
        self._refusal: RequestError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._lingering = False
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            name = transport.get_extra_info("peername")
            self.peer = f"{name[0]}:{name[1]}" if name else "?"
        self._server.connections.add(self)
        self._wait(self.limits.idle_seconds)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.forget(self)
        self._stop_timer()
        self._writable.set()
        if self._current is not None:
            self._current.lose()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._lingering or self._refusal is not None:
            return
        if self._current is None and not self._parser.unparsed:
            self._wait(self.limits.head_seconds)
        try:
            events = self._parser.feed(data)
        except RequestError as refusal:
            events = self._parser.events
            self._refusal = refusal
        self._waiting.extend(events)
        self._advance()

    def _advance(self) -> None:
        """Hand events to the exchange in progress; a pipelined request waits for its turn."""
        while self._waiting:
            event = self._waiting[0]
            if isinstance(event, RequestHead):
                if self._current is not None:
                    break
                self._waiting.popleft()
                self._stop_timer()
                self._current = Exchange(self, event)
                self._task = asyncio.get_running_loop().create_task(self._serve(self._current))
            else:
                self._waiting.popleft()
                if self._current is not None:
                    self._current.take(event)
        if self._refusal is not None and not self._waiting:
            if self._current is None:
                self._refuse(self._refusal)
            elif not self._current.whole:
                self._current.lose()
        self.reconsider_reading()

    async def _serve(self, exchange: Exchange) -> None:
        try:
            await self._server.handler(exchange)
            if not exchange.status:
                raise RuntimeError("the handler gave no answer")
            await exchange.finish()
        except ClientGoneError:
            pass
        except RequestError as refusal:
            await self._complain(exchange, refusal.status, str(refusal))
        except Exception:
            log.exception("the handler of %s failed", exchange.head.path)
            await self._complain(exchange, 500, "this server failed on that request")
        finally:
            self._end(exchange)

    async def _complain(self, exchange: Exchange, status: int, say: str) -> None:
        if exchange.status:
            exchange.abort()
            return
        try:
            await exchange.respond(status, say.encode() + b"\n", [(b"content-type", b"text/plain")])
        except ClientGoneError:
            pass

    def _end(self, exchange: Exchange) -> None:
        self._current = None
        self._task = None
        if self._transport is None or self._transport.is_closing():
            return
        if not exchange.keep or self.closing:
            self._leave()
            return
        self._wait(self.limits.idle_seconds)
        self._advance()

    def _refuse(self, refusal: RequestError) -> None:
        say = str(refusal).encode("utf-8", "replace") + b"\n"
        fields = [
            (b"content-type", b"text/plain"),
            (b"content-length", b"%d" % len(say)),
            (b"connection", b"close"),
        ]
        self.write(write_response_head(refusal.status, fields) + say)
        self._leave()

    def _leave(self) -> None:
        """Close so that what was written arrives: no reset over unread bytes."""
        if self._transport is None or self._transport.is_closing() or self._lingering:
            return
        self._lingering = True
        self._waiting.clear()
        self.reconsider_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._wait(LINGER_SECONDS)
        else:
            self._transport.close()

    def eof_received(self) -> bool:
        """A closed sending side counts as gone: a client that still listens keeps it open."""
        return False

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def drained(self) -> None:
        """Wait while the client reads too slowly."""
        if not self._writable.is_set():
            await self._writable.wait()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def cancel(self) -> None:
        """End the handler too: nobody will read what it makes."""
        if self._task is not None:
            self._task.cancel()

    def reconsider_reading(self) -> None:
        """Rest the socket while a handler lags, or while requests are piled up behind one."""
        if self._transport is None or self._transport.is_closing():
            return
        current = self._current
        full = bool(self._waiting) or (current is not None and current.over_full)
        if full and not self._paused and not self._lingering:
            self._paused = True
            self._transport.pause_reading()
        elif self._paused and (not full or self._lingering):
            self._paused = False
            self._transport.resume_reading()

    def _wait(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._timed_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timed_out(self) -> None:
        if self._transport is None or self._current is not None:
            return
        if self._parser.unparsed and not self._lingering:
            self._refuse(RequestError(408, "the request's head did not end in time"))
        elif self._lingering:
            self._transport.abort()
        else:
            self._transport.close()

    def retire(self) -> None:
        """The server closes: finish what is in progress, take nothing new."""
        self.closing = True
        if self._current is None and self._transport is not None:
            self._transport.close()


class HttpServer:
    """Listens, and gives each request to `handler`."""

    def __init__(self, handler: Handler, limits: Limits | None = None) -> None:
        self.handler = handler
        self.limits = limits or Limits()
        self.connections: set[_Connection] = set()
        self._listening: asyncio.Server | None = None
        self._emptied: asyncio.Future[None] | None = None

    async def listen(self, host: str, port: int) -> int:
        """Bind and accept; the port (chosen where 0 was asked). OSError when it is taken."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._connect, host, port, backlog=512)
        bound: int = self._listening.sockets[0].getsockname()[1]
        return bound

    async def adopt(self, sock: socket.socket) -> None:
        """Accept on a socket that already listens."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._connect, sock=sock)

    def _connect(self) -> _Connection:
        return _Connection(self)

    def stop_accepting(self) -> None:
        """Close the listening socket and idle connections; exchanges in progress go on."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for connection in tuple(self.connections):
            connection.retire()

    async def close(self, grace: float = 0.0) -> None:
        """Stop accepting, let exchanges finish for `grace` seconds, then break the rest."""
        self.stop_accepting()
        loop = asyncio.get_running_loop()
        self._emptied = loop.create_future()
        if self.connections and grace > 0:
            await asyncio.wait([self._emptied], timeout=grace)
        for connection in tuple(self.connections):
            connection.abort()
            connection.cancel()
        if self.connections:
            await self._emptied

    def forget(self, connection: _Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        if not self.connections and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)
