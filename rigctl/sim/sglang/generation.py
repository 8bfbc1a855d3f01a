"""The endpoints that generate: their bodies checked, run by the engine, answered or streamed."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from rigctl.sim.sglang import prompts
from rigctl.sim.sglang.batching import Request
from rigctl.sim.sglang.engine import Answer, Engine
from rigctl.sim.sglang.identity import Identity

PATHS = ("/v1/chat/completions", "/v1/completions", "/generate")


class RefusedError(Exception):
    """A body that SGLang answers with 400; the text is its own."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A checked request body."""

    path: str
    rid: str
    model: str
    prompt: prompts.Prompt
    limit: int
    natural: int
    thoughts: int
    seed: int
    stream: bool
    usage_asked: bool


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of the answer."""

    text: str
    thought: str
    output: int
    finish: str


def _natural(seed: int) -> int:
    """Where an answer ends by itself: a few hundred tokens, fixed for a prompt."""
    return 120 + seed % 480


def read_wish(path: str, body: Mapping[str, Any], identity: Identity, think_limit: int) -> Wish:
    """Check a body as SGLang's serving layer does. RefusedError carries its words."""
    sampling: Mapping[str, Any] = body
    if path == "/v1/chat/completions":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RefusedError("Messages cannot be empty.")
        try:
            prompt = prompts.chat_prompt(messages)
        except ValueError as wrong:
            raise RefusedError(str(wrong)) from wrong
    elif path == "/v1/completions":
        prompt = _text_or_ids(body.get("prompt"))
    else:
        sampling = body.get("sampling_params") or {}
        prompt = _text_or_ids(body.get("text") or body.get("input_ids"))
    wanted = sampling.get("max_completion_tokens") or sampling.get("max_tokens")
    wanted = wanted or sampling.get("max_new_tokens")
    if wanted is None and path != "/v1/chat/completions":
        wanted = 16 if path == "/v1/completions" else 128
    limit = check_lengths(prompt.tokens, wanted, identity)
    seed = int.from_bytes(hashlib.blake2b(repr(prompt.pieces[-2:]).encode()).digest()[:4], "big")
    kwargs = body.get("chat_template_kwargs") or {}
    thinks = bool(identity.args.get("reasoning_parser")) and path == PATHS[0]
    thinks = thinks and kwargs.get("enable_thinking", True) is not False
    thoughts = min(_natural(seed) * 2 // 3, think_limit or 1 << 30) if thinks else 0
    options = body.get("stream_options") or {}
    return Wish(
        path,
        str(body.get("rid") or uuid.uuid4().hex),
        str(body.get("model") or identity.name),
        prompt,
        limit,
        limit if sampling.get("ignore_eos") else thoughts + _natural(seed),
        thoughts,
        seed,
        bool(body.get("stream")),
        bool(options.get("include_usage")),
    )


def check_lengths(tokens: int, wanted: int | None, identity: Identity) -> int:
    """The answer's limit in tokens. RefusedError in the three wordings SGLang has for too long."""
    if tokens == 0:
        raise RefusedError("Input is empty.")
    if tokens >= identity.context:
        raise RefusedError(
            f"The input ({tokens} tokens) is longer than the model's context length "
            f"({identity.context} tokens)."
        )
    if wanted is not None and tokens + wanted > identity.context:
        raise RefusedError(
            "Requested token count exceeds the model's maximum context length of "
            f"{identity.context} tokens. You requested a total of {tokens + wanted} tokens: "
            f"{tokens} tokens from the input messages and {wanted} tokens for the completion. "
            "Please reduce the number of tokens in the input messages or the completion to fit "
            "within the limit."
        )
    if tokens > identity.input_limit:
        raise RefusedError(
            f"Input length ({tokens} tokens) exceeds the maximum allowed length "
            f"({identity.input_limit} tokens). Use a shorter input or enable --allow-auto-truncate."
        )
    room = min(identity.context, identity.pool) - tokens - 1
    return max(1, room if wanted is None else min(int(wanted), room))


def _text_or_ids(value: object) -> prompts.Prompt:
    if isinstance(value, str):
        return prompts.plain_prompt(value)
    if isinstance(value, list) and value and all(isinstance(part, int) for part in value):
        return prompts.ids_prompt(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return prompts.plain_prompt(value[0])
    raise RefusedError("The prompt must be a string or a list of token ids.")


def submit(engine: Engine, wish: Wish) -> Answer:
    """Hand a wish to the engine."""
    request = Request(
        wish.rid,
        wish.prompt,
        wish.limit,
        max(1, wish.natural),
        time.monotonic(),
        wish.seed,
        min(wish.thoughts, wish.limit),
    )
    return engine.submit(request)


async def say(answer: Answer) -> AsyncIterator[Said]:
    """The answer piece by piece; the last one has its finish."""
    request = answer.request
    told = 0
    while True:
        delta = await answer.news.get()
        words = [prompts.word(request.seed, number) for number in range(told, delta.output)]
        thought = "".join(words[: max(0, request.thoughts - told)])
        text = "".join(words[max(0, request.thoughts - told) :])
        told = max(told, delta.output)
        yield Said(text, thought, told, delta.finish)
        if delta.finish:
            return


async def watch_client(gone: asyncio.Event, engine: Engine, answer: Answer, wait: float) -> None:
    """Abort when the client is gone: at once in a stream, at the next look before its first token.

    SGLang looks for a lost client every 4 s while it waits for a token.
    """
    await gone.wait()
    if not answer.began:
        await asyncio.sleep(wait)
    engine.drop(answer.request)
