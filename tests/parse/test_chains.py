"""Conversations are known again: by what they have in common, not by how a client spelled it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from rigctl.core.ask import Ask, Endpoint
from rigctl.parse.asks import read_ask

SYSTEM = "You are an agent. " + "Rules follow. " * 1_000
TOOLS = [
    {"name": f"tool_{n}", "description": "d" * 200, "input_schema": {"type": "object"}}
    for n in range(20)
]


def anthropic(messages: list[Any], system: object = SYSTEM, tools: object = TOOLS) -> Ask:
    body = {"model": "m", "system": system, "messages": messages, "tools": tools, "max_tokens": 9}
    return read_ask(Endpoint.MESSAGES, (), json.dumps(body).encode())


def chat(messages: list[Any], tools: object = None) -> Ask:
    body = {"model": "m", "messages": messages, "tools": tools}
    return read_ask(Endpoint.CHAT, (), json.dumps(body).encode())


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def shared(first: Ask, second: Ask) -> int:
    """Links in common, from the beginning."""
    count = 0
    for one, other in zip(first.chain, second.chain, strict=False):
        if one != other:
            break
        count += 1
    return count


BILLING = "x-anthropic-billing-header: cc_version=2.1.177.{}; cc_entrypoint=sdk-cli; cch={};"
ONE, TWO = BILLING.format("01c", "36ee5"), BILLING.format("9ff", "0aaa9")


@pytest.mark.case("C18")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([text(ONE), text(SYSTEM)], [text(TWO), text(SYSTEM)]),
        ([text(ONE), text(SYSTEM)], [text(SYSTEM)]),
        ([text(ONE), text(SYSTEM)], SYSTEM),
        (f"{ONE}\n{SYSTEM}", f"{TWO}\n{SYSTEM}"),
        ([text(f"{ONE}\n{SYSTEM}")], SYSTEM),
        (ONE, ""),
    ],
)
def test_a_changing_billing_line_changes_nothing(first: object, second: object) -> None:
    """As a block of its own, before the rest of a text, or missing altogether."""
    one, two = anthropic([user("a")], first), anthropic([user("a")], second)
    assert one.chain == two.chain
    assert one.opening == two.opening


@pytest.mark.case("C18")
def test_the_billing_line_in_a_chat() -> None:
    """The same through an adapter that speaks chat."""
    asks = [chat([{"role": "system", "content": f"{line}\nS"}, user("a")]) for line in (ONE, TWO)]
    assert asks[0].chain == asks[1].chain


@pytest.mark.case("C18")
def test_a_user_who_quotes_the_line_said_something() -> None:
    """Only the head of the system text is meant: not a user's, not a later line or block."""
    assert anthropic([user(ONE)]).chain != anthropic([user(TWO)]).chain
    assert chat([user(ONE)]).chain != chat([user(TWO)]).chain
    for place in ("S\n{}", "S {}", " {}"):
        asks = [anthropic([user("a")], place.format(line)) for line in (ONE, TWO)]
        assert asks[0].chain != asks[1].chain
    asks = [anthropic([user("a")], [text("S"), text(line)]) for line in (ONE, TWO)]
    assert asks[0].chain != asks[1].chain


@pytest.mark.case("C19")
def test_ten_sessions_of_one_agent_are_ten() -> None:
    """The same 14,000 characters and tools in front; second turns go where the first went."""
    firsts = [[user(f"fix bug {n}")] for n in range(1, 11)]
    asks = [anthropic(messages) for messages in firsts]
    assert len({ask.chain[-1] for ask in asks}) == 10
    assert len({ask.chain[0] for ask in asks}) == 1
    # By the owner's own rule they are one.
    assert len({ask.opening for ask in asks}) == 1
    for number, messages in enumerate(firsts):
        second = anthropic([*messages, assistant("done"), user("thanks")])
        assert [shared(second, ask) for ask in asks] == [
            2 if other == number else 1 for other in range(10)
        ]


@pytest.mark.case("C19")
def test_two_sub_agents_that_part_at_the_third_message() -> None:
    """The same first user message and answer: apart from there on."""
    common = [user("do it"), assistant("what first?")]
    one, two = anthropic([*common, user("a")]), anthropic([*common, user("b")])
    assert shared(one, two) == 3
    again = anthropic([*common, user("b"), assistant("ok"), user("next")])
    assert (shared(again, one), shared(again, two)) == (3, 4)


def test_a_clock_in_the_system_prompt_leaves_the_turns_alone() -> None:
    """`turns` finds the conversation again; it tells where the first answer is."""
    messages = [user("a"), assistant("b"), user("c")]
    one, two = (anthropic(messages, f"It is {hour}:00. {SYSTEM}") for hour in (10, 11))
    assert one.turns == two.turns
    assert not set(one.chain) & set(two.chain)
    assert one.answered_at == 1


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
HISTORY = [
    user("hello"),
    assistant(None, tool_calls=[CALL], reasoning_content="I should look"),
    {"role": "tool", "tool_call_id": "c1", "content": "result"},
    assistant("done"),
    user("more"),
]


