"""Errors in the client's own dialect: as a body with its status, or inside a stream."""

from __future__ import annotations

import json
from math import ceil

from rigctl.core.ask import Dialect, Endpoint

OVERLOADED = 529
"""Anthropic's status for what others call 503: its SDK and agents retry on it."""
MOST_RETRY = 60
"""Seconds; old OpenAI SDKs ignore a longer Retry-After, and a date (C41)."""

_OPENAI_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    408: "timeout_error",
    411: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    500: "server_error",
    501: "server_error",
    502: "server_error",
    503: "server_error",
    504: "timeout_error",
}
_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}

Headers = tuple[tuple[bytes, bytes], ...]


def error_body(
    dialect: Dialect,
    status: int,
    code: str,
    message: str,
    *,
    retry_after: float | None = None,
    param: str | None = None,
) -> tuple[int, bytes, Headers]:
    """Status, body and headers of a refusal.

    `code` is the machine's word (`context_length_exceeded`, `queue_full` …). `retry_after` in
    seconds becomes a whole number from 1 to 60.
    """
    if dialect is Dialect.ANTHROPIC:
        if status == 503:
            status = OVERLOADED
        kind = _anthropic_kind(status)
        body = {"type": "error", "error": {"type": kind, "message": message}}
    else:
        kind = _openai_kind(status)
        body = {"error": {"message": message, "type": kind, "param": param, "code": code or None}}
    headers: list[tuple[bytes, bytes]] = [(b"content-type", b"application/json")]
    if retry_after is not None:
        seconds = max(1, ceil(min(MOST_RETRY, retry_after)))
        headers.append((b"retry-after", b"%d" % seconds))
    return status, _json(body), tuple(headers)


def error_event(
    dialect: Dialect, endpoint: Endpoint, message: str, code: str, status: int
) -> bytes:
    """An error inside a stream whose status is 200 already, with what ends the stream after it.

    It begins at an event boundary: put it in only there.
    """
    if dialect is Dialect.ANTHROPIC:
        kind = _anthropic_kind(OVERLOADED if status == 503 else status)
        body: dict[str, object] = {"type": "error", "error": {"type": kind, "message": message}}
        return b"event: error\ndata: " + _json(body) + b"\n\n"
    if endpoint is Endpoint.RESPONSES:
        body = {"type": "error", "code": code or None, "message": message, "param": None}
        return b"event: error\ndata: " + _json(body) + b"\n\n"
    body = {
        "error": {
            "message": message,
            "type": _openai_kind(status),
            "param": None,
            "code": code or None,
        }
    }
    return b"data: " + _json(body) + b"\n\ndata: [DONE]\n\n"


def too_long(dialect: Dialect, tokens: int, limit: int, output: int = 0) -> str:
    """That a prompt is too long, in the words on which agents shorten their conversation.

    `tokens` of prompt, `output` of answer asked for, `limit` of both together.
    """
    if dialect is Dialect.ANTHROPIC:
        if tokens <= limit:
            return (
                f"input length and `max_tokens` exceed context limit: {tokens} + {output} > "
                f"{limit}, decrease input length or `max_tokens` and try again"
            )
        return f"prompt is too long: {tokens} tokens > {limit} maximum"
    if output:
        return (
            f"This model's maximum context length is {limit} tokens. However, you requested "
            f"{tokens + output} tokens ({tokens} in the messages, {output} in the completion). "
            "Please reduce the length of the messages or completion."
        )
    return (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted "
        f"in {tokens} tokens. Please reduce the length of the messages."
    )


def _openai_kind(status: int) -> str:
    return _OPENAI_KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")


def _anthropic_kind(status: int) -> str:
    return _ANTHROPIC_KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")


def _json(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
