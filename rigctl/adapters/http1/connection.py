"""One client's connection: its requests in turn, what it may take its time with, and its end."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from rigctl.adapters.http1.errors import ClientGoneError, RequestError
from rigctl.adapters.http1.exchange import Exchange
from rigctl.adapters.http1.halfclose import HalfClosed
from rigctl.adapters.http1.messages import Limits, RequestHead, write_response_head
from rigctl.adapters.http1.parsing import End, RequestParser

log = logging.getLogger(__name__)

LINGER_SECONDS = 30.0
"""How long what a refused client still sends is read away, so that no reset eats the refusal."""
LINGER_IDLE_SECONDS = 1.0
"""The same, for a client that sends nothing more."""
REFUSED_AT_ONCE = 64
"""Connections over the limit that are still told why; more are dropped unheard."""
WAITING_REQUESTS = 16
"""Requests that may lie ready behind one in progress before the socket rests."""

Handler = Callable[[Exchange], Awaitable[None]]

Wording = Callable[[int, str, bytes], tuple[bytes, bytes]]
"""Status, reason and target of a refused request -> content type and body of the refusal."""


class Owner(Protocol):
    """What a connection needs of its server."""

    limits: Limits
    handler: Handler
    word: Wording
    half_close: bool
    retired_at: float | None
    connections: set[Connection]

    def admit(self, connection: Connection) -> None: ...
    def forget(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """One client's socket."""

    def __init__(self, server: Owner) -> None:
        self.limits = server.limits
        self.peer = "?"
        self.writable = True
        self._server = server
        self._parser = RequestParser(server.limits)
        self._transport: asyncio.Transport
        self._current: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[RequestHead | bytes | End] = deque()
        self._refusal: RequestError | None = None
        self._drained: asyncio.Future[None] | None = None
        self._half_closed: HalfClosed | None = None
        self._lingering = False
        self._paused = False
        self._loop = asyncio.get_running_loop()
        self._since = self._heard = self._loop.time()
        """When the present wait began (for a head, a body, the next request); the last read."""
        self._unsent = 0
        self._taken = 0.0
        """Bytes ready for the client at the last look, and when it last took some."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's is no heir
        transport.set_write_buffer_limits(self.limits.unsent)
        sock = transport.get_extra_info("socket")
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            # asyncio sets it on sockets of its own making only.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.peer = f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
        self._server.admit(self)
        most = self.limits.connections
        if len(self._server.connections) > most + REFUSED_AT_ONCE:
            transport.abort()
        elif len(self._server.connections) > most:
            self._refuse(RequestError(503, f"{most} clients are connected, which is the limit"))

    def connection_lost(self, error: Exception | None) -> None:
        self._server.forget(self)
        self.resume_writing()
        if self._half_closed is not None:
            self._half_closed.stop()
        if self._current is not None:
            self._current.lose()

    def pause_writing(self) -> None:
        self.writable = False
        if self._current is not None and self._current.on_writable is not None:
            self._current.on_writable(False)

    def resume_writing(self) -> None:
        if self.writable:
            return
        self.writable = True
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._current is not None and self._current.on_writable is not None:
            self._current.on_writable(True)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._lingering or self._refusal is not None:
            return
        between = not self._parser.begun
        try:
            events = self._parser.feed(data)
        except RequestError as refusal:
            events = self._parser.events
            self._refusal = refusal
        if between and (events or self._parser.begun):
            self._since = self._heard  # blank lines before a request begin none
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
                self._since = self._heard = self._loop.time()
                self._current = Exchange(self, event)
                self._task = self._loop.create_task(self._serve(self._current))
            else:
                self._waiting.popleft()
                if self._current is not None:
                    self._current.take(event)
        if self._refusal is not None and not self._waiting:
            if self._current is None:
                self._refuse(self._refusal)
            elif not self._current.whole:
                self._current.refuse(self._refusal)
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
        kind, body = self._server.word(status, say, exchange.head.target)
        try:
            await exchange.respond(status, body, [(b"content-type", kind)])
        except ClientGoneError:
            pass

    def _end(self, exchange: Exchange) -> None:
        self._current = None
        self._task = None
        if self._transport.is_closing():
            return
        if not exchange.keep or self.last:
            self._leave()
            return
        self._since = self._loop.time()
        self._advance()

    @property
    def last(self) -> bool:
        """Nothing may follow the exchange in progress."""
        if self._half_closed is not None and not self._waiting:
            return True
        return self._server.retired_at is not None

    def _refuse(self, refusal: RequestError) -> None:
        kind, body = self._server.word(refusal.status, str(refusal), self._parser.target)
        fields = [
            (b"content-type", kind),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        self.write(write_response_head(refusal.status, fields) + body)
        self._leave()

    def _leave(self) -> None:
        """Close so that what was written arrives: no reset over unread bytes."""
        if self._transport.is_closing() or self._lingering:
            return
        self._lingering = True
        self._waiting.clear()
        self._since = self._heard = self._loop.time()
        self.reconsider_reading()
        if self._half_closed is not None or not self._transport.can_write_eof():
            self._transport.close()
        else:
            self._transport.write_eof()

    def eof_received(self) -> bool:
        """The client ended its sending side: gone, or it waits for the answers it asked for."""
        current = self._current
        if current is None or self._lingering:
            return False
        patient = self._server.half_close and current.head.version == "1.1" and current.whole
        if not patient:
            current.lose()
            return False
        self._half_closed = HalfClosed(self._transport, self._probe)
        return True

    def _probe(self, times: int) -> bool:
        """Write something that a client which still reads passes over; False if we may not."""
        current = self._current
        if current is None:
            return False
        if not current.status:
            if times < HalfClosed.INTERIM:
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif current.on_half_close is not None:
            current.on_half_close()
        return True

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def writer(self) -> Callable[[bytes], None]:
        """`write` of the transport itself, for who hears when the client has gone."""
        return self._transport.write

    async def drained(self) -> None:
        """Wait while the client reads too slowly."""
        if not self.writable:
            self._drained = self._loop.create_future()
            await self._drained

    def abort(self) -> None:
        self._transport.abort()

    def cancel(self) -> None:
        """End the handler too: nobody will read what it makes."""
        if self._task is not None:
            self._task.cancel()

    def invited(self) -> None:
        """The client was told to send its body: its time counts from here."""
        self._since = self._heard = self._loop.time()

    def reconsider_reading(self) -> None:
        """Rest the socket while a handler lags, or while requests are piled up behind one."""
        if self._transport.is_closing():
            return
        current = self._current
        # A few waiting requests do not rest it: a client that leaves must be noticed.
        full = len(self._waiting) > WAITING_REQUESTS or (current is not None and current.over_full)
        if full and not self._paused and not self._lingering:
            self._paused = True
            self._transport.pause_reading()
        elif self._paused and (not full or self._lingering):
            self._paused = False
            self._since = self._heard = self._loop.time()
            self._transport.resume_reading()

    def look(self, now: float) -> None:
        """End what takes too long. Called by the server now and then, `now` in loop time."""
        if self._transport.is_closing() or self._reads_nothing(now):
            return
        current = self._current
        if self._lingering:
            if self._unsent:
                self._since = self._heard = now
            elif now - self._since > LINGER_SECONDS or now - self._heard > LINGER_IDLE_SECONDS:
                self._transport.abort()
        elif current is not None:
            self._look_at_body(current, now)
        elif self._parser.begun:
            if now - self._since > self.limits.head_seconds:
                self._refuse(RequestError(408, "the request's head did not end in time"))
        elif not self._unsent and now - self._since > self.limits.idle_seconds:
            self._transport.close()
        else:
            self.retire(now)

    def _reads_nothing(self, now: float) -> bool:
        """Whether the client left what lies ready for it for so long that it was given up."""
        unsent = self._transport.get_write_buffer_size()
        if not self._unsent or unsent < self._unsent:
            self._taken = now
        self._unsent = unsent
        if unsent and now - self._taken > self.limits.stalled_write_seconds:
            self._transport.abort()
            return True
        return False

    def _look_at_body(self, exchange: Exchange, now: float) -> None:
        if exchange.whole or exchange.status or self._paused or not exchange.invited:
            return
        took = now - self._since
        slow = took > self.limits.body_grace_seconds
        if now - self._heard > self.limits.body_idle_seconds:
            exchange.refuse(RequestError(408, "the request's body stopped coming"))
        elif slow and exchange.read < self.limits.body_least_rate * took:
            exchange.refuse(RequestError(408, "the request's body comes too slowly"))

    def retire(self, now: float) -> None:
        """The server takes nothing new: an unused connection closes when its time has come."""
        retired = self._server.retired_at
        idle = self._current is None and not self._parser.begun and not self._lingering
        if retired is not None and retired <= now and idle and not self._transport.is_closing():
            self._transport.close()
