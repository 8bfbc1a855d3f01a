"""Chat and text completions: their chunks and bodies, told to an answer."""

from __future__ import annotations

from rigctl.core.answer import Answer, Usage
from rigctl.core.sse import Event
from rigctl.parse.chunks import Chunk, Counts, Delta, read_chunk, read_chunks
from rigctl.parse.faults import fault_of


def take(answer: Answer, event: Event) -> bool:
    """One event of a stream; True for a chunk of nothing but usage."""
    data = event.data
    if data[:6] == b"[DONE]":
        answer.done = True
        return False
    chunk = read_chunk(data)
    return chunk is not None and _take(answer, chunk, event.name)


def take_many(answer: Answer, data: bytes) -> int:
    """Whole events at once; how many they were, 0 where each has to be taken by itself.

    Neighbours that add to the same text are one addition: that costs a fraction of one each.
    """
    chunks = read_chunks(data)
    if chunks is None:
        return 0
    run: list[str] = []
    place: tuple[int | None, str] = (None, "")
    for chunk in chunks:
        choices = chunk.choices
        if choices is not None and len(choices) == 1 and chunk.usage is None:
            choice = choices[0]
            delta = choice.delta
            if (
                delta is not None
                and choice.finish_reason is None
                and chunk.error is None
                and not delta.tool_calls
                and not delta.reasoning
                and not (delta.content and delta.reasoning_content)
            ):
                text, field = delta.content, "content"
                if not text:
                    text, field = delta.reasoning_content, "reasoning_content"
                if text:
                    if place != (choice.index, field):
                        _add(answer, place, run)
                        place = (choice.index, field)
                    run.append(text)
                continue
        _add(answer, place, run)
        _take(answer, chunk, b"")
    _add(answer, place, run)
    return len(chunks)


def _add(answer: Answer, place: tuple[int | None, str], run: list[str]) -> None:
    """Neighbouring parts of one text."""
    if not run:
        return
    index, field = place
    text = "".join(run)
    if field == "content":
        answer.answered(index, text, len(run))
    else:
        answer.thought(index, text, field, len(run))
    run.clear()


def _take(answer: Answer, chunk: Chunk, name: bytes) -> bool:
    usage = chunk.usage
    if usage is not None:
        answer.usage = usage_of(usage)
    choices = chunk.choices
    if not choices:
        if chunk.error is not None or chunk.object == "error" or name == b"error":
            _failed(answer, chunk)
            return False
        return choices is not None and usage is not None
    if chunk.error is not None:
        _failed(answer, chunk)
    for choice in choices:
        delta = choice.delta
        if delta is not None:
            _delta(answer, choice.index, delta)
        elif choice.text:
            answer.answered(choice.index, choice.text)
        if choice.finish_reason is not None:
            answer.finished(choice.index, choice.finish_reason)
    return False


def take_body(answer: Answer, body: bytes) -> None:
    """A whole answer that was not streamed."""
    chunk = read_chunk(body)
    if chunk is None:
        return
    if chunk.usage is not None:
        answer.usage = usage_of(chunk.usage)
    if chunk.error is not None or chunk.object == "error":
        _failed(answer, chunk)
        return
    for choice in chunk.choices or ():
        if choice.message is not None:
            _delta(answer, choice.index, choice.message)
        elif choice.text:
            answer.answered(choice.index, choice.text)
        answer.finished(choice.index, choice.finish_reason or "stop")
    answer.done = chunk.choices is not None


def usage_of(counts: Counts) -> Usage:
    """The count in one shape; what it leaves out stays None."""
    prompt = counts.prompt_tokens
    details = counts.prompt_tokens_details
    thought = counts.reasoning_tokens
    if thought is None and counts.completion_tokens_details is not None:
        thought = counts.completion_tokens_details.reasoning_tokens
    return Usage(
        prompt=prompt,
        cached=details.cached_tokens if details is not None else None,
        completion=counts.completion_tokens,
        reasoning=thought,
    )


def _delta(answer: Answer, index: int | None, delta: Delta) -> None:
    # Both names with the same text are one thought (C45).
    if delta.reasoning_content:
        answer.thought(index, delta.reasoning_content, "reasoning_content")
    elif delta.reasoning:
        answer.thought(index, delta.reasoning, "reasoning")
    if delta.content:
        answer.answered(index, delta.content)
    if not delta.tool_calls:
        return
    for call in delta.tool_calls:
        function = call.function
        name = function.name or "" if function is not None else ""
        arguments = function.arguments or "" if function is not None else ""
        if name or arguments or call.id:
            answer.called(index, call.index, name, call.id or "", arguments)


def _failed(answer: Answer, chunk: Chunk) -> None:
    message, kind, code = fault_of(
        {
            "error": chunk.error,
            "message": chunk.message,
            "type": chunk.type,
            "code": chunk.code,
        }
    )
    answer.failed(message, kind, code)
