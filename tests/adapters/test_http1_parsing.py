"""HTTP/1.1 parsing: what is understood, what is refused, and that cuts do not show."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.adapters.http1 import BrokenAnswerError, Limits, RequestError, RequestHead, ResponseHead
from rigctl.adapters.http1.messages import write_chunk, write_request_head, write_response_head
from rigctl.adapters.http1.parsing import End, RequestParser, ResponseParser

POST = (
    b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
    b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n"
    b"POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
)
ANSWER = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc"
    b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n4\r\nwxyz\r\n0\r\n\r\n"
)


def shape(events: list[object]) -> list[object]:
    """Events with neighbouring body parts joined: cuts must not show."""
    out: list[object] = []
    for event in events:
        if isinstance(event, End):
            out.append("end")
        elif isinstance(event, bytes):
            if out and isinstance(out[-1], bytes):
                out[-1] += event
            else:
                out.append(event)
        else:
            out.append(event)
    return out


def feed_in_cuts(
    parser: RequestParser | ResponseParser, data: bytes, cuts: list[int]
) -> list[object]:
    events: list[object] = []
    edges = [0, *sorted(cuts), len(data)]
    for start, stop in pairwise(edges):
        if stop > start:
            events.extend(parser.feed(data[start:stop]))
    return shape(events)


def test_three_requests_in_one_read() -> None:
    """Pipelined requests come out whole and in order, with their kind of body."""
    first, body, end, second, end2, third, body3, end3 = shape(RequestParser(Limits()).feed(POST))
    assert isinstance(first, RequestHead)
    assert isinstance(second, RequestHead)
    assert isinstance(third, RequestHead)
    assert (first.method, first.path, first.query) == ("POST", "/v1/chat/completions", {"x": "1"})
    assert first.length == 5
    assert body == b"hello"
    assert (second.method, second.has_body) == ("GET", False)
    assert third.chunked
    assert body3 == b"abcde"
    assert (end, end2, end3) == ("end", "end", "end")


@seed(20261129)
@settings(max_examples=150, deadline=None, database=None)
@given(st.lists(st.integers(0, len(POST)), max_size=12))
def test_requests_do_not_depend_on_where_the_network_cuts(cuts: list[int]) -> None:
    """Any division of the bytes gives the same requests."""
    assert feed_in_cuts(RequestParser(Limits()), POST, cuts) == feed_in_cuts(
        RequestParser(Limits()), POST, []
    )


@seed(20261129)
@settings(max_examples=150, deadline=None, database=None)
@given(st.lists(st.integers(0, len(ANSWER)), max_size=12))
def test_answers_do_not_depend_on_where_the_network_cuts(cuts: list[int]) -> None:
    """Any division of the bytes gives the same answers; the interim 100 is never one of them."""
    events = feed_in_cuts(ResponseParser(Limits()), ANSWER, cuts)
    heads = [event.status for event in events if isinstance(event, ResponseHead)]
    assert heads == [200, 404]
    assert [event for event in events if isinstance(event, bytes)] == [b"abc", b"wxyz"]


LAST = b"POST /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello"
OLD = b"POST /a HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello"


@pytest.mark.parametrize("before", [POST, b""])
@pytest.mark.parametrize("body", [LAST, OLD, POST[: POST.index(b"GET")]])
@pytest.mark.parametrize("after", [b"", POST, b"rubbish\r\n\r\n", b"\r\n", LAST])
@seed(20261201)
@settings(max_examples=30, deadline=None, database=None)
@given(cuts=st.lists(st.integers(0, 2 * len(POST) + len(LAST)), max_size=6))
def test_a_body_of_told_length_hides_nothing_that_follows_it(
    before: bytes, body: bytes, after: bytes, cuts: list[int]
) -> None:
    """It is not parsed once its head has come: the same requests, and the same refusals."""

    def heard(cuts: list[int]) -> tuple[list[object], int]:
        parser, events = RequestParser(Limits()), []
        data = before + body + after
        for start, stop in pairwise([0, *sorted({min(cut, len(data)) for cut in cuts}), len(data)]):
            try:
                events.extend(parser.feed(data[start:stop]))
            except RequestError as refusal:
                return shape([*events, *parser.events]), refusal.status
        return shape(events), 0

    assert heard(cuts) == heard([])


SIZED = b"content-length: 3\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
UPGRADE = b"upgrade: h2c\r\nconnection: upgrade\r\n"


@pytest.mark.parametrize(
    ("first", "fields", "status"),
    [
        (b"POST / HTTP/1.1", SIZED + CHUNKED, 400),
        (b"POST / HTTP/1.1", CHUNKED + SIZED, 400),
        (b"POST / HTTP/1.1", SIZED + SIZED, 400),
        (b"POST / HTTP/1.1", b"content-length: +3\r\n", 400),
        (b"POST / HTTP/1.1", b"content-length: 3, 3\r\n", 400),
        (b"POST / HTTP/1.1", b"transfer-encoding: gzip\r\n", 501),
        (b"POST / HTTP/1.1", b"transfer-encoding: gzip, chunked\r\n", 501),
        (b"POST / HTTP/1.0", CHUNKED, 400),
        (b"GET / HTTP/1.1", b"x : spaced\r\n", 400),
        (b"GET / HTTP/1.1", b" folded: b\r\n", 400),
        (b"GET / HTTP/2.0", b"", 505),
        (b"CONNECT a:1 HTTP/1.1", b"", 501),
        (b"POST / HTTP/1.1", UPGRADE + SIZED, 501),
        (b"\x16\x03\x01\x02\x00\x01", b"", 400),
        (b"POST / HTTP/1.1", b"content-length: 99999999999\r\n", 413),
        (b"GET /" + b"x" * 70000 + b" HTTP/1.1", b"", 414),
        (b"GET / HTTP/1.1", b"x: " + b"y" * 70000 + b"\r\n", 431),
        (b"GET / HTTP/1.1", b"x: y\r\n" * 200, 431),
        (b"GET /" + b"x" * 20000 + b" HTTP/1.1", b"", 414),
        (b"GET / HTTP/1.1", b"expect: 200-ok\r\n", 417),
        (b"GET / HTTP/1.1", b"host: b\r\n", 400),
        (b"GET /\x00 HTTP/1.1", b"", 400),
        (b"GET a:80 HTTP/1.1", b"", 400),
        (b"GET ftp://a/b HTTP/1.1", b"", 400),
        (b"GET * HTTP/1.1", b"", 400),
        (b"FOO / HTTP/1.1", b"", 400),
        (b"GET /", b"", 505),
        (b"GET / HTTP/1.1", b"x: a\x00b\r\n", 400),
        (b"GET / HTTP/1.1", b"x: a\nb: c\r\n", 400),
        (b"GET / HTTP/1.1", b"x: a\rb\r\n", 400),
        (b"GET / HTTP/1.1", b"x: a\r\n folded\r\n", 400),
        (b"GET / HTTP/1.1", b": a\r\n", 400),
        (b"POST / HTTP/1.1", b"content-length: -1\r\n", 400),
        (b"POST / HTTP/1.1", b"content-length: 1_0\r\n", 400),
        (b"POST / HTTP/1.1", b"content-length:\r\n", 400),
        (b"POST / HTTP/1.1", b"content-length: 99999999999999999999999\r\n", 400),
        (b"POST / HTTP/1.1", CHUNKED + CHUNKED, 400),
        (b"POST / HTTP/1.1", b"transfer-encoding: chunked, chunked\r\n", 400),
        (b"POST / HTTP/1.1", b"transfer-encoding: \x0bchunked\r\n", 400),
    ],
)
def test_what_is_refused(first: bytes, fields: bytes, status: int) -> None:
    """Two opinions on a length, odd codings, oversized heads and other protocols are refused."""
    with pytest.raises(RequestError) as refusal:
        RequestParser(Limits()).feed(first + b"\r\nhost: a\r\n" + fields + b"\r\n")
    assert refusal.value.status == status


@pytest.mark.parametrize(
    "body",
    [
        b"fffffffffffffffff\r\nab",
        b"-1\r\nab",
        b"0x2\r\nab",
        b"2 \r\nab",
        b"2\nab\n0\n\n",
        b"2\r\nabc",
        b"2;\x01\r\nab",
        b"2\r\nab\r\n0\r\ncontent-length: 5\r\n\r\n",
        b"2\r\nab\r\n0\r\ntransfer-encoding: gzip\r\n\r\n",
    ],
)
def test_chunks_that_are_refused(body: bytes) -> None:
    """Sizes of no number, bare line feeds, chunks longer than said, framing told in a trailer."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\n" + CHUNKED + b"\r\n"
    with pytest.raises(RequestError) as refusal:
        RequestParser(Limits()).feed(head + body)
    assert refusal.value.status == 400


