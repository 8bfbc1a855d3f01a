"""The frames of an OpenAI stream, decoded into what an answer needs, however odd they are."""

from __future__ import annotations

import json
from typing import Any

import msgspec


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct, gc=False):
    """Of a stream, or the whole `message` of a body."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: Delta | None = None
    message: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class CachedDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class ReasoningDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class Counts(msgspec.Struct, gc=False):
    """`usage` of chat, completions and responses."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    prompt_tokens_details: CachedDetails | None = None
    input_tokens_details: CachedDetails | None = None
    completion_tokens_details: ReasoningDetails | None = None
    output_tokens_details: ReasoningDetails | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: Counts | None = None
    error: Any = None
    object: Any = None
    message: Any = None
    """Of SGLang's bare error object; a stream's chunk has none at this place."""
    code: Any = None
    type: Any = None


_CHUNK = msgspec.json.Decoder(Chunk)
_BREAK = b"\n\ndata: "
"""Between two events of one data line. No JSON holds it: a string's line feed is written `\\n`."""
_ANY = msgspec.json.Decoder()


def read_chunk(data: bytes) -> Chunk | None:
    """One frame or body; None where it is no JSON object. What has an odd type is left out."""
    try:
        return _CHUNK.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    found = read_any(data)
    if not isinstance(found, dict):
        return None
    choices = found.get("choices")
    return Chunk(
        choices=[_choice(one) for one in choices if isinstance(one, dict)]
        if isinstance(choices, list)
        else None,
        usage=read_counts(found.get("usage")),
        error=found.get("error"),
        object=found.get("object"),
        message=found.get("message"),
        code=found.get("code"),
        type=found.get("type"),
    )


def read_chunks(data: bytes) -> list[Chunk] | None:
    """The frames of whole events, decoded at once; None where one of them is not of the plainest
    form: a single line of `data: ` with a chunk whose fields have the types they should."""
    if data[:6] != _BREAK[2:] or data[-2:] != _BREAK[:2]:
        return None
    try:
        chunks = _CHUNK.decode_lines(data[6:-2].replace(_BREAK, b"\n"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return chunks if len(chunks) == data.count(_BREAK) + 1 else None


def read_any(data: bytes) -> object:
    """Any JSON, characters cut or invalid ones replaced; None where it is none."""
    try:
        return _ANY.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def read_counts(usage: object) -> Counts | None:
    """`usage` whose fields may have odd types; None where there is none."""
    if not isinstance(usage, dict):
        return None
    return Counts(
        **{name: whole(usage.get(name)) for name in _WHOLE},
        prompt_tokens_details=_cached(usage.get("prompt_tokens_details")),
        input_tokens_details=_cached(usage.get("input_tokens_details")),
        completion_tokens_details=_reasoning(usage.get("completion_tokens_details")),
        output_tokens_details=_reasoning(usage.get("output_tokens_details")),
    )


_WHOLE = (
    "prompt_tokens",
    "completion_tokens",
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "reasoning_tokens",
)


def whole(value: object) -> int | None:
    """A whole number, which True is not."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: object) -> str | None:
    """A text, also where it is a list of text blocks."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(
            part["text"]
            for part in value
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return None


def _cached(details: object) -> CachedDetails | None:
    return CachedDetails(whole(details.get("cached_tokens"))) if isinstance(details, dict) else None


def _reasoning(details: object) -> ReasoningDetails | None:
    if not isinstance(details, dict):
        return None
    return ReasoningDetails(whole(details.get("reasoning_tokens")))


def _choice(found: dict[str, Any]) -> Choice:
    reason = found.get("finish_reason")
    return Choice(
        index=whole(found.get("index")),
        delta=_delta(found.get("delta")),
        message=_delta(found.get("message")),
        text=text(found.get("text")),
        finish_reason=reason if isinstance(reason, str) else None,
    )


def _delta(found: object) -> Delta | None:
    if not isinstance(found, dict):
        return None
    calls = found.get("tool_calls")
    return Delta(
        content=text(found.get("content")),
        reasoning_content=text(found.get("reasoning_content")),
        reasoning=text(found.get("reasoning")),
        tool_calls=[_call(one) for one in calls if isinstance(one, dict)]
        if isinstance(calls, list)
        else None,
    )


def _call(found: dict[str, Any]) -> ToolCall:
    function = found.get("function")
    identity = found.get("id")
    call = ToolCall(
        index=whole(found.get("index")), id=identity if isinstance(identity, str) else None
    )
    if isinstance(function, dict):
        name, arguments = function.get("name"), function.get("arguments")
        call.function = Function(
            name if isinstance(name, str) else None,
            arguments if isinstance(arguments, str) else None,
        )
    return call
