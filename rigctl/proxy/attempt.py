"""One exchange with one engine: takes its answer as it comes and hands it to the client at once.

This is the hot path: no task is woken and no future made for a chunk. What needs thought (another
attempt, an error in the client's own words) waits for the end, which `ended` tells.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from rigctl.adapters.http1 import (
    ClientGoneError,
    Exchange,
    Headers,
    PeerError,
    ResponseHead,
    write_fields,
)
from rigctl.adapters.http1.link import Relayed
from rigctl.core.answer import Ending
from rigctl.core.ask import Endpoint
from rigctl.core.ids import GroupName, Mono
from rigctl.parse.answers import AnswerReader
from rigctl.proxy.live import Request

WHOLE_LIMIT = 8 * 1024 * 1024
"""Bytes of an unstreamed answer held back until it is whole, so that a lost one is asked anew."""
_CUT = Ending.TRUNCATED
REFUSAL_LIMIT = 1024 * 1024
LATER = 8 * 1024
"""Bytes of answer that are passed on before they are read together."""
COMMENT = b": rigctl\n"
"""A keep-alive: one line feed, so that it ends no event, which old SDKs trip over (C38)."""


_EARLY = frozenset({Endpoint.MESSAGES, Endpoint.RESPONSES})
"""Here the engine begins its stream before it has looked at the length: what it says before the
first piece of an answer is held back, so that its refusal can still go to another cluster."""


class How(Enum):
    """How an attempt ended."""

    DONE = "done"
    """The answer came to the end of its bytes; `reader.ended` says whether it was one."""
    REFUSED = "refused"
    """Another status than 200; nothing of it has gone to the client."""
    ERROR_FIRST = "error first"
    """A 200 whose first event is an error; nothing of it has gone to the client (C34)."""
    LOST = "lost"
    """The connection broke off."""
    UNREACHABLE = "unreachable"
    """No connection could be made: the engine never saw it."""
    LEFT = "left"
    """The client went away, or a person ended it."""


class Ended(NamedTuple):
    """The end, and what is left to be said to the client."""

    how: How
    say: str = ""
    status: int = 0
    headers: Headers = ()
    body: bytes = b""
    """Of a whole answer not yet sent, or of a refusal."""
    reused: bool = False
    """It was lost on a kept connection before a byte: the engine may just have closed it."""


class _Mode(Enum):
    UNTOLD = 0
    STREAM = 1
    WHOLE = 2
    REFUSED = 3


class Attempt:
    """A sink for the engine's answer; the client's begins with its first event."""

    reader: AnswerReader | None = None
    handle: Relayed | None = None
    on_first_byte: Callable[[], None] | None = None
    """Called once the prompt has been read: the answer begins."""
    begun = False
    """A byte of answer has gone to the client: from here on nothing can be taken back."""
    _fields = b""
    _frames: Callable[[bytes], None] | None = None
    """Takes chunks in their frames, once its client's answer has begun, where both have them."""
    _ready: AnswerReader | None = None
    _head: ResponseHead | None = None
    _mode = _Mode.UNTOLD
    _body = 0
    _client_full = False

    def __init__(
        self,
        request: Request,
        cluster: GroupName,
        rid: str,
        swallow: bool,
        now: Mono,
    ) -> None:
        """`swallow`: the usage event at the end was asked for by us and is taken out again
        (C46)."""
        self.cluster = cluster
        self.rid = rid
        """As the engine knows it; empty where it knows none."""
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Ended] = self._loop.create_future()
        self.over = asyncio.Event()
        """The engine is done with it, whoever still listens."""
        self.taken = now
        """When it took its slot."""
        self.last: float = now
        """When the engine last sent anything."""
        self.written: float = now
        """When anything was last written to the client, comments included."""
        self._request = request
        self._exchange: Exchange = request.exchange
        self._swallow = swallow
        self._wants_reader = request.ask.endpoint.generates
        self._early = request.ask.endpoint in _EARLY
        self._held: list[bytes] = []

    def prepare(self, fields: Headers) -> None:
        """While the engine reads the prompt: make what the client's first byte will need.

        `fields`: what the client's head gets beside the content type.
        """
        self._fields = write_fields(fields)
        if self._wants_reader:
            self._ready = self._new_reader(self._request.ask.stream)

    def _new_reader(self, stream: bool) -> AnswerReader:
        ask = self._request.ask
        return AnswerReader(ask.endpoint, stream, swallow=self._swallow, choices=ask.choices)

    # ---- from the engine -----------------------------------------------------------------

    def head(self, head: ResponseHead) -> None:
        """The engine has begun: for a stream, with its first token."""
        self._head = head
        if head.status != 200:
            self._mode = _Mode.REFUSED
        elif (head.header(b"content-type") or b"").startswith(b"text/event-stream"):
            self._mode = _Mode.STREAM
        else:
            self._mode = _Mode.WHOLE
        if head.status == 200 and self._wants_reader:
            stream = self._mode is _Mode.STREAM
            ready, self._ready = self._ready, None
            as_expected = ready is not None and ready.stream is stream
            self.reader = ready if as_expected else self._new_reader(stream)

    def frame(self, data: bytes) -> bool:
        """One chunk in its frame, passed on as it is: the path of nearly every token."""
        reader, write = self.reader, self._frames
        if write is None or reader is None or not reader.skim(data):
            return False
        if not self.ended.done():
            self.last = self.written = time.monotonic()
            write(data)
            if reader.behind > LATER:
                self._loop.call_soon(reader.catch_up)  # once the bytes are on their way
        return True

    def data(self, data: bytes) -> None:
        """Bytes of its body."""
        if self.ended.done():
            return  # its client left, or it was judged: what still comes goes nowhere
        self.last = now = time.monotonic()
        reader = self.reader
        if reader is not None and reader.stream:
            if not (self.begun or self._early) and reader.begins(data):
                self._begin(now, data)
                return
            passed = reader.filter(data)
            if self.begun:
                if passed:
                    self.written = now
                    self._exchange.push(passed)
                if reader.behind > LATER:
                    self._loop.call_soon(reader.catch_up)  # once the bytes are on their way
            else:
                self._held.append(passed)
                error = reader.first_error
                if error is not None and error.first:
                    if self._settle(How.ERROR_FIRST, error.message):
                        self.drop()
                    return
                if not (reader.begun if self._early else reader.events):
                    return
                first = b"".join(self._held)
                self._held.clear()
                self._begin(now, first)
            return
        self._collect(data, now)

    def _collect(self, data: bytes, now: float) -> None:
        if self.begun:
            self.written = now
            self._exchange.push(data)
            return
        self._body += len(data)
        if self._mode is _Mode.REFUSED and self._body > REFUSAL_LIMIT:
            return  # an error page of megabytes tells no more than its first one
        self._held.append(data)
        if self._mode is not _Mode.REFUSED and self._body > WHOLE_LIMIT:
            parts, self._held = self._held, []
            self._begin(now, b"".join(parts))

    def end(self) -> None:
        """The answer is whole."""
        self.over.set()
        body = b"".join(self._held)
        self._held.clear()
        if self._mode is _Mode.REFUSED:
            self._settle(How.REFUSED, "", body)
            return
        if self.reader is not None:
            if self._mode is _Mode.WHOLE and not self.begun:
                self.reader.feed(body)
            rest = self.reader.finish()
            if self._mode is _Mode.STREAM and not self.begun and self.reader.ended is not _CUT:
                # Whole and without a word: an answer of no tokens is one.
                self._begin(time.monotonic(), body + rest)
            elif rest and self.begun:
                self._exchange.push(rest)
        self._settle(How.DONE, "", body)

    def lost(self, error: PeerError) -> None:
        """The connection broke off; where the answer was complete already, that is no loss."""
        self.over.set()
        if self.reader is not None and self._mode is _Mode.STREAM:
            rest = self.reader.finish()
            if rest and self.begun:
                self._exchange.push(rest)
            if self.begun and self.reader.ended is Ending.COMPLETE:
                self._settle(How.DONE, str(error))
                return
        self._settle(How.LOST, str(error))

    # ---- to the client -------------------------------------------------------------------

    def _begin(self, now: float, first: bytes) -> None:
        """The client's answer begins, its head and first bytes in one write."""
        self.begun = True
        self.written = now
        if self.on_first_byte is not None:
            self.on_first_byte()
        request = self._request
        request.first_byte = Mono(now)
        head, exchange = self._head, self._exchange
        assert head is not None
        if request.commented:
            exchange.push(first)
        else:
            kind = head.header(b"content-type") or b"application/json"
            request.status = head.status
            try:
                exchange.begin(head.status, ((b"content-type", kind),), self._fields, first)
            except ClientGoneError:
                self.leave()
                return
        self._frames = exchange.frames() if self._mode is _Mode.STREAM else None
        exchange.on_writable = self._writable
        if not exchange.writable:
            self._writable(False)

    def _writable(self, writable: bool) -> None:
        """The client reads too slowly, or again: the engine's bytes wait in its socket."""
        if self.handle is not None:
            if writable:
                self.handle.resume()
            else:
                self.handle.pause()
        self._client_full = not writable

    def comment(self, now: float) -> bool:
        """Put a keep-alive in if the stream stands between two events."""
        if not self.begun or self._client_full or self.ended.done():
            return False
        if self._mode is not _Mode.STREAM or self.reader is None or not self.reader.at_boundary:
            return False
        self.written = now
        self._exchange.push(COMMENT)
        return True

    # ---- ends ----------------------------------------------------------------------------

    def leave(self) -> None:
        """The client has gone: what still comes goes nowhere, and the end is told at once."""
        self._settle(How.LEFT, "the client left")

    def fail(self, how: How, say: str) -> None:
        """It could not even be sent."""
        self._settle(how, say)

    def drop(self) -> None:
        """Close the connection to the engine; it is never used again."""
        if self.handle is not None:
            self.handle.abort()

    def _settle(self, how: How, say: str, body: bytes = b"") -> bool:
        if self.ended.done():
            return False
        head = self._head
        reused = how is How.LOST and head is None and self.handle is not None and self.handle.reused
        status = 0 if head is None else head.status
        headers: Headers = () if head is None else head.headers
        self.ended.set_result(Ended(how, say, status, headers, body, reused))
        return True
