"""What routing is told of a request, whichever dialect it came in and however broken it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rigctl.core.answer import MOST_CHOICES
from rigctl.core.ask import Ask, Dialect, Endpoint
from rigctl.parse.asks import Headers, read_ask
from rigctl.parse.opened import MOST_MESSAGES, open_body

CHAT = Endpoint.CHAT


def ask(endpoint: Endpoint = CHAT, headers: Headers = (), **body: Any) -> Ask:
    """The ask of this body."""
    return read_ask(endpoint, headers, json.dumps(body).encode())


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_a_chat_in_full() -> None:
    """Every field that routing looks at."""
    found = ask(
        model="qwen",
        stream=True,
        messages=[{"role": "system", "content": "S"}, user("hello"), user("é")],
        tools=[{"type": "function", "function": {"name": "f"}}],
        max_tokens=100,
        max_completion_tokens=300,
        reasoning_effort="high",
        n=3,
        custom_params={"thinking_budget": 4000},
        response_format={"type": "json_schema", "json_schema": {}},
    )
    assert (found.endpoint, found.dialect, found.model) == (CHAT, Dialect.OPENAI, "qwen")
    assert (found.stream, found.tools, found.constrained, found.choices) == (True, True, True, 3)
    assert (found.output, found.effort, found.thinking) == (300, "high", 4000)
    assert found.size.messages == 3
    assert found.size.text_bytes >= len(b"Shello\xc3\xa9f")
    assert len(found.chain) == 3
    assert len(found.turns) == 2
    assert found.body_bytes > 100


PICTURE = "data:image/png;base64," + "A" * 3_000_000


@pytest.mark.case("C30")
def test_pictures_lists_and_nulls() -> None:
    """Three megabytes of picture are one picture; null is no text; calls and results count."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    found = ask(
        messages=[
            {"role": "system", "content": [text("S")]},
            user([{"type": "image_url", "image_url": {"url": PICTURE}}, text("what is this")]),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [text("ok")]},
        ]
    )
    assert found.size.pictures == 1
    assert found.size.text_bytes < 1_000
    assert found.answered_at == 1
    assert len(found.turns) == 3
    without = ask(messages=[user("x"), {"role": "assistant", "content": None}])
    empty = ask(messages=[user("x"), {"role": "assistant", "content": ""}])
    assert without.turns == empty.turns


@pytest.mark.case("C30")
@pytest.mark.parametrize("changed", ["A" * 3_000_004, "A" * 1_500_000 + "B" * 1_500_000])
def test_another_picture_is_another_message(changed: str) -> None:
    """By what is in it: slices all over a large one, and its length; the whole of a small one."""

    def of(data: str) -> Ask:
        url = {"url": "data:image/png;base64," + data}
        return ask(messages=[user([{"type": "image_url", "image_url": url}])])

    assert of("A" * 3_000_000).turns != of(changed).turns
    assert of("A" * 100).turns != of("A" * 50 + "B" + "A" * 49).turns
    assert of("A" * 3_000_000).turns == of("A" * 3_000_000).turns


@pytest.mark.case("C30")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"hi"',
        b"{}",
        b"\xff\xfe",
        b'{"messages": "hi"}',
        b'{"messages": 3}',
        b'{"messages": [1, null, "x", [], {}]}',
        b'{"messages": [{"role": 3, "content": 123}]}',
        b'{"messages": [{"role": "user", "content": {"a": 1}}]}',
        b'{"messages": [{"role": "user", "content": [[["x"]], 4, {"type": 9}]}]}',
        b'{"messages": [{"role": "assistant", "tool_calls": [1, {"function": 2}]}]}',
        b'{"messages": [{"role": "assistant", "tool_calls": "x", "content": null}]}',
        b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
        b'{"max_tokens": "many", "n": "two", "stream": "yes", "model": 7, "tools": 5}',
        b'{"max_tokens": -5, "n": -1, "max_completion_tokens": 1e400}',
        b'{"max_tokens": 99999999999999999999999999, "thinking": 3, "reasoning": []}',
        b'{"prompt": [[1, 2], "x", null, {}], "input": {"a": 1}}',
        b'{"metadata": "x", "conversation": 3, "tool_choice": 4}',
        b'{"messages": [{"content": "\\ud800"}], "top_p": NaN}',
        b'{"messages": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"messages": [{"role":"user","content":' + b"[" * 900 + b"]" * 900 + b"}]}",
        '{"messages": [{"role": "user", "content": "hi"}]}'.encode("utf-16"),
    ],
)
@pytest.mark.parametrize("endpoint", Endpoint)
def test_nothing_that_a_client_sends_raises(endpoint: Endpoint, body: bytes) -> None:
    """The engine gives its own 400; until then there is an ask with what could be read."""
    found = read_ask(endpoint, ((b"x-thinking-budget", b"\xff"),), body)
    assert found.body_bytes == len(body)
    assert found.endpoint is endpoint
    assert found.choices >= 1


