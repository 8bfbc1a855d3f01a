"""Messages known again by their bytes: the same chain and sizes as reading each anew."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from rigctl.core.ask import Endpoint
from rigctl.parse.asks import read_ask
from rigctl.parse.chains import Part
from rigctl.parse.known import Known
from rigctl.parse.opened import open_body

_WORDS = st.text(max_size=30)
_CONTENTS = st.one_of(
    _WORDS,
    st.none(),
    st.lists(st.builds(lambda text: {"type": "text", "text": text}, _WORDS), max_size=2),
    st.just([{"type": "image_url", "image_url": {"url": "data:x"}}]),
    st.just([{"type": "tool_use", "name": "f", "input": {"a": [1, 2]}}]),
    st.just(5),
)
_MESSAGES = st.one_of(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["system", "user", "assistant", "tool"]),
        _CONTENTS,
    ),
    st.builds(lambda text: {"type": "reasoning", "summary": text}, _WORDS),
    st.builds(
        lambda text: {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "f", "arguments": text}}],
        },
        _WORDS,
    ),
    st.sampled_from([None, 1, "text", [], {}, {"role": 5}]),
)
_TOOLS = st.sampled_from([None, [], [{"name": "f", "cache_control": 1}], {"a": 1}, "x"])


@given(st.lists(_MESSAGES, max_size=12), _TOOLS, st.sampled_from(["", "s" * 5_000]))
@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.MESSAGES])
def test_a_conversation_read_before_is_read_alike(
    endpoint: Endpoint, messages: list[Any], tools: Any, opening: str
) -> None:
    """With and without what was remembered of its earlier turns."""
    known = Known(seed=7)
    whole: list[Any] = [{"role": "user", "content": opening}, *messages]
    for end in (len(whole) // 2, len(whole), len(whole)):
        body = json.dumps({"messages": whole[:end], "tools": tools}).encode()
        assert read_ask(endpoint, (), body, known) == read_ask(endpoint, (), body)


def test_what_was_read_is_not_read_again() -> None:
    """Of a long conversation only the new messages are decoded; no text of any is kept."""
    known = Known(seed=7)
    secret = "the quick brown fox"
    messages = [{"role": "user", "content": f"{secret} {n} " + "x" * 2_000} for n in range(40)]
    read_ask(Endpoint.CHAT, (), json.dumps({"messages": messages}).encode(), known)
    before = len(known)
    messages.append({"role": "assistant", "content": "done"})
    read_ask(Endpoint.CHAT, (), json.dumps({"messages": messages}).encode(), known)
    assert len(known) == before + 1
    kept = repr(known._parts)
    assert "Part(" in kept
    assert secret not in kept


def test_what_is_remembered_is_bounded() -> None:
    """The oldest go; what is asked for again stays."""
    known, asked = Known(most=10), []

    def reader(raw: Raw) -> Part:
        asked.append(bytes(raw))
        return Part(bytes(raw))

    for number in range(1_000):
        parts = known.read((Raw(b"always"), Raw(b"%d" % number)), reader)
        assert [part.digest for part in parts] == [b"always", b"%d" % number]
        assert len(known) <= 22
    assert asked.count(b"always") == 1
    known.read((Raw(b"5"),), reader)
    assert asked.count(b"5") == 2


@pytest.mark.parametrize(
    "odd",
    [
        b'{"messages":[{"role":"user","content":1e999}]}',
        b'{"messages":[{"role":"user","content":' + b"9" * 400 + b"}]}",
        b'{"messages":[' + b"[" * 900 + b"]" * 900 + b"]}",
        b'{"messages":"one"}',
        b'{"messages":{"0":1}}',
        b'{"messages":[{"role":"user","content":NaN}]}',
        b'{"tools":1e999,"messages":[]}',
    ],
)
def test_odd_values_raise_nothing(odd: bytes) -> None:
    """What is left as it was sent may hold what no decoder of ours takes."""
    opened = open_body(odd)
    assert not opened.fault
    read_ask(Endpoint.CHAT, (), opened, Known())
