"""Compressed request bodies: every coding, every damage, and bombs that cost their limit (C43)."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import subprocess
import sys
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.adapters.decoding import (
    BodyTooLargeError,
    CorruptBodyError,
    UnsupportedEncodingError,
    decode_body,
)

pytestmark = pytest.mark.case("C43")

LIMIT = 1_000_000
PLAIN = json.dumps({"model": "m", "messages": [{"role": "user", "content": "def f(): …" * 500}]})
BODY = PLAIN.encode()


def raw_deflate(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


def streamed_zstd(data: bytes) -> bytes:
    """Without a content size in the frame, as a streaming client writes it."""
    out = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as writer:
        writer.write(data)
    return out.getvalue()


ENCODE: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "zstd": (b"zstd", zstandard.compress),
    "zstd streamed": (b"zstd", streamed_zstd),
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b"x-gzip", gzip.compress),
    "deflate": (b"deflate", zlib.compress),
    "raw deflate": (b"deflate", raw_deflate),
}


@pytest.mark.parametrize("kind", ENCODE)
@pytest.mark.parametrize("body", [BODY, b"{}", b"x" * LIMIT], ids=["chat", "tiny", "at the limit"])
def test_each_coding_is_undone(kind: str, body: bytes) -> None:
    """The plain bytes come back, also of a frame so small that its text is readable in it."""
    name, encode = ENCODE[kind]
    assert decode_body(name, encode(body), LIMIT) == body
    assert decode_body(b" " + name.upper() + b" ", encode(body), LIMIT) == body


def test_codings_are_undone_in_reverse() -> None:
    """`zstd, gzip`: zstd was applied first, so gzip comes off first."""
    assert decode_body(b"zstd, gzip", gzip.compress(zstandard.compress(BODY)), LIMIT) == BODY
    assert (
        decode_body(b"gzip,identity,zstd", zstandard.compress(gzip.compress(BODY)), LIMIT) == BODY
    )
    with pytest.raises(CorruptBodyError):
        decode_body(b"gzip, zstd", gzip.compress(zstandard.compress(BODY)), LIMIT)


@pytest.mark.parametrize("name", [None, b"", b"identity"])
def test_what_is_not_declared_is_known_by_its_first_bytes(name: bytes | None) -> None:
    """zstd and gzip without a header are decoded; JSON is left as it is."""
    assert decode_body(name, zstandard.compress(BODY), LIMIT) == BODY
    assert decode_body(name, gzip.compress(BODY), LIMIT) == BODY
    assert decode_body(name, BODY, LIMIT) == BODY
    assert decode_body(name, b"", LIMIT) == b""


def test_bodies_in_several_pieces() -> None:
    """Frames and members in a row are one body."""
    assert decode_body(b"zstd", zstandard.compress(b"a") + streamed_zstd(b"b"), LIMIT) == b"ab"
    assert decode_body(b"gzip", gzip.compress(b"a") + gzip.compress(b"b"), LIMIT) == b"ab"
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00meta"
    assert decode_body(b"zstd", skippable + zstandard.compress(b"a"), LIMIT) == b"a"


@pytest.mark.parametrize("name", [b"br", b"x-foo", b"gzip, br", b"compress", b"gzip;q=1"])
def test_an_unknown_coding_is_named_and_so_is_what_is_taken(name: bytes) -> None:
    """415 tells the client what to send instead."""
    with pytest.raises(UnsupportedEncodingError, match="send zstd, gzip, deflate") as refusal:
        decode_body(name, b"whatever", LIMIT)
    assert refusal.value.status == 415


def test_layers_are_bounded() -> None:
    """Nobody wraps a request five times."""
    with pytest.raises(UnsupportedEncodingError):
        decode_body(b"gzip, gzip, gzip, gzip, gzip", b"x", LIMIT)


@pytest.mark.parametrize("kind", ENCODE)
def test_a_cut_body_is_corrupt_wherever_it_is_cut(kind: str) -> None:
    """No prefix of a compressed body passes for a whole one."""
    name, encode = ENCODE[kind]
    whole = encode(b"some text, some text and some more")
    for end in range(1, len(whole)):
        with pytest.raises(CorruptBodyError):
            decode_body(name, whole[:end], LIMIT)


@pytest.mark.parametrize("kind", ENCODE)
def test_surplus_and_rubbish_are_corrupt(kind: str) -> None:
    """What follows the end is no part of any request; what is no such data is refused."""
    name, encode = ENCODE[kind]
    for body in (encode(BODY) + b"surplus", b"\xff" * 100, b'{"model": "m"}'):
        with pytest.raises(CorruptBodyError) as refusal:
            decode_body(name, body, LIMIT)
        assert refusal.value.status == 400


def test_a_window_larger_than_the_web_allows_is_refused() -> None:
    """A frame that asks for 128 MB of window gets none of it."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    out = io.BytesIO()
    with compressor.stream_writer(out, closefd=False) as writer:
        writer.write(BODY)
    with pytest.raises(CorruptBodyError):
        decode_body(b"zstd", out.getvalue(), LIMIT)


