"""The event scanner: every form of frame, wherever the network cut it, and nothing unbounded."""

from __future__ import annotations

import pytest

from rigctl.core.sse import Event, Events


def datas(stream: bytes, size: int | None = None) -> list[bytes]:
    """The events' data, fed whole or in pieces of that size."""
    events = Events()
    step = size or max(1, len(stream))
    return [
        event.data
        for at in range(0, len(stream), step)
        for event in events.feed(stream[at : at + step])
    ]


FORMS = {
    "ordinary": (b'data: {"a":1}\n\n', [b'{"a":1}']),
    "no blank": (b'data:{"id":"1"}\n\n', [b'{"id":"1"}']),
    "two blanks": (b"data:  a\n\n", [b" a"]),
    "crlf": (b"data: a\r\n\r\n", [b"a"]),
    "lone cr": (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    "mixed line ends": (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
    "two data lines": (b"data: a\ndata: b\n\n", [b"a\nb"]),
    "bare data": (b"data\n\n", [b""]),
    "empty data": (b"data:\n\n", [b""]),
    "fields around": (b"id: 7\nevent: message\nretry: 3000\ndata: x\nwhat: y\n\n", [b"x"]),
    "bom": (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    "bom before a comment": (b"\xef\xbb\xbf: hello\n\ndata: a\n\n", [b"a"]),
    "comments": (b": ping\n\n:\n\ndata: a\n: inside\n\n:\n\n", [b"a"]),
    "no data": (b"event: ping\n\nid: 1\n\n", []),
    "coalesced": (b"data: a\n\ndata: b\n\ndata: [DONE]\n\n", [b"a", b"b", b"[DONE]"]),
    "blank lines": (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
    "invalid bytes": (b'data: "\xff\xfe"\n\n', [b'"\xff\xfe"']),
    "a character of four bytes": ("data: 🌍\n\n".encode(), ["🌍".encode()]),
    "colon in the data": (b"data: a: b\n\n", [b"a: b"]),
    "cut off": (b"data: a\n\ndata: never ended\n", [b"a"]),
    "lone cr inside lf lines": (b"data: a\rb\n\n", [b"a"]),
}


@pytest.mark.case("C37")
@pytest.mark.case("C36")
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", [None, 1, 2, 3, 5, 7])
def test_every_form_counts_however_it_is_cut(name: str, size: int | None) -> None:
    """Frames are found by the standard's own rules, one byte at a time as well as whole."""
    stream, expected = FORMS[name]
    assert datas(stream, size) == expected


@pytest.mark.case("C37")
def test_the_name_of_an_event_is_its_own() -> None:
    """`event:` names one event and not the next."""
    found = Events().feed(b"event: error\ndata: a\n\ndata: b\n\n")
    assert [(event.name, event.data) for event in found] == [(b"error", b"a"), (b"", b"b")]


@pytest.mark.case("C37")
@pytest.mark.parametrize("size", [None, 65_536, 4_099])
def test_an_event_of_two_megabytes_is_one_event(size: int | None) -> None:
    """No line is too long at 64 KiB."""
    big = b'{"text":"' + b"x" * 2_000_000 + b'"}'
    assert datas(b"data: " + big + b"\n\ndata: b\n\n", size) == [big, b"b"]


@pytest.mark.parametrize(
    "event",
    [
        b"data: " + b"x" * 3_000 + b"\n\n",
        b"".join(b"data: " + b"x" * 90 + b"\n" for _ in range(30)) + b"\n",
        b"data: a\ndata: " + b"x" * 3_000 + b"\n\n",
        b"data: " + b"x" * 3_000 + b"\ndata: a\n\n",
        b"nonsense: " + b"x" * 3_000 + b"\n\n",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_an_event_beyond_the_limit_is_passed_over_and_the_next_one_is_read(
    event: bytes, size: int
) -> None:
    """Bounded memory: it is counted, not kept, and the stream goes on."""
    events = Events(most=1_000)
    stream = event + b"data: b\n\n"
    found = [
        one.data
        for at in range(0, len(stream), size)
        for one in events.feed(stream[at : at + size])
    ]
    assert found == [b"b"]
    assert events.passed_over == (0 if size > 3_000 and event[:3] == b"non" else 1)


def test_a_comment_beyond_the_limit_passes_over_nothing() -> None:
    """A long comment inside an event is none of it."""
    events = Events(most=100)
    found = [
        one.data
        for part in (b"data: a\n: ", b"x" * 80, b"x" * 80, b"\n\n")
        for one in events.feed(part)
    ]
    assert found == [b"a"]
    assert events.passed_over == 0


def test_bytes_of_a_passed_over_line_are_not_kept() -> None:
    """A line that never ends does not fill the memory."""
    events = Events(most=1_000)
    events.feed(b"data: ")
    for _ in range(100):
        events.feed(b"x" * 500)
    assert sum(map(len, events._line)) <= 1_500


@pytest.mark.parametrize(
    ("stream", "boundary"),
    [
        (b"", True),
        (b"data: a\n\n", True),
        (b": ping\n", True),
        (b": ping\n\n", True),
        (b"data: a\n\n: pi", False),
        (b"data: a", False),
        (b"data: a\n", False),
        (b"id: 1\n", False),
        (b"data: a\n: ping\n", False),
        (b"data: a\r\n\r", False),
        (b"data: a\r\n\r\n", True),
        (b"data: a\r\r", True),
        (b"data: a\r", False),
    ],
)
@pytest.mark.case("C38")
def test_a_comment_may_go_only_between_events(stream: bytes, boundary: bool) -> None:
    """Never inside an event, a comment or a CRLF; after a field line an old SDK would trip."""
    for size in (1, 100):
        events = Events()
        for at in range(0, len(stream), size):
            events.feed(stream[at : at + size])
        assert events.at_boundary is boundary


def test_offsets_cut_the_event_and_nothing_else() -> None:
    """An event's own bytes, from its first field to the line end that closes it."""
    stream = b": c\n\ndata: a\n\n: d\nid: 1\ndata: b\n\nrest"
    events = Events()
    found = [one for at in range(len(stream)) for one in events.feed(stream[at : at + 1])]
    assert [stream[one.start : one.end] for one in found] == [b"data: a\n\n", b"id: 1\ndata: b\n\n"]
    assert stream[events.open_at :] == b"rest"
    assert found[0] == Event(b"a", b"", 5, 14)