@pytest.mark.case("C30")
@pytest.mark.parametrize(
    ("prompt", "tokens", "choices", "bytes_"),
    [
        ([[1, 2, 3]], 3, 1, 0),
        ([1, 2, 3, 4], 4, 1, 0),
        ([[1], [2, 3]], 3, 2, 0),
        ("hello", 0, 1, 5),
        (["hello", "you"], 0, 2, 8),
        ([], 0, 1, 0),
        (None, 0, 1, 0),
    ],
)
def test_prompts_of_plain_completions(
    prompt: object, tokens: int, choices: int, bytes_: int
) -> None:
    """Token ids count exactly; a list of prompts is as many answers."""
    found = ask(Endpoint.COMPLETIONS, prompt=prompt)
    assert (found.size.token_ids, found.choices, found.size.text_bytes) == (tokens, choices, bytes_)
    assert ask(Endpoint.COMPLETIONS, prompt=prompt, n=2).choices == 2 * choices
    assert found.answered_at == 0


def test_a_longer_prompt_shares_its_links_with_the_shorter() -> None:
    """Text without messages: each full block is a link."""
    short, long = "x" * 10_000, "x" * 10_000 + "y" * 9_000
    first = ask(Endpoint.COMPLETIONS, prompt=short).chain
    second = ask(Endpoint.COMPLETIONS, prompt=long).chain
    assert first[:3] == second[:3]
    assert len(first) == 4
    ids = list(range(9_000))
    first = ask(Endpoint.COMPLETIONS, prompt=ids).chain
    second = ask(Endpoint.COMPLETIONS, prompt=[*ids, 1, 2]).chain
    assert first[:3] == second[:3] != first[1:4]


def test_messages_of_anthropic() -> None:
    """System apart, its own names for everything."""
    found = ask(
        Endpoint.MESSAGES,
        model="claude-x",
        system=[text("S")],
        messages=[user("hello"), {"role": "assistant", "content": [text("yes")]}, user("go on")],
        max_tokens=1000,
        thinking={"type": "enabled", "budget_tokens": 2048},
        output_config={"effort": "low"},
        tools=[{"name": "f", "input_schema": {}, "cache_control": {"type": "ephemeral"}}],
        stream=True,
    )
    assert found.dialect is Dialect.ANTHROPIC
    assert (found.output, found.thinking, found.effort) == (1000, 2048, "low")
    assert (len(found.turns), found.answered_at, found.tools) == (3, 1, True)
    assert ask(Endpoint.COUNT_TOKENS, messages=[user("a")]).dialect is Dialect.ANTHROPIC


@pytest.mark.case("C48")
def test_the_fingerprint_of_a_response_is_its_instructions_and_input() -> None:
    """A plain text is one user's message; the id it goes on from is kept."""
    items = [user([{"type": "input_text", "text": "hi"}])]
    first = ask(Endpoint.RESPONSES, instructions="S", input=items, max_output_tokens=9)
    plain = ask(Endpoint.RESPONSES, instructions="S", input="hi")
    assert first.chain == plain.chain
    assert len(first.chain) == 2
    assert first.output == 9
    assert ask(Endpoint.RESPONSES, instructions="T", input="hi").chain != plain.chain
    assert ask(Endpoint.RESPONSES, instructions="T", input="hi").turns == plain.turns
    second = ask(Endpoint.RESPONSES, previous_response_id="resp_1", input="go on")
    assert second.previous_response == "resp_1"


@pytest.mark.case("C48")
def test_a_client_that_sends_all_input_again_is_known_again() -> None:
    """Codex: calls, results and reasoning come back as items, with or without their ids."""
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c1", "id": "fc"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
    first = ask(Endpoint.RESPONSES, instructions="S", input=[user("hi")])
    second = ask(
        Endpoint.RESPONSES,
        instructions="S",
        input=[user("hi"), {"type": "reasoning", "encrypted_content": "x"}, call, result],
    )
    bare = {key: value for key, value in call.items() if key != "id"}
    third = ask(
        Endpoint.RESPONSES, instructions="S", input=[user("hi"), bare, result, user("more")]
    )
    assert second.chain[: len(first.chain)] == first.chain
    assert third.chain[: len(second.chain)] == second.chain
    assert second.answered_at == 1


