"""Streams cut anywhere: the pieces tell what the whole tells, and nothing is lost or made up."""

from __future__ import annotations

import json
import re
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rigctl.core.ask import Endpoint
from rigctl.core.sse import Events
from rigctl.parse.answers import AnswerReader

BOM = b"\xef\xbb\xbf"
LINE_ENDS = [b"\n", b"\r\n", b"\r"]
TOKENS = [
    *LINE_ENDS,
    *(b"data: ", b"data:", b"data", b"event: error", b"event:", b"id: 1", b": ping", b":"),
    *(b"retry: 3", b"\xef\xbb\xbf", b"\xff", "🌍".encode(), b" ", b"x", b"{}", b"[DONE]"),
    b'{"choices":[{"index":0,"delta":{"content":"ab"}}]}',
    b'{"choices":[{"index":1,"delta":{"reasoning":"c"},"finish_reason":"stop"}]}',
    b'{"choices":[],"usage":{"prompt_tokens":1}}',
    b'{"error":{"message":"no"}}',
]

FRAMES = st.tuples(
    st.sampled_from([b"", b": ping\n", b":\n\n", b"event: error\n", b"id: 1\r\n"]),
    st.sampled_from([b"data: ", b"data:"]),
    st.sampled_from(TOKENS[-7:]),
    st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"]),
).map(b"".join)
STREAMS = st.lists(st.one_of(FRAMES, st.sampled_from(TOKENS)), max_size=20).map(b"".join)


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    """The stream cut at these places."""
    at = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in pairwise(at)]


def by_the_book(stream: bytes) -> list[tuple[bytes, bytes]]:
    """The standard's own algorithm, on the whole: lines first, then fields; after the mark."""
    found: list[tuple[bytes, bytes]] = []
    data: list[bytes] = []
    name = b""
    lines = re.split(rb"\r\n|\n|\r", stream)
    for line in lines[:-1]:
        if not line:
            if data:
                found.append((name, b"\n".join(data)))
            data, name = [], b""
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return found


@settings(derandomize=True, deadline=None, max_examples=400)
@given(STREAMS, st.lists(st.integers(0, 400), max_size=30))
@example(b"data: a\r\n\r\n", [8, 9, 10])
@example(b"\xef\xbb\xbfdata: a\n\n", [1, 2])
@example(b"data: a\r\r\ndata: b\n\n", [8, 9])
@example(b"\r\ndata\n\n", [1])
@example(b"data: a\n\r\n\n", [9])
def test_pieces_tell_what_the_standard_tells(stream: bytes, cuts: list[int]) -> None:
    """The incremental scanner and the standard's algorithm agree on every stream."""
    events = Events()
    found = [event for piece in pieces(stream, cuts) for event in events.feed(piece)]
    assert [(event.name, event.data) for event in found] == by_the_book(stream.removeprefix(BOM))
    ends = [0]
    for event in found:
        assert ends[-1] <= event.start < event.end <= len(stream)
        own = stream[event.start : event.end]
        own = own.removeprefix(BOM) if event.start == 0 else own
        assert by_the_book(own + b"\n") == [(event.name, event.data)]
        ends.append(event.end)
    assert ends[-1] <= events.open_at <= len(stream)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(STREAMS, st.lists(st.integers(0, 400), max_size=30))
