"""Bytes to HTTP events and back to nothing else: no socket, no clock."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

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
        self.in_head = True
        self.unparsed = 0
        self.head_size = 0
        self.failure: RequestError | None = None
        self.begun = False
        """Inside a message: its first byte came, its last did not."""

    def on_message_begin(self) -> None:
        self.begun = True
        self.headers = []
        self.head_size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= self.limits.header_count:
            self.fail(431, f"more than {self.limits.header_count} header lines")
        self.grow(len(name) + len(value) + 4)
        self.headers.append((name.lower(), value))

    def grow(self, size: int) -> None:
        self.head_size += size
        if self.head_size > self.limits.head:
            self.fail(431, f"the head is over {self.limits.head} bytes")

    def on_body(self, body: bytes) -> None:
        self.events.append(body)

    def fail(self, status: int, say: str) -> None:
        self.failure = RequestError(status, say)
        raise self.failure

    def bound(self, size: int) -> None:
        """Bound what a head without end holds: an endless line reaches no callback."""
        ended = bool(self.events) and self.events[-1] is END
        self.unparsed = self.unparsed + size if self.in_head and not ended else 0
        if self.unparsed > self.limits.head:
            self.fail(431, f"the head is over {self.limits.head} bytes")

    def lengths(self) -> tuple[int | None, bool]:
        """Content-Length and chunked. httptools itself refuses two opinions and bad numbers."""
        sizes = [value for name, value in self.headers if name == b"content-length"]
        codings = [value for name, value in self.headers if name == b"transfer-encoding"]
        if codings and [coding.strip().lower() for coding in codings] != [b"chunked"]:
            self.fail(501, "a transfer coding other than chunked")
        return (int(sizes[0]) if sizes else None), bool(codings)


class RequestParser(_Collector[RequestHead]):
    """The server's ear. One instance a connection."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._parser = httptools.HttpRequestParser(self)
        self.target = b""
        """Of the request in progress, also where it is refused."""
        self._upgraded = False

    def feed(self, data: bytes) -> list[RequestHead | bytes | End]:
        """Events of these bytes. RequestError when the connection cannot go on."""
        self.events = []
        if self._upgraded:
            return []
        try:
            self._parser.feed_data(data)
            self.bound(len(data))
        except httptools.HttpParserUpgrade:
            self._upgraded = True
        except (RequestError, httptools.HttpParserError) as error:
            raise self.failure or RequestError(400, f"not HTTP/1.1: {error}") from None
        return self.events

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.target = b""

    def on_url(self, url: bytes) -> None:
        self.grow(len(url))
        self.target += url

    def on_headers_complete(self) -> None:
        length, chunked = self.lengths()
        version = self._parser.get_http_version()
        method = self._parser.get_method().decode("latin-1")
        if version not in ("1.0", "1.1"):
            self.fail(505, f"HTTP/{version} is not spoken here")
        names = {name for name, _ in self.headers}
        if version == "1.1" and b"host" not in names:
            self.fail(400, "HTTP/1.1 without Host")
        if chunked and version == "1.0":
            self.fail(400, "HTTP/1.0 with Transfer-Encoding")
        upgrade = self._parser.should_upgrade()
        if method == "CONNECT" or (upgrade and (chunked or length)):
            self.fail(501, "this server neither tunnels nor upgrades")
        expects = any(n == b"expect" and v.lower() == b"100-continue" for n, v in self.headers)
        if length is not None and length > self.limits.body:
            self.fail(413, f"the body is {length} bytes, the limit {self.limits.body}")
        # An offered upgrade (curl --http2) is declined by answering in HTTP/1.1 and closing.
        keep = self._parser.should_keep_alive() and not upgrade
        self.in_head = False
        self.events.append(
            RequestHead(
                method,
                self.target,
                version,
                tuple(self.headers),
                length,
                chunked,
                keep,
                expects and version == "1.1",
            )
        )

    def on_message_complete(self) -> None:
        self.begun = False
        self.in_head = True
        self.unparsed = 0
        self.events.append(END)


class ResponseParser(_Collector[ResponseHead]):
    """The client's ear. One instance a connection; informational (1xx) answers are skipped."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._parser = httptools.HttpResponseParser(self)
        self._interim = False
        self.until_close = False
        """The body has neither length nor chunks: it ends when the connection does."""

    def feed(self, data: bytes) -> list[ResponseHead | bytes | End]:
        """Events of these bytes. BrokenAnswerError when they are no HTTP response."""
        self.events = []
        try:
            self._parser.feed_data(data)
            self.bound(len(data))
        except httptools.HttpParserUpgrade:
            raise BrokenAnswerError("the server switched protocols unasked") from None
        except (RequestError, httptools.HttpParserError) as error:
            raise BrokenAnswerError(f"not an HTTP/1.1 answer: {self.failure or error}") from None
        return self.events

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self.until_close = False
        self._interim = 100 <= status < 200
        if self._interim:
            return
        length, chunked = self.lengths()
        bodiless = status in (204, 304)
        self.until_close = length is None and not chunked and not bodiless
        self.in_head = False
        keep = self._parser.should_keep_alive() and not self.until_close
        version = self._parser.get_http_version()
        headers: Headers = tuple(self.headers)
        self.events.append(ResponseHead(status, version, headers, length, chunked, keep))

    def on_message_complete(self) -> None:
        self.begun = False
        self.in_head = True
        self.unparsed = 0
        if not self._interim:
            self.events.append(END)
