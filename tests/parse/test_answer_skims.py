"""Chunks passed on in their frames and read later: the same answer as each event by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_frames import DONE, USAGE, delta, frame

from rigctl.core.ask import Endpoint
from rigctl.parse.answers import MOST_LATER, AnswerReader

_TEXT = st.text(max_size=12)
_ROWS = st.one_of(
    st.builds(lambda text: delta(content=text), _TEXT),
    st.builds(lambda text: delta(reasoning_content=text), _TEXT),
    st.builds(lambda text: delta(reasoning=text), _TEXT),
    st.builds(lambda a, b: delta(content=a, reasoning_content=b), _TEXT, _TEXT),
    st.builds(
        lambda index, text: frame(choices=[{"index": index, "delta": {"content": text}}]),
        st.one_of(st.integers(0, 2), st.none(), st.just("odd")),
        _TEXT,
    ),
    st.builds(
        lambda text: delta(tool_calls=[{"index": 0, "function": {"arguments": text}}]), _TEXT
    ),
    st.just(delta(content="x", finish="stop")),
    st.just(delta(content="</think>")),
    st.just(frame(choices=[], usage=None)),
    st.just(frame(error={"message": "no", "code": 500})),
    st.just(USAGE),
    st.just(DONE),
    st.just(b": ping\n\n"),
    st.just(b": ping\n"),
    st.just(b'data: {"choices":[]}\n{"choices":[]}\n\n'),
    st.just(b'data: {"choices":\ndata: []}\n\n'),
    st.just(b"event: error\ndata: no\n\n"),
    st.just(b"data: 5\n\n"),
    st.just(b"data: {}\r\n\r\n"),
    st.just(b"\n"),
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def take(reader: AnswerReader, parts: Sequence[bytes], skims: Sequence[bool]) -> bytes:
    """Each part in its frame where it is skimmed, as bytes of the body else; what goes out."""
    out = b""
    for part, skim in zip(parts, skims, strict=True):
        out += part if skim and reader.skim(chunk(part)) else reader.filter(part)
    return out + reader.finish()


def state(reader: AnswerReader) -> dict[str, Any]:
    """All that anybody asks of an answer."""
    return {
        "events": reader.events,
        "progress": reader.progress,
        "ended": reader.ended,
        "done": reader.done,
        "doing": reader.doing,
        "error": reader.first_error,
        "usage": reader.usage,
        "choices": {
            index: (str(said.thinking), str(said.answer), said.finish, said.tags, repr(said.calls))
            for index, said in reader.choices.items()
            if not said.calls
        },
        "calls": {
            index: [(call.name, str(call.arguments), call.open) for call in said.calls.values()]
            for index, said in reader.choices.items()
        },
    }


@given(st.lists(st.tuples(_ROWS, st.booleans()), max_size=30), st.booleans())
def test_skimmed_and_read_one_by_one_are_one_answer(
    parts: list[tuple[bytes, bool]], swallow: bool
) -> None:
    """Whatever came in frames, and whatever was asked meanwhile."""
    rows, skims = [row for row, _ in parts], [skim for _, skim in parts]
    skimmed = AnswerReader(Endpoint.CHAT, True, swallow=swallow)
    plain = AnswerReader(Endpoint.CHAT, True, swallow=swallow)
    out = take(skimmed, rows, skims)
    one_by_one = b""
    for row in rows:
        one_by_one += plain.filter(row)
        plain.catch_up()
    assert out == one_by_one + plain.finish()
    assert state(skimmed) == state(plain)


@pytest.mark.parametrize(
    "odd",
    [
        chunk(delta(content="a"))[:-1],
        chunk(delta(content="a")) + b"1",
        b"0" + chunk(delta(content="a")),
        chunk(delta(content="a")).replace(b"\r\n", b";x=y\r\n", 1),
        b"+" + chunk(delta(content="a")),
        chunk(delta(content="a")[:-1]),
        chunk(delta(content="a") + b"data: "),
        chunk(b"id: 1\n\n"),
        chunk(b"data: {}\r\n\r\n"),
        chunk(b": ping\n\n"),
        b"0\r\n\r\n",
        b"",
    ],
)
def test_what_is_no_whole_chunk_of_whole_events_is_left(odd: bytes) -> None:
    """Nothing of it was taken: the parser has it to itself."""
    reader = AnswerReader(Endpoint.CHAT, True)
    reader.filter(delta(content="a"))
    assert not reader.skim(odd)
    assert reader.skim(chunk(delta(content="b")))
    assert str(reader.choices[0].answer) == "ab"


def test_a_chunk_larger_than_its_read_is_left() -> None:
    """Its first bytes look like a whole one: its own length says that they are not."""
    event = delta(content="a")
    cut = b"%x\r\n%b\r\n" % (len(event) + 2 + len(event), event)
    reader = AnswerReader(Endpoint.CHAT, True)
    reader.filter(event)
    assert not reader.skim(cut)


def test_what_is_put_off_is_bounded() -> None:
    """Past `MOST_LATER` it is read, whoever forgot to ask for it."""
    reader = AnswerReader(Endpoint.CHAT, True)
    part = delta(content="x" * 1_000)
    reader.filter(part)
    for _ in range(200):
        assert reader.skim(chunk(part))
        assert reader.behind <= MOST_LATER
    assert reader.progress == 201


@given(st.lists(_ROWS, min_size=1, max_size=4), st.lists(_ROWS, max_size=4), st.booleans())
def test_a_beginning_passed_on_unread_is_the_same_answer(
    first: list[bytes], rest: list[bytes], swallow: bool
) -> None:
    """And whatever is an error, of which another engine could still take it, is not passed on."""
    data = b"".join(first)
    taken, plain = (AnswerReader(Endpoint.CHAT, True, swallow=swallow) for _ in range(2))
    begun = taken.begins(data)
    out = data if begun else taken.filter(data)
    one_by_one = plain.filter(data)
    plain.catch_up()
    if begun:
        assert plain.first_error is None
        assert one_by_one == data
    assert (out, state(taken)) == (one_by_one, state(plain))
    assert not taken.begins(data), "a stream begins once"
    out += take(taken, rest, [True] * len(rest))
    for row in rest:
        one_by_one += plain.filter(row)
    assert out == one_by_one + plain.finish()
    assert state(taken) == state(plain)


@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize(
    ("data", "passes"),
    [
        (delta(content="a"), True),
        (delta(role="assistant") + delta(content="a"), True),
        (delta(content="a")[:-1], False),
        (delta(content="a") + b"data: ", False),
        (frame(error={"message": "no", "code": 500}), False),
        (delta(role="assistant") + frame(error={"message": "no", "code": 500}), False),
        (frame(object="error", message="no"), False),
        (delta(role="assistant") + b"event: error\ndata: no\n\n", False),
        (b"data: no\n\n", False),
        (b"data: [DONE]\n\n", False),
        (b": ping\n\n", False),
        (b"", False),
    ],
)
def test_only_whole_events_without_an_error_begin_unread(
    data: bytes, passes: bool, swallow: bool
) -> None:
    """Anything else is looked at first."""
    assert AnswerReader(Endpoint.CHAT, True, swallow=swallow).begins(data) is passes


def test_the_usage_that_we_asked_for_does_not_begin_unread() -> None:
    """It is ours to take out."""
    data = delta(content="a") + USAGE
    assert AnswerReader(Endpoint.CHAT, True).begins(data)
    assert not AnswerReader(Endpoint.CHAT, True, swallow=True).begins(data)
