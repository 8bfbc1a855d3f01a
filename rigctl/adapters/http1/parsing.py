"""Bytes to HTTP events and back to nothing else: no socket, no clock."""

from __future__ import annotations

from typing import Final, Generic, NoReturn, TypeVar

import httptools

from rigctl.adapters.http1.errors import BrokenAnswerError, RequestError
from rigctl.adapters.http1.messages import Headers, Limits, RequestHead, ResponseHead


class End:
    """The message is complete."""

    __slots__ = ()


END: Final = End()

Head = TypeVar("Head", RequestHead, ResponseHead)


class _Collector(Generic[Head]):
    """What both directions share: header collection, its limits, and the event list."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.events: list[Head | bytes | End] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.unparsed = 0
        """Bytes since anything came of them."""
        self.head_size = 0
        self.failure: RequestError | None = None
        self.begun = False
        """Inside a message: its first byte came, its last did not."""

    def on_message_begin(self) -> None:
        self.begun = True
        self.headers = []
        self.head_size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        headers, limits = self.headers, self.limits
        if len(headers) >= limits.header_count:
            self.fail(431, f"more than {limits.header_count} header lines")
        self.head_size += len(name) + len(value) + 4
        if self.head_size > limits.head:
            self.grow(0)
        headers.append((name.lower(), value))

    def grow(self, size: int) -> None:
        self.head_size += size
        if self.head_size > self.limits.head:
            self.fail(431, f"the head is over {self.limits.head} bytes")

    def on_body(self, body: bytes) -> None:
        self.events.append(body)

    def fail(self, status: int, say: str) -> NoReturn:
        self.failure = RequestError(status, say)
        raise self.failure

    def bound(self, size: int) -> None:
        """Bound what nothing comes of: an endless line, in a head, a trailer or a chunk's frame."""
        self.unparsed = 0 if self.events else self.unparsed + size
        if self.unparsed > self.limits.head:
            self.fail(431, f"a line is over {self.limits.head} bytes")

    def coding(self, value: bytes) -> bool:
        """Whether a Transfer-Encoding is one that is spoken here: chunked, and nothing else."""
        if value.strip().lower() != b"chunked":
            self.fail(501, "a transfer coding other than chunked")
        return True


