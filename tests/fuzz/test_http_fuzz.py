"""Damaged HTTP/1.1 in arbitrary pieces: one reading whatever the pieces, and h11's beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from http_differences import AFTER_AN_UPGRADE, THEY_REFUSE, WE_REFUSE, explained
from http_opinions import of_h11, ours, pieces, smuggled
from hypothesis import example, given, settings
from hypothesis import strategies as st

REQUESTS = [
    (
        b"POST /v1/a?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
        b"GET /m HTTP/1.1\r\nhost: a\r\n\r\n"
    ),
    (
        b"POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nx: y\r\n\r\nGET / HTTP/1.1\r\nhost: b\r\n\r\n"
    ),
    (
        b"GET /c HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"
        b"GET /d HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    ),
    (
        b"PUT /c HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\na"
        b"OPTIONS * HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"
    ),
]
ANSWERS = [
    (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"
        b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n4\r\nwxyz\r\n0\r\n\r\n"
    ),
    b"HTTP/1.1 204 No\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil the end",
    (
        b"HTTP/1.1 304 N\r\ncontent-length: 5\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
    ),
]
TOKENS = [
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b";", b",", b"0", b"1", b"f", b"-", b"+"),
    *(b"\x0b", b"\xff", b"#", b'"', b"\r\n\r\n", b"0\r\n\r\n", b"HTTP/1.0", b"HTTP/1.1"),
    *(b"Content-Length: 3\r\n", b"content-length: 5\r\n", b"Host: b\r\n", b"chunked", b", chunked"),
    *(b"Transfer-Encoding: chunked\r\n", b"transfer-encoding: identity\r\n"),
    *(b"connection: close\r\n", b"upgrade: x\r\nconnection: upgrade\r\n", b"100", b"204", b"304"),
]
CHANGE = st.one_of(
    st.tuples(st.just("insert"), st.integers(0, 400), st.sampled_from(TOKENS)),
    st.tuples(st.just("insert"), st.integers(0, 400), st.binary(min_size=1, max_size=3)),
    st.tuples(st.just("delete"), st.integers(0, 400), st.integers(1, 6)),
    st.tuples(st.just("repeat"), st.integers(0, 400), st.integers(1, 40)),
)
CUTS = st.lists(st.integers(0, 1 << 16), max_size=9)


def damaged(data: bytes, changes: list[tuple[str, int, bytes | int]]) -> bytes:
    """The message after a few small accidents."""
    for kind, place, what in changes:
        place %= len(data) + 1
        if isinstance(what, bytes):
            data = data[:place] + what + data[place:]
        elif kind == "delete":
            data = data[:place] + data[place + what :]
        else:
            data = data[:place] + data[place : place + what] + data[place:]
    return data


def messages(seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(damaged, st.sampled_from(seeds), st.lists(CHANGE, max_size=4))


def check(data: bytes, cuts: list[int], *, answers: bool) -> None:
    """The law of this file, for one input."""
    mine = ours([data], answers=answers)
    cut = ours(pieces(data, cuts), answers=answers)
    assert (cut.messages, cut.ended) == (mine.messages, mine.ended), "the pieces show"
    assert bool(cut.refusal) == bool(mine.refusal), "refused only in some pieces"
    theirs = of_h11(data, answers=answers)
    assert not smuggled(mine, theirs)
    if mine.refusal and not theirs.refusal:
        assert explained(WE_REFUSE, mine.refusal), f"only we refuse: {mine.refusal}"
    if theirs.refusal and not mine.refusal and not AFTER_AN_UPGRADE.search(data):
        assert explained(THEY_REFUSE, theirs.refusal), f"only h11 refuses: {theirs.refusal}"


@settings(max_examples=1500, deadline=None, database=None, derandomize=True)
@given(messages(REQUESTS), CUTS)
@example(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc", [])
@example(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 003\r\n\r\nabc", [40])
@example(b"GET  / HTTP/1.1\r\nhost: a\r\n\r\n", [])
@example(b"\r\rGET / HTTP/1.1\r\nhost: a\r\n\r\n", [1])
def test_damaged_requests(data: bytes, cuts: list[int]) -> None:
    """The pieces do not show; what h11 also accepts it reads the same; differences are listed."""
    check(data, cuts, answers=False)


@settings(max_examples=1000, deadline=None, database=None, derandomize=True)
@given(messages(ANSWERS), CUTS)
@example(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nsurplus", [])
@example(b"HTTP/1.1 200 O\x00K\r\ncontent-length: 0\r\n\r\n", [])
def test_damaged_answers(data: bytes, cuts: list[int]) -> None:
    """The same for what a server says."""
    check(data, cuts, answers=True)


FINDINGS = sorted((Path(__file__).parent / "http_findings").glob("*"))
"""Inputs that atheris once stopped at (`atheris_http.py`), the first byte telling the side."""


@pytest.mark.parametrize("finding", FINDINGS, ids=[path.name for path in FINDINGS])
def test_what_atheris_found(finding: Path) -> None:
    """Each stays explained or mended."""
    data = finding.read_bytes()
    cuts = [int(sign) for sign in data[1:4]]
    check(data[4:], cuts, answers=bool(data[0] & 1))
