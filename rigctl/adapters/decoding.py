"""Compressed request bodies to plain ones: a bomb costs its limit, and no more (C43)."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Final

import zstandard

from rigctl.adapters.http1.errors import RequestError

if TYPE_CHECKING:
    from zlib import _Decompress as _Inflater

TAKEN: Final = "zstd, gzip, deflate, identity"
"""What is decoded, as told to a client that sent something else."""

_STEP: Final = 256 * 1024
"""Bytes of output made at once, beyond which nothing is held over the limit."""
_INPUT: Final = 64 * 1024
"""Bytes of input given to zlib at once: what it leaves of them, it copies."""
_ZSTD_WINDOW: Final = 8 * 1024 * 1024
"""The largest window that a sender may use on the web (RFC 9659)."""
_MEMBERS: Final = 1000
"""gzip members in one body: each costs a decoder, whatever little it holds."""
_CODINGS: Final = 4
"""Codings on top of one another."""

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP: Final = 31
_ZLIB: Final = 15
_RAW: Final = -15


class UnsupportedEncodingError(RequestError):
    """415: a coding that is not decoded here."""

    def __init__(self, name: str) -> None:
        super().__init__(415, f"Content-Encoding {name!r} is not decoded here; send {TAKEN}")


class CorruptBodyError(RequestError):
    """400: the body is not what its coding says, or is cut off."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(400, f"the request's body is no whole {name} data: {why}")


class BodyTooLargeError(RequestError):
    """413: decoded, the body is over the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the request's body is over {limit} bytes once decoded")


def decode_body(content_encoding: bytes | None, body: bytes, limit: int) -> bytes:
    """The plain body, of at most `limit` bytes.

    Codings are undone in the reverse of the order they were applied in. An undeclared zstd or gzip
    body is known by its first bytes: no JSON begins so. UnsupportedEncodingError (415),
    CorruptBodyError (400), BodyTooLargeError (413). Beside the body and
    its copy, holds the limit and one window at most.
    """
    names = _codings(content_encoding or b"")
    if not names and body:
        names = _sniffed(body)
    for name in reversed(names):
        if body:
            body = _undo(name, body, limit)
    if len(body) > limit:
        raise BodyTooLargeError(limit)
    return body


def _codings(field: bytes) -> list[str]:
    """The codings that a Content-Encoding names, but identity."""
    names = [name.strip().lower() for name in field.decode("latin-1").split(",")]
    names = [name.removeprefix("x-") if name == "x-gzip" else name for name in names]
    names = [name for name in names if name not in ("", "identity")]
    for name in names:
        if name not in _DECODERS:
            raise UnsupportedEncodingError(name[:40])
    if len(names) > _CODINGS:
        raise UnsupportedEncodingError(f"of {len(names)} layers")
    return names


def _sniffed(body: bytes) -> list[str]:
    if body.startswith(_ZSTD_MAGIC):
        return ["zstd"]
    return ["gzip"] if body.startswith(_GZIP_MAGIC) else []


def _undo(name: str, body: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for part in _DECODERS[name](body):
        size += len(part)
        if size > limit:
            raise BodyTooLargeError(limit)
        parts.append(part)
    return b"".join(parts)


def _zstd(body: bytes) -> Iterator[bytes]:
    """Frames, one after the other, as any decoder of the format takes them.

    The reader does not say whether the last frame was whole. So one more frame is put behind the
    body: its content comes out at the end if, and only if, everything before it was whole.
    """
    mark = os.urandom(16)
    # In one buffer: given a source in pieces, the reader forgets a frame's head that one cuts.
    whole = body + zstandard.compress(mark)
    decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    held = b""
    try:
        with decoder.stream_reader(whole, read_across_frames=True) as reader:
            while part := reader.read(_STEP):
                held += part
                if len(held) > len(mark):
                    yield held[: -len(mark)]
                    held = held[-len(mark) :]
    except zstandard.ZstdError as error:
        raise CorruptBodyError("zstd", str(error)) from None
    if held != mark:
        raise CorruptBodyError("zstd", "it is cut off")


def _gzip(body: bytes) -> Iterator[bytes]:
    """Members, one after the other."""
    rest = memoryview(body)
    for _ in range(_MEMBERS):
        decoder = zlib.decompressobj(_GZIP)
        try:
            used = yield from _inflate(decoder, rest)
        except zlib.error as error:
            raise CorruptBodyError("gzip", str(error)) from None
        if not decoder.eof:
            raise CorruptBodyError("gzip", "it is cut off")
        rest = rest[used:]
        if not rest:
            return
    raise CorruptBodyError("gzip", f"it has over {_MEMBERS} members")


def _deflate(body: bytes) -> Iterator[bytes]:
    """zlib's format, which the name stands for, or the raw one, which some send under it."""
    is_zlib = len(body) > 1 and body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0
    decoder = zlib.decompressobj(_ZLIB if is_zlib else _RAW)
    try:
        used = yield from _inflate(decoder, memoryview(body))
    except zlib.error as error:
        raise CorruptBodyError("deflate", str(error)) from None
    if not decoder.eof:
        raise CorruptBodyError("deflate", "it is cut off")
    if used != len(body):
        raise CorruptBodyError("deflate", "something follows its end")


def _inflate(decoder: _Inflater, body: memoryview) -> Generator[bytes, None, int]:
    """What the decoder makes of the body, step by step; returns how many bytes it used."""
    for start in range(0, len(body), _INPUT):
        waiting: bytes | memoryview = body[start : start + _INPUT]
        while waiting and not decoder.eof:
            if part := decoder.decompress(waiting, _STEP):
                yield part
            waiting = decoder.unconsumed_tail
        if decoder.eof:
            return min(start + _INPUT, len(body)) - len(decoder.unused_data)
    while part := decoder.decompress(b"", _STEP):
        yield part
    return len(body)


_DECODERS: Final[dict[str, Callable[[bytes], Iterator[bytes]]]] = {
    "zstd": _zstd,
    "gzip": _gzip,
    "deflate": _deflate,
}
