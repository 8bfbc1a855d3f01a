"""The words of HTTP/1.1 as values, and how a head is written out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

Headers = tuple[tuple[bytes, bytes], ...]
"""Names in lower case, values as they came, in order."""

END_OF_CHUNKS = b"0\r\n\r\n"

_FIRST_LINES = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}
_TARGET = re.compile(r"[^\x00-\x20\x7f]+")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a peer may send before it is refused; bytes, seconds."""

    head: int = 64 * 1024
    header_count: int = 128
    body: int = 64 * 1024 * 1024
    buffered: int = 256 * 1024
    """Body bytes held for a slow reader before the socket is left unread."""
    head_seconds: float = 30.0
    """From a request's first byte to the end of its head."""
    idle_seconds: float = 75.0
    """How long an unused connection is kept."""
    target: int = 16 * 1024
    """Bytes of a request's target."""
    connections: int = 512
    """Clients connected at once; one more is told so (503) and closed."""
    body_idle_seconds: float = 30.0
    """How long a body may rest in the middle."""
    body_grace_seconds: float = 30.0
    """How long a body may take before its average rate counts."""
    body_least_rate: float = 1024.0
    """Bytes a second below which, on average, a body counts as held up on purpose."""
    stalled_write_seconds: float = 600.0
    """How long a client may take nothing of what lies ready for it."""
    unsent: int = 256 * 1024
    """Bytes lying ready for a slow client before its source is told to rest."""


def find(headers: Headers, name: bytes) -> bytes | None:
    """The first value of that (lower-case) name."""
    for key, value in headers:
        if key == name:
            return value
    return None


class RequestHead(NamedTuple):
    method: str
    target: bytes
    """As sent, `/v1/loads?include=core`."""
    version: str
    """`1.1` or `1.0`."""
    headers: Headers
    length: int | None
    """Content-Length; None where the body is chunked or absent."""
    chunked: bool
    keep_alive: bool
    expects_continue: bool

    @property
    def path(self) -> str:
        """The target without its query, percent-decoded."""
        return unquote(self.target.split(b"?", 1)[0].decode("latin-1"))

    @property
    def query(self) -> dict[str, str]:
        """The first value of each query key."""
        parts = self.target.split(b"?", 1)
        if len(parts) == 1:
            return {}
        return {key: values[0] for key, values in parse_qs(parts[1].decode("latin-1")).items()}

    @property
    def has_body(self) -> bool:
        return self.chunked or bool(self.length)

    def header(self, name: bytes) -> bytes | None:
        """The first value of that (lower-case) name."""
        return find(self.headers, name)


class ResponseHead(NamedTuple):
    status: int
    version: str
    headers: Headers
    length: int | None
    chunked: bool
    keep_alive: bool

    def header(self, name: bytes) -> bytes | None:
        """The first value of that (lower-case) name."""
        return find(self.headers, name)


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """The first value of that (lower-case) name."""
        return find(self.headers, name)


def write_fields(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Fields as they stand in a head, each with its line end. ValueError for one with a break."""
    lines = [b"%b: %b\r\n" % pair for pair in headers]
    written = b"".join(lines)
    if written.count(b"\n") != len(lines) or written.count(b"\r") != len(lines):
        names = [line.partition(b":")[0] for line in lines if len(line.splitlines()) != 1]
        raise ValueError(f"header {names!r} holds a line break")
    return written


def write_request_head(
    method: str, target: str, host: str, port: int, headers: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """The bytes of a request's head, `Host` first. ValueError for a target with blanks."""
    return b"%b%b\r\n" % (_first_lines(method, target, host, port), write_fields(headers))


@lru_cache(maxsize=64)
def _first_lines(method: str, target: str, host: str, port: int) -> bytes:
    """Request line and `Host`: the same for nearly every request."""
    if _TARGET.fullmatch(target) is None:
        raise ValueError(f"not a request target: {target!r}")
    name = f"[{host}]" if ":" in host else host
    return f"{method} {target} HTTP/1.1\r\nhost: {name}:{port}\r\n".encode("latin-1")


def write_response_head(
    status: int, headers: Iterable[tuple[bytes, bytes]], written: bytes = b""
) -> bytes:
    """The bytes of a response's head. Always HTTP/1.1: that is the version we speak.

    `written`: more fields, by `write_fields`.
    """
    first = _FIRST_LINES.get(status) or b"HTTP/1.1 %d Status\r\n" % status
    return b"%b%b%b\r\n" % (first, write_fields(headers), written)


def write_chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; empty data would end the body and is refused."""
    if not data:
        raise ValueError("an empty chunk ends a body")
    return b"%x\r\n%b\r\n" % (len(data), data)
