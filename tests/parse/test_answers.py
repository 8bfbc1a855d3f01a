"""The reader of OpenAI streams: what was said, how it ended, what it cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support_frames import DONE, USAGE, delta, frame, read

from rigctl.core.answer import Doing, Ending, Usage
from rigctl.core.ask import Endpoint
from rigctl.core.said import all_thought
from rigctl.parse.answers import AnswerReader

ENDS = {
    "a: finish, then close without [DONE]": (
        [delta(content="x"), delta(finish="stop")],
        Ending.COMPLETE,
        False,
    ),
    "b: text and finish in one frame": (
        [delta(content="x", finish="stop"), DONE],
        Ending.COMPLETE,
        True,
    ),
    "c: clean close without finish": ([delta(content="x")], Ending.TRUNCATED, False),
    "nothing at all": ([], Ending.TRUNCATED, False),
    "g: [DONE] without finish": ([delta(content="x"), DONE], Ending.SUSPICIOUS, True),
    "[DONE] alone": ([DONE], Ending.SUSPICIOUS, True),
    "finish with usage after it": (
        [delta(content="x"), delta(finish="length"), USAGE, DONE],
        Ending.COMPLETE,
        True,
    ),
    "the engine aborted it": (
        [delta(content="x"), delta(finish="abort"), DONE],
        Ending.FAILED,
        True,
    ),
}


@pytest.mark.case("C33")
@pytest.mark.parametrize("name", ENDS)
def test_complete_and_cut_off_are_told_apart(name: str) -> None:
    """Neither is a finished answer resumed nor a cut one counted as success."""
    parts, ending, done = ENDS[name]
    reader = read(*parts)
    assert reader.ended is ending
    assert reader.done is done


@pytest.mark.case("C33")
def test_e_a_client_that_closes_after_the_finish_reason_has_its_answer() -> None:
    """Complete while still open: nothing more is to come but `[DONE]`."""
    assert read(delta(content="x"), closed=False).ended is Ending.RUNNING
    assert read(delta(content="x", finish="stop"), closed=False).ended is Ending.COMPLETE


ERROR = {"message": "TimeoutError", "type": "GatewayTimeout", "code": 504}
ERRORS = {
    "in `error`": frame(error=ERROR),
    "named": b"event: error\n" + frame(error=ERROR),
    "bare": frame(object="error", **ERROR),
    "named and bare": b"event: error\n" + frame(**ERROR),
    "beside empty choices": frame(choices=[], error=ERROR),
    "beside a choice": frame(choices=[{"index": 0, "delta": {}}], error=ERROR),
}


@pytest.mark.case("C34")
@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("before", [0, 300])
def test_an_error_inside_a_stream_is_a_failure(name: str, before: int) -> None:
    """First of all: another engine may try. After text: the client has half an answer."""
    reader = read(
        delta(role="assistant", content=""), *[delta(content="x")] * before, ERRORS[name], DONE
    )
    assert reader.ended is Ending.FAILED
    error = reader.first_error
    assert error is not None
    assert (error.message, error.kind, error.code) == ("TimeoutError", "GatewayTimeout", "504")
    assert error.first is (before == 0)
    assert reader.begun


@pytest.mark.case("C34")
def test_an_error_as_plain_text_is_one_and_only_the_first_is_kept() -> None:
    """Some servers write `error` as a text; what follows the first is its echo."""
    reader = read(frame(error="KV cache pool is full"), frame(error={"message": "second"}))
    assert reader.first_error is not None
    assert reader.first_error.message == "KV cache pool is full"


@pytest.mark.case("C34")
def test_a_null_error_beside_text_is_none() -> None:
    """Servers that always write the field write null."""
    reader = read(frame(error=None, choices=[{"index": 0, "delta": {"content": "a"}}]))
    assert reader.first_error is None
    assert reader.progress == 1


FIELDS = {
    "reasoning": ([delta(reasoning="a")], "reasoning"),
    "reasoning_content": ([delta(reasoning_content="a")], "reasoning_content"),
    "both": ([delta(reasoning="a", reasoning_content="a")], "reasoning_content"),
    "null beside": ([delta(reasoning_content=None, reasoning="a")], "reasoning"),
}


@pytest.mark.case("C45")
@pytest.mark.parametrize("name", FIELDS)
def test_thinking_counts_once_whatever_its_field(name: str) -> None:
    """One event of thinking is one step forward; its field's name is kept for the other half."""
    parts, field = FIELDS[name]
    reader = read(*parts, delta(reasoning_content=None, content=""), closed=False)
    said = reader.choices[0]
    assert (reader.progress, reader.doing) == (1, Doing.THINKING)
    assert (str(said.thinking), said.thinking_field) == ("a", field)
    assert not said.answer


