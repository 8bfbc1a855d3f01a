"""A turn read from where the last one ended is read as the whole of it would be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.core.ask import Ask, Endpoint
from rigctl.parse.asks import read_ask
from rigctl.parse.beginnings import LONGEST, Beginnings
from rigctl.parse.conversation import remember
from rigctl.parse.extras import STRIPPED
from rigctl.parse.known import Known
from rigctl.parse.opened import Opened, open_body
from rigctl.parse.rewrite import Wishes, rewrite

WISHES = Wishes(rid="r" * 24, session_id="s1", budgets=True, think_cap=500)


class Memory:
    """What a proxy has read so far, its blocks as small as its bodies here."""

    def __init__(self, block: int = 64) -> None:
        self.known = Known(seed=5)
        self.beginnings = Beginnings(seed=5, block=block)

    def read(self, endpoint: Endpoint, body: bytes) -> tuple[Opened, Ask]:
        opened = open_body(body, self.beginnings)
        ask = read_ask(endpoint, (), opened, self.known, opening=False)
        remember(opened, self.known, self.beginnings)
        return opened, ask


def same(memory: Memory, endpoint: Endpoint, body: bytes) -> Opened:
    """Read with and without what is remembered: one ask, and one body for the engine."""
    opened, ask = memory.read(endpoint, body)
    assert ask == read_ask(endpoint, (), body, opening=False)
    assert b"".join(rewrite(endpoint, opened, WISHES).parts) == b"".join(
        rewrite(endpoint, body, WISHES).parts
    )
    return opened


def turn(messages: list[Any], **fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields, "messages": messages, "stream": True}).encode()


def said(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "content": words}


def test_only_what_is_new_is_decoded() -> None:
    """The second turn, and a branch off the middle: none of what they share is looked at."""
    memory = Memory()
    messages = [said("user" if n % 2 else "assistant", f"{n} " + "x" * 200) for n in range(40)]
    assert same(memory, Endpoint.CHAT, turn(messages)).beginning is None
    longer = [*messages, said("user", "and now")]
    opened = same(memory, Endpoint.CHAT, turn(longer))
    assert opened.beginning is not None
    assert len(opened.body.messages) <= 2
    branch = [*messages[:20], said("user", "another way")]
    opened = same(memory, Endpoint.CHAT, turn(branch))
    assert opened.beginning is not None
    assert len(opened.body.messages) <= 2


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.MESSAGES])
@pytest.mark.parametrize("indent", [None, 1])
def test_other_words_around_the_same_messages(endpoint: Endpoint, indent: int | None) -> None:
    """System text and tools before or after the list, another one than before, and blanks."""
    memory = Memory()
    messages = [said("user" if n % 2 else "assistant", f"{n} é " + "x" * 90) for n in range(12)]
    for fields in (
        {"messages": messages},
        {"messages": [*messages, said("user", "on")]},
        {"messages": messages, "system": "S", "tools": [{"name": "f"}]},
        {"messages": messages, "system": "T", "tools": [{"name": "g"}], "rid": "mine"},
        {"system": "S", "messages": messages},
        {"system": "S", "messages": [*messages, said("user", "on")], "tools": []},
        {"messages": [said("system", "lead"), *messages]},
        {"messages": [said("system", "lead"), *messages], "tools": [{"name": "f"}]},
        {"messages": []},
    ):
        for _ in range(2):
            same(memory, endpoint, json.dumps(fields, indent=indent, ensure_ascii=False).encode())


@pytest.mark.parametrize(
    "after",
    [
        b"",
        b"]",
        b"],",
        b',{"role":"user","content":"\xff"}]}',
        b',{"role":"user","content":NaN}]}',
        b',{"role":"user"]}',
        b'],"messages":"none"}',
        b'],"messages":[{"role":"user","content":"instead"}]}',
        b'],"tools":["\xff"]}',
        b",]}",
        b"] }  ",
    ],
)
def test_whatever_follows_a_known_beginning_is_judged_as_in_the_whole(after: bytes) -> None:
    """What is no JSON, no text or no list is told as if nothing had been known."""
    memory = Memory()
    messages = [said("user", f"{n} " + "x" * 100) for n in range(8)]
    body = turn(messages)
    memory.read(Endpoint.CHAT, body)
    cut = body.rindex(b"]")
    odd = body[:cut] + after
    opened = open_body(odd, memory.beginnings)
    whole = open_body(odd)
    assert opened.fault == whole.fault
    assert bool(opened.plain) == bool(whole.plain)


def test_a_list_inside_of_something_else_is_not_the_bodys_own() -> None:
    """The first `"messages": [` may belong to a tool; what is cut out must be ours."""
    memory = Memory()
    messages = [said("user", f"{n} " + "x" * 100) for n in range(8)]
    for last in ("a", "b"):
        body = {"metadata": {"messages": messages}, "messages": [*messages, said("user", last)]}
        same(memory, Endpoint.CHAT, json.dumps(body).encode())
        same(memory, Endpoint.CHAT, json.dumps({"x": '"messages": [', **body}).encode())


def test_what_the_engine_must_not_hear_is_found_behind_a_known_beginning() -> None:
    """A client cannot get past the policy by asking twice."""
    memory = Memory()
    messages = [said("user", f"{n} " + "x" * 100) for n in range(8)]
    memory.read(Endpoint.CHAT, turn(messages))
    for key in sorted(STRIPPED):
        body = json.dumps({"model": "m", "messages": messages, key: "mine"}).encode()
        memory.read(Endpoint.CHAT, body)
        opened = same(memory, Endpoint.CHAT, body)
        assert key in opened.extras


def test_what_is_remembered_is_bounded_and_holds_no_text() -> None:
    """Neither many conversations nor a giant one pile up."""
    memory = Memory(block=1_024)
    for number in range(300):
        memory.read(Endpoint.CHAT, turn([said("user", f"secret {number}" + "x" * 20_000)] * 2))
    assert len(memory.beginnings) <= 2 * (1_024 + 50)
    kept = repr(memory.beginnings._places)
    assert "Beginning(" in kept
    assert "secret" not in kept
    before = len(memory.beginnings)
    memory.read(Endpoint.CHAT, turn([said("user", "x" * LONGEST)]))
    assert len(memory.beginnings) == before


MESSAGES = st.lists(
    st.builds(
        said,
        st.sampled_from(["system", "user", "assistant", "tool"]),
        st.text(max_size=40) | st.just("x" * 70) | st.just('"messages": ['),
    ),
    max_size=8,
)


@seed(20261130)
@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(MESSAGES, st.integers(0, 3), st.booleans(), st.sampled_from([None, "S"])),
        max_size=6,
    )
)
def test_any_turns_in_any_order(turns: list[tuple[list[Any], int, bool, str | None]]) -> None:
    """Each keeps a part of what was said before and goes on from there."""
    memory = Memory()
    so_far: list[Any] = []
    for more, cut, escaped, system in turns:
        so_far = [*so_far[: len(so_far) - cut], *more]
        fields = {"messages": so_far} | ({} if system is None else {"system": system})
        body = json.dumps(fields, ensure_ascii=escaped).encode("utf-8", "replace")
        same(memory, Endpoint.MESSAGES, body)