@example(b'data: {"choices":[],"usage":{"prompt_tokens":1}}\r\n\r\ndata: x\n\n', [51, 52, 53])
@example(b': c\ndata: {"choices":[],"usage":{"prompt_tokens":1}}\n\n: d\n', [3, 4, 5])
def test_a_filter_takes_out_whole_usage_events_and_nothing_else(
    stream: bytes, cuts: list[int]
) -> None:
    """However it is cut: the same bytes are left, in order, as when it comes whole."""
    whole = AnswerReader(Endpoint.CHAT, True, swallow=True)
    expected = whole.filter(stream) + whole.finish()
    reader = AnswerReader(Endpoint.CHAT, True, swallow=True)
    out = b"".join(map(reader.filter, pieces(stream, cuts))) + reader.finish()
    assert out == expected
    usage = b'{"choices":[],"usage":{"prompt_tokens":1}}'
    events = by_the_book(stream.removeprefix(BOM))
    # An event that is named an error is one, whatever it says.
    ours = [data == usage and name != b"error" for name, data in events]
    left = by_the_book(out if ours[:1] == [True] else out.removeprefix(BOM))
    assert left == [event for event, swallowed in zip(events, ours, strict=True) if not swallowed]


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    STREAMS,
    st.lists(st.integers(0, 400), max_size=30),
    st.sampled_from([Endpoint.CHAT, Endpoint.MESSAGES, Endpoint.RESPONSES, Endpoint.COMPLETIONS]),
)
def test_the_state_does_not_depend_on_the_cuts(
    stream: bytes, cuts: list[int], endpoint: Endpoint
) -> None:
    """Text, ends, errors and counts are the stream's, not the network's."""

    def state(parts: list[bytes]) -> object:
        reader = AnswerReader(endpoint, True)
        for part in parts:
            reader.feed(part)
        reader.finish()
        said = {
            index: (str(one.thinking), str(one.answer), one.finish, one.tags)
            for index, one in reader.choices.items()
        }
        return said, reader.ended, reader.first_error, reader.usage, reader.progress, reader.done

    assert state(pieces(stream, cuts)) == state([stream])


@settings(derandomize=True, deadline=None, max_examples=300)
@given(STREAMS, st.lists(st.integers(0, 400), max_size=30))
@example(b"data: a\r\n\r\ndata: b\r\n\r\n", [9, 10, 19, 20])
@example(b"data: a\r\rdata: b\r\r", [9, 18])
def test_a_comment_at_a_boundary_changes_no_event(stream: bytes, cuts: list[int]) -> None:
    """Put in wherever the reader says it may be, the client sees the same events."""
    for swallow in (False, True):
        reader = AnswerReader(Endpoint.CHAT, True, swallow=swallow)
        out = b""
        plain = b""
        for piece in pieces(stream, cuts):
            part = reader.filter(piece)
            out += part
            plain += part
            if reader.at_boundary and out:
                out += b": rigctl\n"
        tail = reader.finish()
        assert by_the_book(out + tail) == by_the_book(plain + tail)


INNER = [
    *("index", "delta", "content", "text", "reasoning", "tool_calls"),
    *("function", "name", "arguments", "id", "item", "finish_reason"),
    *("type", "usage", "message", "error", "prompt_tokens", "response"),
    *("output", "content_block", "stop_reason", "choices"),
]
OUTER = [
    *("choices", "usage", "error", "delta", "index", "content_block"),
    *("message", "response", "item", "output_index", "object", "output"),
    *("content", "code"),
]
KINDS = [
    *("content_block_delta", "content_block_start", "content_block_stop"),
    *("message_start", "message_delta", "message_stop"),
    *("error", "response.completed", "response.failed"),
    *("response.output_item.added", "response.output_item.done", "response.output_text.delta"),
]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.sampled_from(list(Endpoint)),
    st.dictionaries(st.sampled_from(OUTER), JSON, max_size=6),
    st.sampled_from(KINDS),
    st.booleans(),
)
def test_no_frame_is_strange_enough_to_raise(
    endpoint: Endpoint, row: dict[str, object], kind: str, stream: bool
) -> None:
    """Any JSON in any field, on every endpoint, as an event and as a body."""
    body = json.dumps({**row, "type": kind}).encode()
    reader = AnswerReader(endpoint, stream)
    reader.feed(b"data: " + body + b"\n\n" if stream else body)
    reader.finish()
    assert reader.ended is not None
    for said in reader.choices.values():
        said.visible()
