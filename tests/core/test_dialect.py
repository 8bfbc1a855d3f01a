"""Errors in the client's own dialect: status, shape, words that agents match, whole seconds."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rigctl.core.ask import Dialect, Endpoint
from rigctl.core.dialect import error_body, error_event, too_long
from rigctl.core.sse import Events


def told(
    dialect: Dialect, status: int, **more: Any
) -> tuple[int, dict[str, Any], dict[bytes, bytes]]:
    """Status, decoded body and headers."""
    sent, body, headers = error_body(dialect, status, "a_code", "why", **more)
    return sent, json.loads(body), dict(headers)


def test_openai_s_shape() -> None:
    """Message, type, param and code, each there."""
    status, body, headers = told(Dialect.OPENAI, 400, param="messages")
    assert status == 400
    assert body == {
        "error": {
            "message": "why",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "a_code",
        }
    }
    assert headers == {b"content-type": b"application/json"}


@pytest.mark.parametrize(
    ("status", "sent", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (401, 401, "authentication_error"),
        (403, 403, "permission_error"),
        (404, 404, "not_found_error"),
        (413, 413, "request_too_large"),
        (415, 415, "invalid_request_error"),
        (429, 429, "rate_limit_error"),
        (500, 500, "api_error"),
        (502, 502, "api_error"),
        (503, 529, "overloaded_error"),
        (504, 504, "timeout_error"),
    ],
)
def test_anthropic_s_shape(status: int, sent: int, kind: str) -> None:
    """Its own types, and 529 where others say 503: that is what its clients retry on."""
    found, body, _ = told(Dialect.ANTHROPIC, status)
    assert found == sent
    assert body == {"type": "error", "error": {"type": kind, "message": "why"}}


@pytest.mark.case("C41")
@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        (0, b"1"),
        (0.2, b"1"),
        (7, b"7"),
        (7.01, b"8"),
        (70, b"60"),
        (1e9, b"60"),
        (float("inf"), b"60"),
    ],
)
@pytest.mark.parametrize("dialect", Dialect)
def test_retry_after_is_a_whole_number_up_to_sixty(
    seconds: float, header: bytes, dialect: Dialect
) -> None:
    """Never a date, never zero, never more than old SDKs honour."""
    assert told(dialect, 503, retry_after=seconds)[2][b"retry-after"] == header


@pytest.mark.case("C34")
@pytest.mark.parametrize(
    ("endpoint", "dialect", "names"),
    [
        (Endpoint.CHAT, Dialect.OPENAI, [b"", b""]),
        (Endpoint.COMPLETIONS, Dialect.OPENAI, [b"", b""]),
        (Endpoint.RESPONSES, Dialect.OPENAI, [b"error"]),
        (Endpoint.MESSAGES, Dialect.ANTHROPIC, [b"error"]),
    ],
)
def test_an_error_inside_a_stream_ends_it_properly(
    endpoint: Endpoint, dialect: Dialect, names: list[bytes]
) -> None:
    """Whole events, with `[DONE]` where the dialect has one."""
    raw = error_event(dialect, endpoint, "it broke\nin two lines é", "engine_lost", 502)
    scanner = Events()
    events = scanner.feed(raw)
    assert scanner.at_boundary
    assert [event.name for event in events] == names
    body = json.loads(events[0].data)
    error = body.get("error", body)
    assert error["message"] == "it broke\nin two lines é"
    if dialect is Dialect.OPENAI:
        assert error["code"] == "engine_lost"
    if endpoint in (Endpoint.CHAT, Endpoint.COMPLETIONS):
        assert events[-1].data == b"[DONE]"
    else:
        assert body["type"] == "error"


AGENTS = {
    "pi, opencode: openai": re.compile(r"maximum context length is \d+ tokens", re.IGNORECASE),
    "anthropic": re.compile(r"prompt is too long", re.IGNORECASE),
    "claude code": re.compile(r"prompt is too long: (\d+) tokens > (\d+) maximum"),
    "claude code, answer": re.compile(r"exceed context limit: (\d+) \+ (\d+) > (\d+)"),
}


@pytest.mark.case("C27")
@pytest.mark.parametrize(
    ("dialect", "tokens", "output", "patterns"),
    [
        (Dialect.OPENAI, 300_000, 0, ["pi, opencode: openai"]),
        (Dialect.OPENAI, 260_000, 8_192, ["pi, opencode: openai"]),
        (Dialect.ANTHROPIC, 300_000, 0, ["anthropic", "claude code"]),
        (Dialect.ANTHROPIC, 300_000, 8_192, ["anthropic", "claude code"]),
        (Dialect.ANTHROPIC, 260_000, 8_192, ["claude code, answer"]),
    ],
)
def test_too_long_is_said_in_words_that_agents_compact_on(
    dialect: Dialect, tokens: int, output: int, patterns: list[str]
) -> None:
    """OpenAI's and Anthropic's own sentences, with numbers."""
    message = too_long(dialect, tokens, 262_144, output)
    assert all(AGENTS[name].search(message) for name in patterns)
    assert "262144" in message
