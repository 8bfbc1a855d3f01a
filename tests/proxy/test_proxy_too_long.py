"""Prompts that fit one cluster, or none: where they go, and what is said of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import JSON, SSE, Engine, json_error, rig, say, short, stream

from rigctl.adapters.http1 import Exchange

TOO_LONG = (
    "Requested token count exceeds the model's maximum context length of 262144 tokens. You "
    "requested a total of 270128 tokens: 261936 tokens from the input messages and 8192 tokens "
    "for the completion."
)
WORDINGS = [
    {"object": "error", "message": TOO_LONG, "type": "BadRequestError", "code": 400},
    {
        "object": "error",
        "message": "This model's maximum context length is 262144 tokens. However, you requested 0 "
        "output tokens and your prompt contains at least 262145 input tokens",
        "code": 400,
    },
    {
        "error": {
            "code": 400,
            "message": "request (270128 tokens) exceeds the available context size (262144 "
            "tokens), try increasing it",
            "type": "exceed_context_size_error",
        }
    },
    {"error": "prompt too long; exceeded max context length by 8000 tokens"},
]


def refuses(status: int, body: Any) -> Any:
    async def script(exchange: Exchange, asked: dict[str, Any]) -> None:
        await exchange.respond(status, json.dumps(body).encode(), JSON)

    return script


async def read(got: Any) -> bytes:
    return b"".join([part async for part in got])


@pytest.mark.case("C27")
@pytest.mark.parametrize("body", WORDINGS, ids=["sglang", "vllm", "llama.cpp", "ollama"])
async def test_an_engines_too_long_goes_once_to_the_long_cluster(
    tmp_path: Path, body: dict[str, Any]
) -> None:
    """In every engine's wording, and without a mark against the engine."""
    standard = Engine("standard", refuses(400, body))
    async with rig(tmp_path, standard, Engine("long", short, window=524_288)) as made:
        got = await made.ask(say("x", stream=False))
        assert got.status == 200
        assert got.header(b"x-rig-cluster") == b"long"
        assert len(standard.asked) == 1
        assert made.record("standard").failed == 0  # no fault of the engine's


@pytest.mark.case("C27")
async def test_another_400_is_the_clients_own(tmp_path: Path) -> None:
    """It is reshaped, passed on and not sent elsewhere."""
    schema = {"object": "error", "message": "invalid tool schema", "code": 400}
    long = Engine("long", short, window=524_288)
    async with rig(tmp_path, Engine("standard", refuses(400, schema)), long) as made:
        got = await made.ask(say("x", stream=False))
        assert got.status == 400
        error = json.loads(got.body)["error"]
        assert error["message"] == "invalid tool schema"
        assert error["type"] == "invalid_request_error"
        assert not long.asked
        assert made.record("standard").failed == 0


async def test_too_long_for_every_cluster_is_said_in_the_words_agents_know(tmp_path: Path) -> None:
    """So that they compact their conversation instead of trying again."""
    engines = [Engine(name, refuses(400, WORDINGS[0])) for name in ("standard", "long")]
    async with rig(tmp_path, *engines) as made:
        got = await made.ask(say("x", stream=False))
        assert got.status == 400
        error = json.loads(got.body)["error"]
        assert error["code"] == "context_length_exceeded"
        assert "maximum context length" in error["message"]
        other = await made.ask(
            {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "y"}]},
            "/v1/messages",
        )
        assert json.loads(other.body)["error"]["type"] == "invalid_request_error"


@pytest.mark.case("C27")
async def test_an_early_stream_that_turns_out_too_long_is_moved_unseen(tmp_path: Path) -> None:
    """`/v1/messages` begins its stream before it has looked at the length."""
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": TOO_LONG}}

    async def early(exchange: Exchange, asked: dict[str, Any]) -> None:
        start = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{}}}\n\n'
        await exchange.start(200, SSE)
        await exchange.write(start)
        await asyncio.sleep(0.05)
        await exchange.write(b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n")
        await exchange.finish()

    async def good(exchange: Exchange, asked: dict[str, Any]) -> None:
        delta = {"type": "content_block_delta", "index": 0}
        delta |= {"delta": {"type": "text_delta", "text": "fine"}}
        stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
        rows = [{"type": "message_start", "message": {"usage": {}}}, delta, stop]
        rows.append({"type": "message_stop"})
        await stream(
            exchange,
            *[f"event: {row['type']}\ndata: {json.dumps(row)}\n\n".encode() for row in rows],
        )

    long = Engine("long", good, window=524_288)
    async with rig(tmp_path, Engine("standard", early), long) as made:
        body = {"model": "m", "max_tokens": 5, "stream": True}
        body["messages"] = [{"role": "user", "content": "y"}]
        text = await read(await made.open(body, "/v1/messages"))
        assert b"fine" in text
        assert text.count(b"event: message_start") == 1
        assert b"maximum context length" not in text


@pytest.mark.case("C28")
async def test_too_long_only_because_the_long_cluster_is_off(tmp_path: Path) -> None:
    """503 that names the reason and the limit that works now, or 400 where the owner prefers it."""
    standard, long = Engine("standard", short), Engine("long", short, window=524_288)
    text = "word " * 300_000
    async with rig(tmp_path, standard, long) as made:
        made.change("long", state="off", gate="closed", lent=True, say="lent to “training”")
        got = await made.ask(say(text, stream=False))
        assert got.status == 503
        assert "training" in json_error(got)
        assert "262" in json_error(got)  # the limit that works now
        again = await made.ask(say(text, stream=False))
        assert (again.status, json_error(again)) == (got.status, json_error(got))
        made.give(policy=_with(made.table.policy, off_answer=400))
        got = await made.ask(say(text, stream=False))
        assert got.status == 400
        assert json.loads(got.body)["error"]["code"] == "context_length_exceeded"
        assert not standard.asked


def _with(policy: Any, **changes: Any) -> Any:
    from dataclasses import replace

    return replace(policy, **changes)


async def test_near_a_limit_the_engines_own_tokenizer_is_asked(tmp_path: Path) -> None:
    """And its answer decides: by bytes the prompt would have gone to the long cluster."""
    standard = Engine("standard", short, count=1_000)
    long = Engine("long", short, window=524_288, count=1_000)
    text = "word " * 157_000  # 262k tokens by the first guess of three bytes a token
    async with rig(tmp_path, standard, long) as made:
        got = await made.ask(say(text, stream=False))
        assert got.header(b"x-rig-cluster") == b"standard"
        assert standard.counted + long.counted == 1
        assert got.header(b"x-rig-tokens") == b"1000"