@pytest.mark.case("C45")
def test_inline_tags_are_recognised_and_never_rewritten() -> None:
    """Without a parser the thinking stands in the answer; a tag may be cut over events."""
    reader = AnswerReader(Endpoint.CHAT, True, swallow=True)
    parts = [delta(content=part) for part in ("<thi", "nk>hm", " so", "</thi", "nk>Yes")]
    doing = []
    forwarded = b""
    for part in parts:
        forwarded += reader.filter(part)
        doing.append(reader.doing)
    assert doing[1:] == [Doing.THINKING] * 3 + [Doing.ANSWERING]
    assert forwarded == b"".join(parts)


@pytest.mark.case("C38")
@pytest.mark.parametrize(
    "quiet",
    [
        b":\n\n",
        b": ping\n\n",
        delta(role="assistant", content=""),
        delta(content=None),
        delta(content="", reasoning_content=""),
        delta(),
        frame(choices=[]),
        USAGE,
        b"data: {}\n\n",
        b"data: nonsense\n\n",
        b"event: ping\ndata: {}\n\n",
        delta(tool_calls=[]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": ""}}]),
    ],
)
def test_what_says_nothing_is_no_progress(quiet: bytes) -> None:
    """A dead engine that still sends comments or empty deltas is noticed."""
    reader = read(delta(content="a"), *[quiet] * 40, closed=False)
    assert reader.progress == 1


@pytest.mark.case("C46")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, Usage()),
        ({"prompt_tokens": 7, "prompt_tokens_details": None}, Usage(prompt=7)),
        ({"prompt_tokens": 7, "prompt_tokens_details": {}}, Usage(prompt=7)),
        (
            {"prompt_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 3}},
            Usage(prompt=7, reasoning=3),
        ),
        (
            {"prompt_tokens": 7, "reasoning_tokens": 4, "completion_tokens_details": None},
            Usage(prompt=7, reasoning=4),
        ),
        ({"prompt_tokens": "7", "completion_tokens": 2}, Usage(completion=2)),
        ({"prompt_tokens": True, "completion_tokens": 2.5}, Usage()),
    ],
)
def test_a_count_that_was_not_told_is_not_zero(usage: object, expected: Usage | None) -> None:
    """Absent, null and of an odd type are all unknown."""
    assert read(frame(choices=[], usage=usage)).usage == expected


@pytest.mark.case("C26")
def test_choices_are_kept_apart() -> None:
    """Two answers in turns are two answers (n: 2)."""
    reader = read(
        frame(choices=[]),
        delta(0, content="AAA"),
        delta(1, content="BBB"),
        delta(0, content=" aaa"),
        delta(1, content=" bbb"),
        delta(0, "stop"),
        delta(1, "stop"),
        choices=2,
    )
    assert {index: str(said.answer) for index, said in reader.choices.items()} == {
        0: "AAA aaa",
        1: "BBB bbb",
    }
    assert reader.ended is Ending.COMPLETE


