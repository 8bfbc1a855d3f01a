"""A request that was taken: what it wants, its run through the engine, its answer in pieces."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rigctl.sim.sglang import prompts
from rigctl.sim.sglang.batching import Request
from rigctl.sim.sglang.engine import Answer, Engine
from rigctl.sim.sglang.faults import Fault
from rigctl.sim.sglang.refusals import EngineRefusedError, RefusedError
from rigctl.sim.sglang.speech import CallPart, Speech

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
GENERATE = "/generate"


@dataclass(frozen=True, slots=True)
class Wish:
    """A checked request body."""

    path: str
    rid: str
    model: str
    prompt: prompts.Prompt
    limit: int
    """Most tokens of one choice."""
    choices: tuple[Speech, ...]
    stream: bool
    usage_asked: bool = False
    usage_each: bool = False
    """Usage in every frame that carries text."""
    tools: bool = False
    """Whether tools are offered and their calls parsed."""
    thinks: bool = False
    logprobs: int | None = None
    """Alternatives told for each token; None tells none."""
    session: str = ""
    fault: Fault = field(default_factory=Fault)
    late: RefusedError | None = None
    """A refusal that comes only once the stream has begun: `/v1/messages` and `/v1/responses`."""
    body: dict[str, Any] = field(default_factory=dict)
    """What the answer echoes of the request: `/v1/responses`."""

    @property
    def thoughts(self) -> int:
        """How many of the first choice's first tokens are thought."""
        return self.choices[0].thoughts


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of one choice's answer."""

    choice: int
    text: str
    thought: str
    calls: tuple[CallPart, ...]
    output: int
    finish: str
    """`stop`, `length`, `tool_calls` or `abort` in its last piece."""
    tokens: tuple[str, ...] = ()


def submit(engine: Engine, wish: Wish) -> list[Answer]:
    """Hand a wish to the engine, one request a choice. EngineRefusedError for an id in flight.

    With several choices SGLang drops the id it was given and makes one for each.
    """
    if wish.rid in engine.answers:
        raise EngineRefusedError(f"Duplicate request ID detected: {wish.rid}")
    several = len(wish.choices) > 1
    return [
        engine.submit(
            Request(
                uuid.uuid4().hex if several else wish.rid,
                wish.prompt,
                wish.limit,
                max(1, speech.natural),
                time.monotonic(),
                speech,
            )
        )
        for speech in wish.choices
    ]


async def say(answers: Sequence[Answer]) -> AsyncIterator[Said]:
    """The answers piece by piece, as they come; the last one of each has its finish."""
    if len(answers) == 1:
        async for piece in _say(answers[0], 0):
            yield piece
        return
    news: asyncio.Queue[Said] = asyncio.Queue()

    async def pump(answer: Answer, choice: int) -> None:
        async for piece in _say(answer, choice):
            news.put_nowait(piece)

    loop = asyncio.get_running_loop()
    pumps = [loop.create_task(pump(answer, at)) for at, answer in enumerate(answers)]
    try:
        open_ones = len(pumps)
        while open_ones:
            piece = await news.get()
            open_ones -= bool(piece.finish)
            yield piece
    finally:
        for task in pumps:
            task.cancel()


async def _say(answer: Answer, choice: int) -> AsyncIterator[Said]:
    speech = answer.request.speech
    assert speech is not None
    told = 0
    called = False
    while True:
        delta = await answer.news.get()
        fresh = [speech.token(number) for number in range(told, delta.output)]
        told = max(told, delta.output)
        calls = tuple(token.call for token in fresh if token.call is not None)
        called = called or bool(calls)
        finish = "tool_calls" if called and delta.finish == "stop" else delta.finish
        shown = [token for token in fresh if token.shown]
        yield Said(
            choice,
            "".join(token.text for token in shown if not token.thought),
            "".join(token.text for token in shown if token.thought),
            calls,
            told,
            finish,
            tuple(token.text for token in shown if token.text),
        )
        if delta.finish:
            return


async def watch_client(
    gone: asyncio.Event, engine: Engine, answers: Sequence[Answer], look: Callable[[], float]
) -> None:
    """Abort when the client is gone, `look()` seconds later: SGLang looks every 4 s at most."""
    await gone.wait()
    await asyncio.sleep(look())
    for answer in answers:
        engine.drop(answer.request)