def respelled(change: str) -> list[dict[str, Any]]:
    messages = copy.deepcopy(HISTORY)
    if change == "ids":
        messages[1]["tool_calls"][0]["id"] = messages[2]["tool_call_id"] = "c9"
    elif change == "lists":
        for message in messages:
            if isinstance(message["content"], str):
                message["content"] = [text(message["content"])]
    elif change == "cache_control":
        messages[0]["content"] = [text("hello", cache_control={"type": "ephemeral"})]
        messages[4]["cache_control"] = {"type": "ephemeral"}
    elif change == "null":
        messages[1]["content"] = ""
    elif change == "no content":
        del messages[1]["content"]
    elif change == "thinking":
        del messages[1]["reasoning_content"]
    elif change == "order of keys":
        messages = [dict(reversed(message.items())) for message in messages]
    return messages


@pytest.mark.case("C30")
@pytest.mark.parametrize(
    "change",
    ["ids", "lists", "cache_control", "null", "no content", "thinking", "order of keys"],
)
def test_the_same_conversation_in_other_words(change: str) -> None:
    """What clients move about between turns makes no other conversation."""
    assert chat(respelled(change)).chain == chat(HISTORY).chain


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m[0].update(content="hallo"),
        lambda m: m[0].update(role="assistant"),
        lambda m: m[1]["tool_calls"][0]["function"].update(name="g"),
        lambda m: m[1]["tool_calls"][0]["function"].update(arguments='{"a": 2}'),
        lambda m: m[1].pop("tool_calls"),
        lambda m: m[2].update(content="other"),
        lambda m: m[2].update(role="user"),
        lambda m: m.insert(1, user("")),
        lambda m: m.pop(0),
        lambda m: m.reverse(),
    ],
)
def test_another_conversation_is_another(change: Any) -> None:
    """No false merge: role, text, call, arguments and result all count, and their order."""
    messages = copy.deepcopy(HISTORY)
    change(messages)
    assert chat(messages).chain[-1] != chat(HISTORY).chain[-1]


def test_blocks_of_anthropic_in_other_words() -> None:
    """Calls, results, thinking and pictures as blocks; ids and signatures do not count."""

    def turn(identity: str, thinking: bool, result: object) -> Ask:
        blocks: list[dict[str, Any]] = [
            text("I look"),
            {"type": "tool_use", "id": identity, "name": "f", "input": {"b": 1, "a": 2}},
        ]
        if thinking:
            blocks.insert(0, {"type": "thinking", "thinking": "hm", "signature": identity})
        return anthropic(
            [
                user("hello"),
                assistant(blocks),
                user([{"type": "tool_result", "tool_use_id": identity, "content": result}]),
            ]
        )

    first = turn("t1", True, "ok")
    assert turn("t2", False, [text("ok")]).chain == first.chain
    assert turn("t1", True, "no").chain != first.chain


def test_no_two_lists_of_messages_spell_the_same_bytes() -> None:
    """A text that looks like our own separators is only a text."""
    one = chat([user("a"), user("b")])
    for tricky in ("a\0b", "a7:user\0b", "auser\0b"):
        assert chat([user(tricky)]).chain[-1] != one.chain[-1]
    assert chat([user("ab"), user("")]).chain != chat([user("a"), user("b")]).chain


def test_tools_count_in_the_chain_and_their_cache_marks_do_not() -> None:
    """A mark moves to the last tool; the order of a schema's keys is nothing."""
    marked = [*TOOLS[:-1], {**TOOLS[-1], "cache_control": {"type": "ephemeral"}}]
    turned = [dict(reversed(tool.items())) for tool in TOOLS]
    plain = anthropic([user("a")])
    assert anthropic([user("a")], tools=marked).chain == plain.chain
    assert anthropic([user("a")], tools=turned).chain == plain.chain
    assert anthropic([user("a")], tools=TOOLS[1:]).chain != plain.chain
    assert anthropic([user("a")], tools=TOOLS[1:]).turns == plain.turns


def test_the_size_is_no_less_than_what_a_template_writes() -> None:
    """Tools are written as JSON with blanks, thinking may be kept: the proof of `fits` holds."""
    ask = chat(HISTORY, tools=[{"type": "function", "function": tool} for tool in TOOLS])
    rendered = sum(
        len(json.dumps({"type": "function", "function": tool}).encode()) for tool in TOOLS
    )
    rendered += len("hello") + len("I should look") + len('f{"a": 1}') + len("resultdonemore")
    assert ask.size.text_bytes >= rendered
    assert ask.size.text_bytes < 2 * rendered


def test_the_opening_is_the_first_4000_characters() -> None:
    """The owner's rule: system and messages in their order, nothing after."""
    base = [{"role": "system", "content": "s" * 3_000}, user("u" * 999)]
    assert chat([*base, user("a")]).opening == chat([*base, user("ab")]).opening
    assert chat([*base, user("a")]).opening != chat([*base, user("b")]).opening
    assert chat([]).opening == b""