class RequestParser(_Collector[RequestHead]):
    """The server's ear. One instance a connection."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._parser = httptools.HttpRequestParser(self)
        self.target = b""
        """Of the request in progress, also where it is refused."""
        self._upgraded = False
        self._owed = 0
        """Bytes still to come of a body whose length was told: they need no parser, which would
        copy them."""

    def feed(self, data: bytes) -> list[RequestHead | bytes | End]:
        """Events of these bytes. RequestError when the connection cannot go on."""
        self.events = []
        if self._owed:
            data = self._take_owed(data)
        if self._upgraded or not data:
            return self.events
        try:
            self._parser.feed_data(data)
            self.bound(len(data))
        except httptools.HttpParserUpgrade:
            self._upgraded = True
        except (RequestError, httptools.HttpParserError) as error:
            raise self.failure or RequestError(400, f"not HTTP/1.1: {error}") from None
        if self.begun:
            self._owe()
        return self.events

    def _owe(self) -> None:
        """Find out how much of a body is still to come, where its head has just been read."""
        came = 0
        for event in reversed(self.events):
            if isinstance(event, RequestHead):
                # After the last request of a connection the parser takes no more: it knows best.
                if event.length and event.keep_alive:
                    self._owed = event.length - came
                return
            came += len(event) if isinstance(event, bytes) else 0

    def _take_owed(self, data: bytes) -> bytes:
        """Take what belongs to the body; returns what follows it."""
        owed = self._owed
        if len(data) < owed:
            self._owed = owed - len(data)
            self.events.append(data)
            return b""
        self._owed = 0
        self._parser = httptools.HttpRequestParser(self)  # this one still waits for the body
        self.events.append(data[:owed])
        self.on_message_complete()
        return data[owed:]

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.target = b""

    def on_url(self, url: bytes) -> None:
        self.target += url
        if len(self.target) > self.limits.target:
            self.fail(414, f"the target is over {self.limits.target} bytes")
        self.grow(len(url))

    def on_headers_complete(self) -> None:
        parser = self._parser
        version = parser.get_http_version()
        length: int | None = None
        chunked = expects = named = False
        for name, value in self.headers:
            if name == b"content-length":
                length = int(value)  # httptools refuses two, and what is no number
            elif name == b"transfer-encoding":
                if chunked:
                    self.fail(400, "two transfer codings")
                chunked = self.coding(value)
            elif name == b"host":
                if named:
                    self.fail(400, "two Hosts")
                named = True
            elif name == b"expect":
                if value.lower() != b"100-continue":
                    self.fail(417, "only 100-continue can be expected")
                expects = version == "1.1"
        if version not in ("1.0", "1.1"):
            self.fail(505, f"HTTP/{version} is not spoken here")
        if version == "1.1" and not named:
            self.fail(400, "HTTP/1.1 without Host")
        if chunked and version == "1.0":
            self.fail(400, "HTTP/1.0 with Transfer-Encoding")
        method = parser.get_method().decode("latin-1")
        upgrade = parser.should_upgrade()
        if method == "CONNECT" or (upgrade and (chunked or length)):
            self.fail(501, "this server neither tunnels nor upgrades")
        if length is not None and length > self.limits.body:
            self.fail(413, f"the body is {length} bytes, the limit {self.limits.body}")
        # An offered upgrade (curl --http2) is declined by answering in HTTP/1.1 and closing.
        keep = parser.should_keep_alive() and not upgrade
        target = self.target if self.target[:1] == b"/" else self._origin(method)
        headers = tuple(self.headers)
        self.events.append(
            RequestHead(method, target, version, headers, length, chunked, keep, expects)
        )

    def _origin(self, method: str) -> bytes:
        """The target of a request to a proxy, `http://host/path`, as one to a server."""
        scheme, slashes, rest = self.target.partition(b"://")
        if self.target == b"*" and method == "OPTIONS":
            return self.target
        if not slashes or scheme.lower() not in (b"http", b"https"):
            self.fail(400, "a target that is neither a path nor http://host/path")
        starts = [place for place in (rest.find(b"/"), rest.find(b"?")) if place >= 0]
        path = rest[min(starts) :] if starts else b""
        return path if path[:1] == b"/" else b"/" + path

    def on_message_complete(self) -> None:
        self.begun = False
        self.events.append(END)


class ResponseParser(_Collector[ResponseHead]):
    """The client's ear. One instance a connection; informational (1xx) answers are skipped."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._parser = httptools.HttpResponseParser(self)
        self._interim = False
        self.until_close = False
        """The body has neither length nor chunks: it ends when the connection does."""
        self._framed = False
        """Every chunk that has begun has ended."""

    def between(self, data: bytes) -> bool:
        """Whether these bytes, the last ones fed, end between two chunks of a body."""
        return self._framed and self.begun and data[-2:] == b"\r\n"

    def feed(self, data: bytes) -> list[ResponseHead | bytes | End]:
        """Events of these bytes. BrokenAnswerError when they are no HTTP response."""
        self.events = []
        try:
            self._parser.feed_data(data)
            if self.events:
                self.unparsed = 0
            else:
                self.bound(len(data))
        except httptools.HttpParserUpgrade:
            raise BrokenAnswerError("the server switched protocols unasked") from None
        except (RequestError, httptools.HttpParserError) as error:
            raise BrokenAnswerError(f"not an HTTP/1.1 answer: {self.failure or error}") from None
        return self.events

    def on_chunk_header(self) -> None:
        self._framed = False

    def on_chunk_complete(self) -> None:
        self._framed = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self.until_close = self._framed = False
        if status < 100:
            self.fail(502, f"no status: {status:03}")
        self._interim = 100 <= status < 200
        if self._interim:
            for name, value in self.headers:
                # httptools would read a body there, which no such answer has.
                if name == b"transfer-encoding" or (name == b"content-length" and int(value)):
                    self.fail(502, "an interim answer with a body")
            return
        length: int | None = None
        chunked = False
        for name, value in self.headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                chunked = self.coding(value)  # said twice by some servers (C50), done once
        bodiless = status in (204, 304)
        self.until_close = length is None and not chunked and not bodiless
        keep = self._parser.should_keep_alive() and not self.until_close
        version = self._parser.get_http_version()
        headers: Headers = tuple(self.headers)
        self.events.append(ResponseHead(status, version, headers, length, chunked, keep))

    def on_message_complete(self) -> None:
        self.begun = False
        if not self._interim:
            self.events.append(END)
