"""Anthropic's messages: their events and bodies, told to an answer. There is one choice, 0."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from rigctl.core.answer import Answer, Usage
from rigctl.core.sse import Event
from rigctl.parse.chunks import Counts, read_any, read_counts
from rigctl.parse.faults import fault_of


class _Delta(msgspec.Struct, gc=False):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Block(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None


class _Message(msgspec.Struct, gc=False):
    usage: Counts | None = None


class _Happening(msgspec.Struct, gc=False):
    type: str | None = None
    index: int | None = None
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: Counts | None = None
    error: Any = None


_Fields = TypeVar("_Fields", _Delta, _Block)

_HAPPENING = msgspec.json.Decoder(_Happening)


def take(answer: Answer, event: Event) -> bool:
    """One event of a stream; never one to swallow."""
    happening = _read(event.data)
    if happening is None:
        return False
    kind = happening.type or event.name.decode("ascii", "replace")
    if kind == "content_block_delta":
        if happening.delta is not None:
            _delta(answer, happening.index, happening.delta)
    elif kind == "content_block_start":
        if happening.content_block is not None:
            _begun(answer, happening.index, happening.content_block)
    elif kind == "content_block_stop":
        said = answer.choices.get(0)
        call = said.calls.get(happening.index or 0) if said is not None else None
        if call is not None:
            call.open = False
    elif kind == "message_start":
        if happening.message is not None:
            _count(answer, happening.message.usage)
    elif kind == "message_delta":
        _count(answer, happening.usage)
        if happening.delta is not None and happening.delta.stop_reason:
            answer.reason = happening.delta.stop_reason
    elif kind == "message_stop":
        answer.done = True
        if answer.reason:
            answer.finished(0, answer.reason)
    elif kind == "error" or happening.error is not None:
        answer.failed(*fault_of({"error": happening.error}))
    return False


def take_body(answer: Answer, body: bytes) -> None:
    """A whole message that was not streamed, or an error in its place."""
    found = read_any(body)
    if not isinstance(found, dict):
        return
    if found.get("type") == "error" or "error" in found:
        answer.failed(*fault_of(found))
        return
    _count(answer, read_counts(found.get("usage")))
    content = found.get("content")
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, dict):
            _whole_block(answer, index, block)
    reason = found.get("stop_reason")
    answer.finished(0, reason if isinstance(reason, str) else "end_turn")
    answer.done = isinstance(content, list)


def _read(data: bytes) -> _Happening | None:
    try:
        return _HAPPENING.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    found = read_any(data)
    if not isinstance(found, dict):
        return None
    message = found.get("message")
    return _Happening(
        type=_text(found.get("type")),
        index=found["index"] if isinstance(found.get("index"), int) else None,
        delta=_fields(_Delta, found.get("delta")),
        content_block=_fields(_Block, found.get("content_block")),
        message=_Message(read_counts(message.get("usage"))) if isinstance(message, dict) else None,
        usage=read_counts(found.get("usage")),
        error=found.get("error"),
    )


def _fields(kind: type[_Fields], found: object) -> _Fields | None:
    if not isinstance(found, dict):
        return None
    return kind(**{name: _text(found.get(name)) for name in kind.__struct_fields__})


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _delta(answer: Answer, index: int | None, delta: _Delta) -> None:
    if delta.text:
        answer.answered(0, delta.text)
    elif delta.thinking:
        answer.thought(0, delta.thinking, "thinking")
    elif delta.partial_json:
        answer.called(0, index or 0, "", "", delta.partial_json)


def _begun(answer: Answer, index: int | None, block: _Block) -> None:
    if block.type in ("tool_use", "server_tool_use"):
        answer.called(0, index or 0, block.name or "", block.id or "", "")
    elif block.text:
        answer.answered(0, block.text)
    elif block.thinking:
        answer.thought(0, block.thinking, "thinking")


def _whole_block(answer: Answer, index: int, block: dict[str, Any]) -> None:
    kind = block.get("type")
    if kind == "tool_use":
        arguments = msgspec.json.encode(block.get("input")).decode()
        answer.called(
            0, index, _text(block.get("name")) or "", _text(block.get("id")) or "", arguments
        )
    elif kind == "thinking" and isinstance(block.get("thinking"), str) and block["thinking"]:
        answer.thought(0, block["thinking"], "thinking")
    elif isinstance(block.get("text"), str) and block["text"]:
        answer.answered(0, block["text"])


def _count(answer: Answer, counts: Counts | None) -> None:
    """Prompt comes with the beginning, answer with the end; the later one adds to the first."""
    if counts is None:
        return
    before = answer.usage or Usage()
    prompt, cached = before.prompt, before.cached
    if counts.input_tokens is not None:
        read = counts.cache_read_input_tokens
        # Anthropic counts what came from cache apart from the rest of the prompt.
        total = counts.input_tokens + (read or 0) + (counts.cache_creation_input_tokens or 0)
        prompt, cached = total, read
    if not prompt:
        prompt = None  # no prompt is empty: SGLang writes 0 where it has no count yet
    completion = counts.output_tokens if counts.output_tokens is not None else before.completion
    answer.usage = Usage(prompt=prompt, cached=cached, completion=completion)