@pytest.mark.case("C26")
@pytest.mark.parametrize("index", [None, "0", 2.5, -1, 10**40, [], True, {}])
def test_no_index_is_strange_enough_to_crash(index: object) -> None:
    """It is text all the same: it counts as progress."""
    row = {"choices": [{"index": index, "delta": {"content": "a"}, "finish_reason": "stop"}]}
    reader = read(frame(**row))
    assert reader.progress == 1
    assert reader.ended is Ending.COMPLETE


ODD = [
    {"choices": [{"delta": {"content": [{"type": "text", "text": "a"}]}}]},
    {"choices": [{"delta": {"content": "a", "tool_calls": "x"}}]},
    {"choices": [{"delta": {"content": "a", "tool_calls": [None, {"function": 3}]}}]},
    {"choices": ["x", {"delta": {"content": "a"}}]},
    {"choices": [{"delta": {"content": "a"}}], "usage": "none"},
    {"choices": [{"delta": {"content": "a"}, "finish_reason": 3}]},
]


@pytest.mark.parametrize("row", ODD)
def test_odd_frames_are_read_as_far_as_they_go(row: dict[str, Any]) -> None:
    """A server's slip in one field does not hide the text beside it."""
    reader = read(frame(**row), closed=False)
    assert reader.progress == 1
    assert str(reader.choices[0].answer) == "a"


@pytest.mark.case("C37")
def test_an_event_of_two_megabytes_is_progress() -> None:
    """A healthy stream with giant lines is not taken for a silent one."""
    assert read(delta(content="x" * 2_000_000)).progress == 1


def test_tool_calls_are_joined_by_their_index() -> None:
    """Name once, arguments in pieces; open until the finish reason."""
    first = {"index": 0, "id": "c1", "function": {"name": "write_file", "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": '{"path":"/a'}}
    reader = read(delta(tool_calls=[first]), delta(tool_calls=[rest]))
    call = reader.choices[0].calls[0]
    assert (call.name, call.id, str(call.arguments), call.open) == (
        "write_file",
        "c1",
        '{"path":"/a',
        True,
    )
    assert reader.doing is Doing.TOOL
    assert reader.ended is Ending.TRUNCATED


def test_text_completions_are_read_too() -> None:
    """Their text lies in the choice itself."""
    reader = AnswerReader(Endpoint.COMPLETIONS, True)
    reader.feed(frame(choices=[{"index": 0, "text": "ab", "finish_reason": None}]))
    reader.feed(frame(choices=[{"index": 0, "text": "c", "finish_reason": "length"}]) + DONE)
    assert str(reader.choices[0].answer) == "abc"
    assert reader.ended is Ending.COMPLETE


@pytest.mark.parametrize("size", [None, 1, 1_000])
def test_a_whole_body_is_read_at_its_end(size: int | None) -> None:
    """Not streamed: choices, calls and usage come from the one object."""
    message = {"role": "assistant", "content": None, "reasoning_content": "hm"}
    body = json.dumps(
        {
            "choices": [{"index": 0, "message": message, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 9},
        }
    ).encode()
    reader = AnswerReader(Endpoint.CHAT, False)
    step = size or len(body)
    for at in range(0, len(body), step):
        reader.feed(body[at : at + step])
    assert reader.ended is Ending.RUNNING
    assert reader.finish() == b""
    assert reader.ended is Ending.COMPLETE
    assert reader.usage == Usage(prompt=5, completion=9)
    assert all_thought(reader.choices[0])


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"choices":', b"\xff"])
def test_a_body_that_is_none_is_truncated(body: bytes) -> None:
    """Half an object is half an answer."""
    reader = AnswerReader(Endpoint.CHAT, False)
    reader.feed(body)
    reader.finish()
    assert reader.ended is Ending.TRUNCATED
    assert reader.usage is None


@pytest.mark.case("C34")
def test_an_error_as_the_whole_body_of_a_200() -> None:
    """It failed, whatever the status said."""
    reader = AnswerReader(Endpoint.CHAT, False)
    reader.feed(json.dumps({"error": ERROR}).encode())
    reader.finish()
    assert reader.ended is Ending.FAILED