def test_chunk_extensions_and_trailers_are_passed_over() -> None:
    """They are legal, and nobody needs them: a trailer is no header of the request."""
    raw = b"POST / HTTP/1.1\r\nhost: a\r\n" + CHUNKED + b"\r\n"
    head, body, end = shape(
        RequestParser(Limits()).feed(raw + b'2;a;b="c"\r\nab\r\n0\r\nx-late: 1\r\n\r\n')
    )
    assert isinstance(head, RequestHead)
    assert head.header(b"x-late") is None
    assert (body, end) == (b"ab", "end")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"http://a:1/b?c=d", b"/b?c=d"),
        (b"HTTPS://user@a/b", b"/b"),
        (b"http://a", b"/"),
        (b"http://a?x=/y", b"/?x=/y"),
        (b"http://[::1]:80/b//c", b"/b//c"),
    ],
)
def test_a_target_as_to_a_proxy(target: bytes, path: bytes) -> None:
    """The absolute form must be taken (RFC 9112, 3.2.2), and is the path it names."""
    head = RequestParser(Limits()).feed(b"GET " + target + b" HTTP/1.1\r\nhost: a\r\n\r\n")[0]
    assert isinstance(head, RequestHead)
    assert head.target == path


@pytest.mark.case("C53")
def test_an_old_request_needs_no_host() -> None:
    """HTTP/1.0 is kept only if it asks."""
    for fields, kept in ((b"", False), (b"connection: Keep-Alive\r\n", True)):
        head = RequestParser(Limits()).feed(b"POST / HTTP/1.0\r\n" + fields + SIZED + b"\r\nabc")[0]
        assert isinstance(head, RequestHead)
        assert head.keep_alive == kept


