"""Changes of the client's own words: effort levels and the billing line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rigctl.core.ask import Endpoint
from rigctl.parse.rewrite import Rewritten, Wishes, rewrite

LEVELS = {"minimal": "low", "high": "xhigh", "max": "xhigh", "low": "low", "none": ""}
OFF = {"thinking": False, "enable_thinking": False}


def changed(endpoint: Endpoint, wishes: Wishes, body: dict[str, Any]) -> dict[str, Any]:
    """The engine's view."""
    rewritten: Rewritten = rewrite(endpoint, json.dumps(body).encode(), wishes)
    found = json.loads(b"".join(rewritten.parts))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("endpoint", "body", "expected"),
    [
        (Endpoint.CHAT, {"reasoning_effort": "high"}, {"reasoning_effort": "xhigh"}),
        (Endpoint.CHAT, {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        (Endpoint.CHAT, {"reasoning_effort": "odd"}, {"reasoning_effort": "odd"}),
        (Endpoint.CHAT, {"reasoning_effort": 0.5}, {"reasoning_effort": 0.5}),
        (Endpoint.CHAT, {"reasoning_effort": "none"}, {"chat_template_kwargs": OFF}),
        (
            Endpoint.CHAT,
            {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True, "a": 1}},
            {"chat_template_kwargs": {"thinking": False, "enable_thinking": True, "a": 1}},
        ),
        (
            Endpoint.CHAT,
            {"chat_template_kwargs": {"reasoning_effort": "max"}},
            {"chat_template_kwargs": {"reasoning_effort": "xhigh"}},
        ),
        (
            Endpoint.CHAT,
            {"chat_template_kwargs": {"reasoning_effort": "none"}},
            {"chat_template_kwargs": OFF},
        ),
        (Endpoint.TOKENIZE, {"reasoning_effort": "max"}, {"reasoning_effort": "xhigh"}),
        (
            Endpoint.RESPONSES,
            {"reasoning": {"effort": "minimal", "summary": "auto"}},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        (
            Endpoint.RESPONSES,
            {"reasoning": {"effort": "none"}},
            {"reasoning": {}, "chat_template_kwargs": OFF},
        ),
        (
            Endpoint.MESSAGES,
            {"output_config": {"effort": "high", "format": None}},
            {"output_config": {"effort": "xhigh", "format": None}},
        ),
        (
            Endpoint.MESSAGES,
            {"output_config": {"effort": "none"}, "thinking": {"type": "adaptive"}},
            {"output_config": {}, "thinking": {"type": "disabled"}},
        ),
        (Endpoint.CHAT, {"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "high"}}),
        (Endpoint.CHAT, {"chat_template_kwargs": 5}, {"chat_template_kwargs": 5}),
    ],
)
def test_levels_that_the_template_refuses_are_translated(
    endpoint: Endpoint, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    """By what the probe found; no thinking at all by the template's own switch."""
    assert changed(endpoint, Wishes(effort=LEVELS), body) == expected


def test_a_level_that_stays_leaves_the_bytes_alone() -> None:
    """`low` is `low`: nothing is written anew."""
    body = b'{"reasoning_effort":"low"}'
    assert rewrite(Endpoint.CHAT, body, Wishes(effort=LEVELS)).parts == (body,)


LINE = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=sdk-cli; cch=36ee5;"


def block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


@pytest.mark.case("C18")
@pytest.mark.parametrize(
    ("endpoint", "body", "expected"),
    [
        (
            Endpoint.MESSAGES,
            {"system": [block(LINE), block("S", cache_control={})]},
            {"system": [block("S", cache_control={})]},
        ),
        (Endpoint.MESSAGES, {"system": f"{LINE}\nS"}, {"system": "S"}),
        (Endpoint.MESSAGES, {"system": [block(f"{LINE}\nS")]}, {"system": [block("S")]}),
        (Endpoint.COUNT_TOKENS, {"system": [block(LINE)]}, {"system": []}),
        (
            Endpoint.CHAT,
            {"messages": [{"role": "system", "content": f"{LINE}\nS"}, {"role": "user"}]},
            {"messages": [{"role": "system", "content": "S"}, {"role": "user"}]},
        ),
        (Endpoint.RESPONSES, {"instructions": f"{LINE}\nS"}, {"instructions": "S"}),
    ],
)
def test_the_billing_line_is_taken_off_if_the_owner_wishes(
    endpoint: Endpoint, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    """The engine's cache sees the same head each time; without the setting nothing changes."""
    assert changed(endpoint, Wishes(normalize=True), body) == expected
    assert changed(endpoint, Wishes(), body) == body


@pytest.mark.case("C18")
@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.MESSAGES, {"messages": [{"role": "user", "content": LINE}], "system": "S"}),
        (Endpoint.CHAT, {"messages": [{"role": "user", "content": LINE}]}),
        (Endpoint.MESSAGES, {"system": [block("S"), block(LINE)]}),
        (Endpoint.MESSAGES, {"system": f"S\n{LINE}"}),
        (Endpoint.MESSAGES, {"system": 5, "messages": "x"}),
        (Endpoint.CHAT, {"messages": [{"role": "system", "content": None}]}),
    ],
)
def test_a_user_s_text_is_never_altered(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """A quoted line, or one that is not at the head, is text; not a byte is written anew."""
    raw = json.dumps(body).encode()
    assert rewrite(endpoint, raw, Wishes(normalize=True)).parts == (raw,)