def test_embeddings_and_tokenize() -> None:
    """Side calls have a size, too."""
    assert ask(Endpoint.EMBEDDINGS, input=["ab", "c"]).size.text_bytes == 3
    assert ask(Endpoint.TOKENIZE, prompt="abc").size.text_bytes == 3
    assert len(ask(Endpoint.TOKENIZE, messages=[user("abc")]).turns) == 1


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ((), {"thinking": {"budget_tokens": 5}}, 5),
        ((), {"reasoning": {"max_tokens": 6}}, 6),
        (((b"x-thinking-budget", b" 7 "),), {}, 7),
        ((), {"custom_params": {"thinking_budget": 8}}, 8),
        ((), {"custom_params": {"thinking_budget": 0}}, 0),
        ((), {"custom_params": {"thinking_budget": -1}}, None),
        ((), {"custom_params": {"thinking_budget": True}}, None),
        ((), {"thinking": {"budget_tokens": 5.5}}, None),
        (((b"x-thinking-budget", b"-1"),), {}, None),
        (((b"x-thinking-budget", b"9" * 40),), {}, None),
        ((), {}, None),
    ],
)
def test_thinking_budgets_of_every_dialect(
    headers: Headers, body: dict[str, Any], expected: int | None
) -> None:
    """A number of tokens, or none: minus one is not a number of tokens."""
    assert ask(headers=headers, **body).thinking == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"response_format": {"type": "text"}}, False),
        ({"response_format": {"type": "json_object"}}, True),
        ({"regex": "a+"}, True),
        ({"ebnf": "root ::= x"}, True),
        ({"json_schema": "{}"}, True),
        ({"logprobs": True}, True),
        ({"logprobs": False}, False),
        ({"logprobs": 0}, True),
        ({"top_logprobs": 5}, True),
        ({"text": {"format": {"type": "json_schema"}}}, True),
        ({"output_config": {"format": {"type": "json_schema"}}}, True),
        ({"tool_choice": "required"}, True),
        ({"tool_choice": "auto"}, False),
        ({"tool_choice": {"type": "auto"}}, False),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, True),
        ({}, False),
    ],
)
@pytest.mark.case("C26")
def test_answers_bound_to_a_grammar_are_marked(body: dict[str, Any], expected: bool) -> None:
    """Such an answer is never continued elsewhere."""
    assert ask(**body).constrained is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"reasoning_effort": "high"}, "high"),
        ({"reasoning": {"effort": "low"}}, "low"),
        ({"output_config": {"effort": "max"}}, "max"),
        ({"reasoning_effort": 0.5}, "0.5"),
        ({"reasoning_effort": None, "reasoning": {"effort": None}}, ""),
    ],
)
def test_effort_of_every_dialect(body: dict[str, Any], expected: str) -> None:
    """The level in its own place."""
    assert ask(**body).effort == expected


@pytest.mark.parametrize(
    ("value", "read"),
    [
        *((same, 4) for same in (4, 4.0, "4", "4.0", " 4 ")),
        *((odd, None) for odd in (4.5, "x", -1, True, None, [4], "inf", "nan", "9" * 40)),
    ],
)
def test_numbers_are_read_in_every_spelling_that_the_engine_takes(value: Any, read: Any) -> None:
    """Or a client could take more slots, or ask for a longer answer, than we know of."""
    assert ask(messages=[user("a")], max_tokens=value).output == read
    assert ask(messages=[user("a")], max_completion_tokens=value).output == read
    assert ask(messages=[user("a")], n=value).choices == (read or 1)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        *((yes, True) for yes in (True, 1, 1.0, "true", "On")),
        *((no, False) for no in (False, 0, "false", None, [], 2)),
    ],
)
def test_a_stream_is_asked_for_in_every_spelling_that_the_engine_takes(
    value: Any, read: bool
) -> None:
    """Else it got no comments while it waits."""
    assert ask(messages=[user("a")], stream=value).stream is read


def test_lists_that_no_conversation_has_are_not_read() -> None:
    """Each element costs time in which no other stream goes on."""
    for body in ({"messages": [1] * (MOST_MESSAGES + 1)}, {"input": [{}] * (MOST_MESSAGES + 1)}):
        raw = json.dumps(body).encode()
        assert "at most" in open_body(raw).fault
        assert "at most" in open_body(raw[:-1] + b',"x":NaN}').fault
    assert not open_body(json.dumps({"messages": [1] * MOST_MESSAGES}).encode()).fault
    prompts = ask(Endpoint.COMPLETIONS, prompt=["a"] * 200_000)
    assert prompts.choices == 200_000
    assert prompts.size.text_bytes <= MOST_CHOICES + 1
