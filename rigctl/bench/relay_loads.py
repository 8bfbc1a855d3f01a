"""The loads that a relay is measured under, and the requests that make them up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from rigctl.bench.relay_frames import MODEL, knobs_text

Message = dict[str, Any]

FILLER = "def f(x):\n    return x + 1  # filler \n"
"""What large prompts are made of: code, as agents send it."""

TURN_BYTES = 5_000
"""Of one message in a long conversation; 480 kB are about a hundred of them."""

KEY = "sk-bench"
"""LiteLLM does not start without one; the other relays are told to take any."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of the client does; it travels as JSON."""

    connections: int
    requests: int
    """On each connection, one after the other."""
    tokens: int = 1
    gap: float = 0.0
    """Seconds between two tokens."""
    stream: bool = True
    body: int = 1_000
    """Bytes of prompt at least."""
    conversation: int = 1
    """Requests that belong to one conversation, each with all that was said before; 1: every
    request is a session of its own."""
    named: float = 0.0
    """Share 0..1 of the conversations that say their id in a header."""
    picture: bool = False
    """The prompt is one picture, as bodies of megabytes are: the text of one fits no window."""
    seed: str = ""
    """Tells this run's conversations from those of another."""
    seconds: float = 0.0
    """No request is begun after so long; 0: all are made."""
    limit: float = 120.0
    """Seconds after which the run has failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of the client saw. Times in milliseconds."""

    chunks: int
    """Tokens that arrived."""
    failed: int
    """Requests without status 200, without every token or without an end."""
    finished: int
    seconds: float
    chunk_p50: float | None
    chunk_p99: float | None
    """One-way latency of a token's event."""
    first_p50: float | None
    first_p99: float | None
    """From the request's first byte written to the answer's first byte."""
    fault: str = ""
    """Of the first request that failed: its status and what the body began with."""


def filler(size: int) -> str:
    """Text of that many bytes."""
    return (FILLER * (size // len(FILLER) + 1))[:size]


def requests(load: Load, connection: int) -> Iterator[bytes]:
    """The requests of one connection, made while they are wanted."""
    numbers = count()
    sent = 0
    while sent < load.requests:
        number = next(numbers)
        session = f"{load.seed}.{connection}.{number}"
        for body in _conversation(load, session, min(load.conversation, load.requests - sent)):
            sent += 1
            named = (number + connection) % 10 < load.named * 10
            yield _http(body, session if named else "")


def _conversation(load: Load, session: str, turns: int) -> Iterator[bytes]:
    system = f"{knobs_text(0.0, load.gap)} you are a coding agent"
    messages: list[Message] = [
        {"role": "system", "content": system},
        {"role": "user", "content": f"task {session}"},
    ]
    room = max(0, load.body - 2 * len(system))
    if load.picture:
        url = {"url": f"data:image/png;base64,{'A' * room}"}
        messages[-1]["content"] = [
            {"type": "text", "text": f"task {session}"},
            {"type": "image_url", "image_url": url},
        ]
        room = 0
    for part in range(0, room, TURN_BYTES):
        role = "assistant" if len(messages) % 2 == 0 else "user"
        messages.append({"role": role, "content": filler(min(TURN_BYTES, room - part))})
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": "go on"})
    for turn in range(turns):
        if turn:
            messages += [
                {"role": "assistant", "content": f"done {turn}: {filler(200)}"},
                {"role": "user", "content": f"tool said {turn}: {filler(800)}"},
            ]
        yield _body(load, messages)


def _body(load: Load, messages: list[Message]) -> bytes:
    body: dict[str, Any] = {"model": MODEL, "max_tokens": load.tokens, "messages": messages}
    if load.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(body, separators=(",", ":")).encode()


def _http(body: bytes, session: str) -> bytes:
    name = f"x-session-id: {session}\r\n" if session else ""
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"authorization: Bearer {KEY}\r\ncontent-type: application/json\r\n{name}"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
