"""The responses API: its events and bodies, told to an answer. There is one choice, 0."""

from __future__ import annotations

from typing import Any

import msgspec

from rigctl.core.answer import Answer, Usage
from rigctl.core.sse import Event
from rigctl.parse.chunks import Counts, read_any, read_counts
from rigctl.parse.faults import fault_of


class _Delta(msgspec.Struct, gc=False):
    """The frames that come by the thousand; all others are few, and read as they are."""

    type: str
    delta: str
    output_index: int = 0


_DELTA = msgspec.json.Decoder(_Delta)
_ANSWERS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = (
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning.delta",
)
_ARGUMENTS = (
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
    "response.mcp_call_arguments.delta",
)
_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
}


def take(answer: Answer, event: Event) -> bool:
    """One event of a stream; never one to swallow."""
    try:
        one = _DELTA.decode(event.data)
    except (msgspec.DecodeError, RecursionError):
        found = read_any(event.data)
        if isinstance(found, dict):
            _take_rest(answer, found)
        elif event.data[:6] == b"[DONE]":
            pass  # some servers add it; the end is `response.completed`
        return False
    if one.delta:
        _take_delta(answer, one.type, one.delta, one.output_index)
    return False


def take_body(answer: Answer, body: bytes) -> None:
    """A whole response that was not streamed, or an error in its place."""
    found = read_any(body)
    if not isinstance(found, dict):
        return
    if found.get("error") or found.get("object") == "error":
        answer.failed(*fault_of(found))
        return
    output = found.get("output")
    for index, item in enumerate(output if isinstance(output, list) else ()):
        if isinstance(item, dict):
            _item(answer, index, item)
    _completed(answer, found, str(found.get("status") or "completed"))


def _take_delta(answer: Answer, kind: str, delta: str, index: int) -> None:
    if kind in _ANSWERS:
        answer.answered(0, delta)
    elif kind in _THOUGHTS:
        answer.thought(0, delta, kind)
    elif kind in _ARGUMENTS:
        answer.called(0, index, "", "", delta)


def _take_rest(answer: Answer, found: dict[str, Any]) -> None:
    kind = found.get("type")
    response = found.get("response")
    response = response if isinstance(response, dict) else {}
    if kind in _ENDS:
        _completed(answer, response, _ENDS[kind])
    elif kind == "response.failed":
        answer.failed(*fault_of(response))
    elif kind == "error" or found.get("error"):
        answer.failed(*fault_of(found))
    elif kind == "response.created":
        _named(answer, response)
    elif kind in ("response.output_item.added", "response.output_item.done"):
        item, at = found.get("item"), found.get("output_index")
        index = at if isinstance(at, int) else 0
        if isinstance(item, dict) and str(item.get("type")).endswith("_call"):
            if kind.endswith("added"):
                name, call = item.get("name"), item.get("call_id")
                answer.called(
                    0,
                    index,
                    name if isinstance(name, str) else "",
                    call if isinstance(call, str) else "",
                    "",
                )
            else:
                _call_done(answer, index)


def _call_done(answer: Answer, index: int) -> None:
    said = answer.choices.get(0)
    call = said.calls.get(index) if said is not None else None
    if call is not None:
        call.open = False


def _completed(answer: Answer, response: dict[str, Any], reason: str) -> None:
    _named(answer, response)
    counts = read_counts(response.get("usage"))
    if counts is not None:
        answer.usage = _usage(counts)
    answer.finished(0, reason)
    answer.done = True


def _named(answer: Answer, response: dict[str, Any]) -> None:
    identity = response.get("id")
    if isinstance(identity, str):
        answer.response = identity


def _usage(counts: Counts) -> Usage:
    cached, thought = counts.input_tokens_details, counts.output_tokens_details
    return Usage(
        prompt=counts.input_tokens,
        cached=cached.cached_tokens if cached is not None else None,
        completion=counts.output_tokens,
        reasoning=thought.reasoning_tokens if thought is not None else counts.reasoning_tokens,
    )


def _item(answer: Answer, index: int, item: dict[str, Any]) -> None:
    """An output item of a whole body."""
    kind = str(item.get("type"))
    if kind.endswith("_call"):
        name, call = item.get("name"), item.get("call_id")
        arguments = item.get("arguments", item.get("input"))
        answer.called(
            0,
            index,
            name if isinstance(name, str) else "",
            call if isinstance(call, str) else "",
            arguments if isinstance(arguments, str) else "",
        )
        return
    for parts in (item.get("summary"), item.get("content")):
        for part in parts if isinstance(parts, list) else ():
            words = part.get("text") if isinstance(part, dict) else None
            if not isinstance(words, str) or not words:
                continue
            if kind == "reasoning":
                answer.thought(0, words, "response.reasoning_text.delta")
            else:
                answer.answered(0, words)
