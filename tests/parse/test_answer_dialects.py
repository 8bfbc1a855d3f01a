"""Anthropic's messages and the responses API: their events, ends, errors and counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rigctl.core.answer import Doing, Ending, Usage
from rigctl.core.ask import Endpoint
from rigctl.parse.answers import AnswerReader


def event(kind: str, **row: Any) -> bytes:
    """One named event."""
    body = json.dumps({"type": kind, **row}).encode()
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), body)


def read(endpoint: Endpoint, *parts: bytes, closed: bool = True) -> AnswerReader:
    """A reader that has been given these parts, one byte at a time."""
    reader = AnswerReader(endpoint, True, swallow=True)
    stream = b"".join(parts)
    out = b"".join(reader.filter(stream[at : at + 1]) for at in range(len(stream)))
    if closed:
        out += reader.finish()
        assert out == stream
    return reader


def begun(index: int, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def more(index: int, **delta: Any) -> bytes:
    return event("content_block_delta", index=index, delta=delta)


START = event(
    "message_start",
    message={
        "id": "msg_1",
        "content": [],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 0},
    },
)
THINKING = begun(0, type="thinking", thinking="") + more(0, type="thinking_delta", thinking="hm")
TEXT = begun(1, type="text", text="") + more(1, type="text_delta", text="Yes")
TOOL = (
    begun(2, type="tool_use", id="toolu_1", name="read", input={})
    + more(2, type="input_json_delta", partial_json='{"a"')
    + more(2, type="input_json_delta", partial_json=":1}")
)
STOPPED = event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 7})
END = event("message_stop")


def closing(index: int) -> bytes:
    return event("content_block_stop", index=index)


def test_a_message_of_anthropic() -> None:
    """Thinking, text and call each in its place; the count joined from both ends."""
    reader = read(
        Endpoint.MESSAGES,
        START,
        event("ping"),
        THINKING,
        closing(0),
        TEXT,
        closing(1),
        TOOL,
        closing(2),
        STOPPED,
        END,
    )
    said = reader.choices[0]
    assert (str(said.thinking), str(said.answer)) == ("hm", "Yes")
    assert [(call.name, str(call.arguments)) for call in said.calls.values()] == [
        ("read", '{"a":1}')
    ]
    assert reader.progress == 5
    assert reader.usage == Usage(prompt=100, cached=90, completion=7)
    assert (reader.ended, said.finish) == (Ending.COMPLETE, "tool_use")


@pytest.mark.case("C33")
@pytest.mark.parametrize(
    ("parts", "ending"),
    [
        ([START, TEXT, closing(1), STOPPED], Ending.TRUNCATED),
        ([START, TEXT], Ending.TRUNCATED),
        ([START, TEXT, closing(1), STOPPED, END], Ending.COMPLETE),
        ([START, TEXT, closing(1), END], Ending.SUSPICIOUS),
        ([], Ending.TRUNCATED),
    ],
)
def test_f_a_message_is_complete_with_its_last_event(parts: list[bytes], ending: Ending) -> None:
    """A silent close before `message_stop` is a cut, whatever was said before."""
    assert read(Endpoint.MESSAGES, *parts).ended is ending


@pytest.mark.parametrize("upto", [1, 2])
def test_a_call_of_anthropic_is_open_until_its_block_stops(upto: int) -> None:
    """Cut before `content_block_stop`, half a call was delivered."""
    reader = read(Endpoint.MESSAGES, *[START, TOOL, closing(2)][: upto + 1], closed=False)
    assert reader.choices[0].open_call is (upto == 1)
    assert reader.doing is Doing.TOOL


@pytest.mark.case("C34")
@pytest.mark.parametrize(("before", "first"), [([], True), ([START], True), ([START, TEXT], False)])
def test_an_error_event_of_anthropic(before: list[bytes], first: bool) -> None:
    """SGLang puts `message_start` before and `message_stop` after it: it failed all the same."""
    error = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    reader = read(Endpoint.MESSAGES, *before, closed=False)
    assert reader.begun is not first
    reader = read(Endpoint.MESSAGES, *before, error, END)
    assert reader.ended is Ending.FAILED
    assert reader.first_error is not None
    assert (reader.first_error.kind, reader.first_error.first) == ("overloaded_error", first)


@pytest.mark.case("C38")
def test_pings_and_empty_blocks_are_no_progress() -> None:
    """Neither is a signature."""
    parts = [
        event("ping"),
        begun(0, type="text", text=""),
        more(0, type="text_delta", text=""),
        more(0, type="signature_delta", signature="x"),
    ]
    assert read(Endpoint.MESSAGES, START, *parts * 9, closed=False).progress == 0


@pytest.mark.case("C46")
def test_no_count_of_anthropic_is_none() -> None:
    """Zero tokens of prompt is what SGLang writes when it does not know."""
    unknown = event("message_start", message={"usage": {"input_tokens": 0, "output_tokens": 0}})
    assert read(Endpoint.MESSAGES, event("ping")).usage is None
    assert read(Endpoint.MESSAGES, unknown).usage == Usage(completion=0)


@pytest.mark.parametrize(
    "row",
    [
        {"type": "content_block_delta", "index": "x", "delta": {"text": "a"}},
        {"type": "content_block_delta", "index": 0, "delta": {"text": "a", "thinking": 3}},
        {"type": "content_block_delta", "delta": {"text": "a"}, "usage": 7},
    ],
)
def test_odd_events_of_anthropic_are_read_as_far_as_they_go(row: dict[str, Any]) -> None:
    """A slip in one field does not hide the text."""
    stream = b"data: " + json.dumps(row).encode() + b"\n\n"
    assert str(read(Endpoint.MESSAGES, stream).choices[0].answer) == "a"


def test_a_whole_message_of_anthropic() -> None:
    """Not streamed: the same things from one object."""
    body = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "Yes"},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 6},
    }
    reader = AnswerReader(Endpoint.MESSAGES, False)
    reader.feed(json.dumps(body).encode())
    reader.finish()
    said = reader.choices[0]
    assert (str(said.thinking), str(said.answer), str(said.calls[2].arguments)) == (
        "hm",
        "Yes",
        '{"a":1}',
    )
    assert (reader.ended, reader.usage) == (Ending.COMPLETE, Usage(prompt=5, completion=6))


CREATED = event("response.created", response={"id": "resp_1", "status": "in_progress"})
DELTA = event("response.output_text.delta", output_index=1, content_index=0, delta="Yes")


def completed(kind: str = "response.completed", **row: Any) -> bytes:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 90},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    return event(kind, response={"id": "resp_1", "usage": usage, **row})


@pytest.mark.case("C33")
@pytest.mark.case("C48")
@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete"])
def test_a_response_ends_with_its_own_last_event(kind: str) -> None:
    """`response.completed` is the end; there is no `[DONE]`. Its id is kept for the next turn."""
    reasoning = event("response.reasoning_text.delta", output_index=0, delta="hm")
    reader = read(Endpoint.RESPONSES, CREATED, reasoning, DELTA, completed(kind))
    said = reader.choices[0]
    assert (str(said.thinking), str(said.answer)) == ("hm", "Yes")
    assert (reader.ended, reader.done) == (Ending.COMPLETE, True)
    assert reader.usage == Usage(prompt=100, cached=90, completion=7, reasoning=4)
    assert reader.answer.response == "resp_1"
    assert read(Endpoint.RESPONSES, CREATED, DELTA).ended is Ending.TRUNCATED


def test_calls_of_a_response() -> None:
    """Announced with their name, delivered in pieces, done with their item."""
    item = {"type": "function_call", "name": "read", "call_id": "c1", "arguments": ""}
    parts = [
        event("response.output_item.added", output_index=1, item=item),
        event("response.function_call_arguments.delta", output_index=1, delta='{"a"'),
        event("response.function_call_arguments.delta", output_index=1, delta=":1}"),
    ]
    reader = read(Endpoint.RESPONSES, CREATED, *parts, closed=False)
    assert reader.choices[0].open_call
    done = event("response.output_item.done", output_index=1, item=item)
    reader = read(Endpoint.RESPONSES, CREATED, *parts, done)
    call = reader.choices[0].calls[1]
    assert (call.name, call.id, str(call.arguments), call.open) == ("read", "c1", '{"a":1}', False)


@pytest.mark.case("C34")
@pytest.mark.parametrize(
    "failure",
    [
        event("response.failed", response={"error": {"code": "server_error", "message": "no"}}),
        event("error", code="server_error", message="no"),
        event("error", error={"code": "server_error", "message": "no"}),
    ],
)
@pytest.mark.parametrize("before", [[CREATED], [CREATED, DELTA]])
def test_a_failed_response(failure: bytes, before: list[bytes]) -> None:
    """`response.created` goes out before the length is looked at: it is no answer yet."""
    assert read(Endpoint.RESPONSES, *before, closed=False).begun is (len(before) > 1)
    reader = read(Endpoint.RESPONSES, *before, failure)
    assert reader.ended is Ending.FAILED
    error = reader.first_error
    assert error is not None
    assert (error.message, error.code, error.first) == ("no", "server_error", len(before) == 1)


def test_a_whole_response() -> None:
    """Not streamed."""
    body = {
        "id": "resp_2",
        "status": "completed",
        "error": None,
        "output": [
            {"type": "reasoning", "summary": [], "content": [{"text": "hm"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "Yes"}]},
            {"type": "function_call", "name": "read", "call_id": "c", "arguments": "{}"},
        ],
        "usage": {"input_tokens": 5, "output_tokens": 6},
    }
    reader = AnswerReader(Endpoint.RESPONSES, False)
    reader.feed(json.dumps(body).encode())
    reader.finish()
    said = reader.choices[0]
    assert (str(said.thinking), str(said.answer), said.calls[2].name) == ("hm", "Yes", "read")
    assert (reader.ended, reader.answer.response) == (Ending.COMPLETE, "resp_2")
