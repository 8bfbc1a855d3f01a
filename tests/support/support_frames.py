"""Frames of OpenAI streams, and a reader that has been given some."""

from __future__ import annotations

import json
from typing import Any

from rigctl.core.ask import Endpoint
from rigctl.parse.answers import AnswerReader

DONE = b"data: [DONE]\n\n"


def frame(**row: Any) -> bytes:
    """One event of an OpenAI stream."""
    return b"data: " + json.dumps(row).encode() + b"\n\n"


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> bytes:
    """One chunk of one choice."""
    return frame(
        object="chat.completion.chunk",
        choices=[{"index": index, "delta": fields, "finish_reason": finish}],
    )


USAGE = frame(
    choices=[],
    usage={
        "prompt_tokens": 80_000,
        "completion_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 79_000},
    },
)


def read(*parts: bytes, closed: bool = True, **options: Any) -> AnswerReader:
    """A reader that has been given these parts."""
    reader = AnswerReader(Endpoint.CHAT, True, **options)
    for part in parts:
        reader.feed(part)
    if closed:
        reader.finish()
    return reader
