"""What the bench's engine says and its client reads: SGLang's frames, each stamped with its time.

Both run on one machine and read one clock, so the difference is how long a frame was on its way.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

MODEL = "bench"
"""The one served name."""

_HEAD = '{"id":"%s","object":"chat.completion.chunk","created":1795982566,"model":"' + MODEL
_DELTA = (
    '","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s,"matched_stop":null}]}'
)
_USAGE = '","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,'
_USAGE += '"prompt_tokens_details":{"cached_tokens":0}}}'

STAMP = re.compile(rb'"content": ?"(\d{19})"')
"""A token's event: nanoseconds of CLOCK_MONOTONIC when it was written."""

_KNOBS = re.compile(rb"knobs ttft=([\d.]+) gap=([\d.]+)")
_TOKENS = re.compile(rb'"max_(?:completion_)?tokens":\s*(\d+)')
_STREAM = re.compile(rb'"stream":\s*true')
_EDGE = 4096
"""Only so much of a large body's head and tail is searched: the engine must cost little."""


def chunked(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def _event(data: str) -> bytes:
    return chunked(f"data: {data}\n\n".encode())


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the client wants of the engine; it rides in the request itself."""

    tokens: int = 1
    ttft: float = 0.0
    """Seconds before the first byte."""
    gap: float = 0.0
    """Seconds between two tokens; 0 writes as fast as the loop turns."""
    stream: bool = False


def knobs_text(ttft: float, gap: float) -> str:
    """For the system message: times in milliseconds, in words that no relay renames."""
    return f"knobs ttft={ttft * 1000:g} gap={gap * 1000:g}"


def read_knobs(body: bytes) -> Knobs:
    """From a request, whatever a relay on the way did to its other fields."""
    edges = body if len(body) <= 2 * _EDGE else body[:_EDGE] + body[-_EDGE:]
    tokens, times = _TOKENS.search(edges), _KNOBS.search(edges)
    return Knobs(
        tokens=int(tokens[1]) if tokens else 1,
        ttft=float(times[1]) / 1000 if times else 0.0,
        gap=float(times[2]) / 1000 if times else 0.0,
        stream=_STREAM.search(edges) is not None,
    )


class Frames:
    """The events of one streamed answer, as SGLang 0.5.23 sends them: about 260 bytes a token."""

    def __init__(self, request: int) -> None:
        self._head = _HEAD % f"{request:032x}"
        role = '{"role":"assistant","content":"","reasoning_content":null}'
        self.opening = _event(self._head + _DELTA % (role, "null"))

    def token(self, stamp: int) -> bytes:
        """One token, written at `stamp`, as a piece of a chunked body."""
        delta = f'{{"reasoning_content":null,"content":"{stamp:019d}"}}'
        return _event(self._head + _DELTA % (delta, "null"))

    def closing(self, tokens: int) -> bytes:
        """Finish reason, usage, end mark, end of the body."""
        return (
            _event(self._head + _DELTA % ("{}", '"stop"'))
            + _event(self._head + _USAGE % (5, tokens, 5 + tokens))
            + _event("[DONE]")
            + b"0\r\n\r\n"
        )


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


def answer(body: object, status: bytes = b"200 OK") -> bytes:
    """A whole response with a JSON body."""
    data = json.dumps(body, separators=(",", ":")).encode()
    return b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        status,
        len(data),
        data,
    )


def short_answer() -> bytes:
    """A buffered chat completion of one token."""
    return answer(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 1795982566,
            "model": MODEL,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "hi", "reasoning_content": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
        }
    )