def test_members_are_bounded() -> None:
    """A body of a million empty gzip members is refused, not ground through."""
    with pytest.raises(CorruptBodyError, match="members"):
        decode_body(b"gzip", gzip.compress(b"") * 5000, LIMIT)


@pytest.mark.parametrize("kind", ENCODE)
def test_one_byte_over_the_limit(kind: str) -> None:
    """The limit holds exactly, for the plain body as well."""
    name, encode = ENCODE[kind]
    for coding, body in ((name, encode(b"x" * (LIMIT + 1))), (None, b"x" * (LIMIT + 1))):
        with pytest.raises(BodyTooLargeError) as refusal:
            decode_body(coding, body, LIMIT)
        assert refusal.value.status == 413


BOMB = """
import resource, sys, zlib, io
import zstandard
from rigctl.adapters.decoding import BodyTooLargeError, decode_body
block = bytes(1 << 20)
def packed(kind, megabytes):
    out = io.BytesIO()
    if kind == "zstd":
        with zstandard.ZstdCompressor(level=19).stream_writer(out, closefd=False) as writer:
            for _ in range(megabytes):
                writer.write(block)
    else:
        made = zlib.compressobj(9, wbits=31)
        for _ in range(megabytes):
            out.write(made.compress(block))
        out.write(made.flush())
    return out.getvalue()
kind, layers, megabytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
bomb = packed(kind, megabytes)
for _ in range(layers - 1):
    bomb = zstandard.compress(bomb)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decode_body(", ".join([kind] + ["zstd"] * (layers - 1)).encode(), bomb, 8 << 20)
except BodyTooLargeError:
    print(len(bomb), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    ("kind", "layers", "megabytes", "most"),
    [("zstd", 1, 300, 60_000), ("zstd", 2, 5_000, 10_000), ("gzip", 2, 1_000, 10_000)],
)
def test_a_bomb_costs_its_limit(kind: str, layers: int, megabytes: int, most: int) -> None:
    """10 kB that hold 5 GB are refused at 8 MB, with the limit and a window in memory, no more."""
    done = subprocess.run(
        [sys.executable, "-c", BOMB, kind, str(layers), str(megabytes)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    size, grown = map(int, done.stdout.split())
    assert size < most
    assert grown < 40_000  # kilobytes: the limit, its parts, a window of 8 MB


@seed(43)
@settings(max_examples=300, deadline=None, database=None)
@given(
    st.sampled_from([b"zstd", b"gzip", b"deflate", b"zstd, gzip", b"", b"deflate, zstd"]),
    st.one_of(
        st.binary(max_size=200),
        st.builds(
            lambda kind, place, byte: _damaged(ENCODE[kind][1](BODY[:300]), place, byte),
            st.sampled_from(sorted(ENCODE)),
            st.integers(0, 400),
            st.integers(0, 255),
        ),
    ),
)
def test_no_body_escapes_as_another_error(name: bytes, body: bytes) -> None:
    """Whatever comes, the answer is a plain body within the limit or a refusal with its status."""
    with contextlib.suppress(CorruptBodyError, BodyTooLargeError):
        assert len(decode_body(name, body, 10_000)) <= 10_000


def _damaged(body: bytes, place: int, byte: int) -> bytes:
    place %= len(body)
    return body[:place] + bytes([byte]) + body[place + 1 :]