def test_a_request_without_host_is_refused() -> None:
    """HTTP/1.1 asks for Host."""
    with pytest.raises(RequestError, match="Host"):
        RequestParser(Limits()).feed(b"GET / HTTP/1.1\r\n\r\n")


def test_a_big_body_beside_its_head_is_no_big_head() -> None:
    """Body bytes that arrive in the same read do not count against the head's limit."""
    body = b"x" * 200_000
    raw = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    assert shape(RequestParser(Limits()).feed(raw))[1:] == [body, "end"]


def test_a_head_that_never_ends_is_bounded() -> None:
    """Byte by byte or by the kilobyte, an endless header line is cut off at the limit."""
    parser = RequestParser(Limits(head=1000))
    for _ in range(100):
        parser.feed(b"y" * 10 if parser.unparsed else b"GET /yyyyy")
    with pytest.raises(RequestError, match="1000 bytes"):
        parser.feed(b"y")


def test_an_offered_upgrade_is_declined() -> None:
    """curl --http2 is answered in HTTP/1.1, on a connection that then closes."""
    raw = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\nPRI * HTTP/2.0"
    head = RequestParser(Limits()).feed(raw)[0]
    assert isinstance(head, RequestHead)
    assert not head.keep_alive


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
    ],
)
def test_answers_that_are_none(raw: bytes) -> None:
    """What is not an HTTP answer is said to be broken, never guessed at."""
    with pytest.raises(BrokenAnswerError):
        ResponseParser(Limits()).feed(raw)


@seed(7)
@settings(max_examples=200, deadline=None, database=None)
@given(st.binary(max_size=300))
def test_rubbish_never_escapes_as_another_error(data: bytes) -> None:
    """Whatever bytes come, the parser answers with events or its own refusal."""
    with contextlib.suppress(RequestError):
        RequestParser(Limits()).feed(data)
    with contextlib.suppress(BrokenAnswerError):
        ResponseParser(Limits()).feed(data)


def test_no_line_break_reaches_a_head() -> None:
    """Values with line breaks, targets with blanks and empty chunks are a caller's error."""
    with pytest.raises(ValueError, match="line break"):
        write_response_head(200, [(b"x", b"a\r\nset-cookie: b")])
    with pytest.raises(ValueError, match="target"):
        write_request_head("GET", "/a b", "h", 1, [])
    with pytest.raises(ValueError, match="target"):
        write_request_head("GET", "/a\r\nx: y", "h", 1, [])
    with pytest.raises(ValueError, match="chunk"):
        write_chunk(b"")
    assert write_request_head("GET", "/", "::1", 5, []).startswith(
        b"GET / HTTP/1.1\r\nhost: [::1]:5\r\n"
    )
