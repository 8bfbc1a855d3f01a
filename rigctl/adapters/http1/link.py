"""One connection to a server: writes a question, hands the answer on by callbacks as it comes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, cast

from rigctl.adapters.http1.errors import BrokenAnswerError, DisconnectedError, PeerError
from rigctl.adapters.http1.messages import Limits, ResponseHead
from rigctl.adapters.http1.parsing import End, ResponseParser

SLICE: Final = 256 * 1024
"""Bytes of a body given to the transport at once: asyncio's copies what the socket does not take,
so that a large body handed over whole would lie in memory two or three times."""
IN_ONE_WRITE: Final = 64 * 1024
"""A request up to this size is joined and leaves in one write, in one packet where it fits."""
BUFFERED: Final = 1024 * 1024
"""Bytes the transport may hold before the rest of a body waits."""


Piece = bytes | memoryview


class Sink(Protocol):
    """Where a relayed answer goes; called in the event loop, in order."""

    def head(self, head: ResponseHead) -> None:
        """The final answer's head; interim (1xx) answers are not told."""
        ...

    def frame(self, data: bytes) -> bool:
        """Bytes as they came between two chunks of a body. True: they are one whole chunk with its
        frame, and taken; anything else comes by the other calls."""
        ...

    def data(self, data: bytes) -> None:
        """Body bytes without their chunk frames, as they came."""
        ...

    def end(self) -> None:
        """The answer is whole; its connection is kept or closed already."""
        ...

    def lost(self, error: PeerError) -> None:
        """There will be no more. Exactly one of `end` and `lost` ends an answer."""
        ...


class Relayed:
    """The handle on one exchange. Once it has ended, every call does nothing."""

    __slots__ = ("_link", "reused")

    def __init__(self, link: Link, reused: bool) -> None:
        self._link: Link | None = link
        self.reused = reused
        """It went out on a kept connection, which the server may have closed meanwhile."""

    def pause(self) -> None:
        """Leave what the server sends in the socket; one read may still be handed on."""
        if self._link is not None:
            self._link.pause()

    def resume(self) -> None:
        """Read on."""
        if self._link is not None:
            self._link.resume()

    def abort(self) -> None:
        """Drop the connection; the sink is not called again, nor the connection used again."""
        if self._link is not None:
            self._link.drop()

    def ended(self) -> None:
        """From the link: the exchange is over, and what follows on the link is another's."""
        self._link = None


class Link(asyncio.Protocol):
    """A connection and the exchange in progress on it, one at a time."""

    def __init__(
        self, limits: Limits, keep: Callable[[Link], bool], forget: Callable[[Link], None]
    ) -> None:
        """`keep` takes a free connection (False: it is not wanted), `forget` hears of its end."""
        self.alive = True
        self.expires = 0.0
        """Loop time at which it is closed if it is still unused."""
        self.used = False
        self._keep = keep
        self._forget = forget
        self._parser = ResponseParser(limits)
        self._transport: asyncio.Transport
        self._sink: Sink | None = None
        self._handle: Relayed | None = None
        self._head: ResponseHead | None = None
        self._bodiless = False
        self._answered = False
        self._between = False
        """What came so far ends between two chunks: a whole one needs no parser."""
        self._outgoing: deque[list[Piece]] = deque()
        self._full = False
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's is no heir
        transport.set_write_buffer_limits(BUFFERED)

    @property
    def usable(self) -> bool:
        """Free, and not known to be closed."""
        return self.alive and self._sink is None and not self._transport.is_closing()

    def send(self, head: bytes, parts: Sequence[Piece], sink: Sink, *, bodiless: bool) -> Relayed:
        """Write one request. `bodiless`: the answer ends with its head (it was a HEAD)."""
        self._sink = sink
        self._handle = handle = Relayed(self, self.used)
        self.used = True
        self._head = None
        self._bodiless = bodiless
        self._answered = self._between = False
        if self._transport.is_closing():
            return handle  # `connection_lost` is on its way, and tells the sink
        if len(head) + sum(map(len, parts)) <= IN_ONE_WRITE:
            self._transport.write(b"".join((head, *parts)))
        else:
            self._outgoing.extend(_portions((head, *parts)))
            self._pump()
        return handle

    def _pump(self) -> None:
        while self._outgoing and not self._full:
            self._transport.writelines(self._outgoing.popleft())

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._pump()

    def data_received(self, data: bytes) -> None:
        sink = self._sink
        if sink is None:
            self.drop()  # an answer to no question: nothing after it can be trusted
            return
        if self._between and sink.frame(data):
            return
        self._answered = True
        self._between = False
        try:
            events = self._parser.feed(data)
        except BrokenAnswerError as failure:
            self._deliver(self._parser.events)
            self._fail(failure)
            return
        self._between = self._parser.between(data)
        if len(events) == 1 and type(events[0]) is bytes:
            sink.data(events[0])
        else:
            self._deliver(events)

    def _deliver(self, events: Sequence[ResponseHead | bytes | End]) -> None:
        """Neighbouring parts of a body go on as one: a read costs one write, not one a chunk."""
        parts: list[bytes] = []
        for place, event in enumerate(events, 1):
            if isinstance(event, bytes):
                parts.append(event)
                continue
            self._deliver_body(parts)
            if self._sink is None:
                self.drop()  # aborted by its sink, or more than one answer to one question
                return
            if isinstance(event, ResponseHead):
                self._head = event
                self._sink.head(event)
                if self._bodiless:
                    self._end(keep=False)
            else:
                self._end(keep=place == len(events) and not self._parser.begun)
        self._deliver_body(parts)

    def _deliver_body(self, parts: list[bytes]) -> None:
        if parts and self._sink is not None:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            self._sink.data(data)

    def _release(self) -> Sink | None:
        """The exchange is over: nothing on this link is its business any more."""
        sink, self._sink = self._sink, None
        if self._handle is not None:
            self._handle.ended()
            self._handle = None
        return sink

    def _end(self, keep: bool) -> None:
        sink = self._release()
        head = self._head
        sent = not self._outgoing and not self._transport.get_write_buffer_size()
        if not (keep and sent and head is not None and head.keep_alive and self.usable):
            self.drop()
        else:
            self.resume()
            if not self._keep(self):
                self.drop()
        if sink is not None:
            sink.end()

    def _fail(self, failure: PeerError) -> None:
        sink = self._release()
        self.drop()
        if sink is not None:
            sink.lost(failure)

    def connection_lost(self, error: Exception | None) -> None:
        self.alive = False
        self._outgoing.clear()
        self._forget(self)
        sink = self._release()
        if sink is None:
            return
        if error is None and self._parser.until_close:
            sink.end()
        else:
            say = f"the connection ended: {error}" if error else "the server closed the connection"
            sink.lost(DisconnectedError(say, answered=self._answered))

    def pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def drop(self) -> None:
        """Break the connection; the exchange in progress hears nothing more."""
        self.alive = False
        self._outgoing.clear()
        self._release()
        self._transport.abort()


def _portions(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """What leaves in one write each: an engine that is woken finds much to read."""
    portion: list[Piece] = []
    size = 0
    for piece in pieces:
        for part in _slices(piece):
            portion.append(part)
            size += len(part)
            if size >= SLICE:
                yield portion
                portion, size = [], 0
    if portion:
        yield portion


def _slices(piece: Piece) -> Iterator[Piece]:
    if len(piece) <= SLICE:
        yield piece
        return
    view = memoryview(piece)
    for start in range(0, len(piece), SLICE):
        yield view[start : start + SLICE]
