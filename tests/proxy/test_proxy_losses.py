"""What the endpoint does when an engine, a client or a prompt fails it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import DONE, JSON, SSE, Engine, chunk, json_error, rig, say, short, stream, whole

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


# ---- servers that are lost -------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
async def test_a_server_lost_before_its_first_byte_goes_unnoticed(
    tmp_path: Path, streamed: bool
) -> None:
    """Two prompts were in prefill there: neither is known to have crashed it."""
    asked = asyncio.Semaphore(0)

    async def dies(exchange: Exchange, body: dict[str, Any]) -> None:
        asked.release()
        await asyncio.sleep(30)

    lost = Engine("standard", dies)
    async with rig(tmp_path, lost, Engine("long", short, window=524_288)) as made:

        async def ask(text: str) -> bytes:
            if not streamed:
                return (await made.ask(say(text, stream=False))).body
            return await read(await made.open(say(text)))

        waiting = [asyncio.create_task(ask(text)) for text in ("a", "b")]
        for _ in waiting:
            await asked.acquire()
        await lost.stop()
        answers = await asyncio.gather(*waiting)
        assert all(b"one " in answer and b"error" not in answer for answer in answers)
        assert made.record("standard").in_flight == made.record("long").in_flight == 0
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body.decode()
        assert 'rigctl_resent_total{cluster="standard"} 2.0' in page
        await lost.start()


async def test_the_losses_of_one_crash_may_come_a_while_apart(tmp_path: Path) -> None:
    """The last of two prompts was not alone: the other's connection only broke before its own."""
    asked = asyncio.Semaphore(0)
    breaks = {"a": asyncio.Event(), "b": asyncio.Event()}

    async def dies(exchange: Exchange, body: dict[str, Any]) -> None:
        asked.release()
        await breaks[body["messages"][0]["content"]].wait()
        exchange.abort()

    async with rig(
        tmp_path, Engine("standard", dies), Engine("long", short, window=524_288)
    ) as made:
        waiting = {text: asyncio.create_task(made.ask(say(text, stream=False))) for text in breaks}
        for _ in waiting:
            await asked.acquire()
        for text, task in waiting.items():
            breaks[text].set()
            assert (await task).status == 200
            await asyncio.sleep(1.5)


async def test_a_server_that_does_not_listen_costs_nothing(tmp_path: Path) -> None:
    """The next one answers, and nobody is sent to the dead one again."""
    gone = Engine("standard", short)
    async with rig(tmp_path, gone, Engine("long", short, window=524_288)) as made:
        await gone.stop()
        got = await made.ask(say(stream=False))
        assert got.status == 200
        assert got.header(b"x-rig-cluster") == b"long"
        again = await made.ask(say("another", stream=False))
        assert again.header(b"x-rig-rule") != b"retry"  # it is known to be down by now
        await gone.start()


async def test_a_prompt_alone_in_prefill_does_not_meet_the_last_healthy_server(
    tmp_path: Path,
) -> None:
    """No daemon says what killed the server: the prompt may have, and its repetition too."""
    asked = asyncio.Event()

    async def dies(exchange: Exchange, body: dict[str, Any]) -> None:
        asked.set()
        await asyncio.sleep(30)

    lost, last = Engine("standard", dies), Engine("long", short, window=524_288)
    async with rig(tmp_path, lost, last) as made:
        waiting = asyncio.create_task(made.ask(say("poison", stream=False)))
        await asked.wait()
        await lost.stop()
        got = await waiting
        assert got.status >= 500
        assert "the only one being read" in json_error(got)
        again = await made.ask(say("poison", stream=False))  # an SDK's own retry
        assert again.status == 400
        assert not last.asked
        assert (await made.ask(say("harmless", stream=False))).status == 200
        await lost.start()


# ---- clients that leave ----------------------------------------------------------------


async def leaving(made: Any, body: dict[str, Any], how: str) -> socket.socket:
    raw = json.dumps(body).encode()
    made_socket = socket.create_connection(("127.0.0.1", made.port))
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    made_socket.sendall(head % len(raw) + raw)
    return made_socket


@pytest.mark.case("C31")
@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_client_that_leaves_ends_the_work_upstream(tmp_path: Path, how: str) -> None:
    """The abort comes before the connection closes, and the slot is free after it."""
    events: list[str] = []

    async def prefills(exchange: Exchange, body: dict[str, Any]) -> None:
        events.append("asked")
        await exchange.gone.wait()
        events.append("closed")

    engine = Engine("standard", prefills)
    async with rig(tmp_path, engine) as made:
        client = await leaving(made, say("x", stream=False), how)
        await made.until(lambda: events)
        assert made.record("standard").in_flight == 1
        if how == "rst":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        await made.until(lambda: engine.aborted)
        assert events == ["asked"]
        await made.until(lambda: "closed" in events)
        await made.until(lambda: made.record("standard").in_flight == 0)
        assert engine.aborted == [engine.asked[0]["rid"]]
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body.decode()
        assert 'outcome="cancelled"} 1.0' in page
        assert made.record("standard").failed == 0


@pytest.mark.case("C31")
async def test_half_a_close_is_no_leaving(tmp_path: Path) -> None:
    """A client that has ended its sending side still waits for its answer."""
    go = asyncio.Event()

    async def slow(exchange: Exchange, body: dict[str, Any]) -> None:
        await go.wait()
        await whole(exchange, "still here")

    async with rig(tmp_path, Engine("standard", slow)) as made:
        client = await leaving(made, say("x", stream=False), "half")
        client.shutdown(socket.SHUT_WR)
        await made.until(lambda: len(made.proxy._live))
        await asyncio.sleep(1.0)
        assert len(made.proxy._live) == 1
        go.set()
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        got = b""
        while b"still here" not in got:
            part = await loop.sock_recv(client, 65536)
            assert part
            got += part
        client.close()


@pytest.mark.case("C31")
async def test_one_that_leaves_while_it_waits_frees_its_place(tmp_path: Path) -> None:
    """It never reaches an engine, so nothing is aborted there."""
    go = asyncio.Event()

    async def slow(exchange: Exchange, body: dict[str, Any]) -> None:
        await go.wait()
        await short(exchange, body)

    engine = Engine("standard", slow, slots=1)
    async with rig(tmp_path, engine) as made:
        first = asyncio.create_task(made.ask(say("first", stream=False)))
        await made.until(lambda: engine.asked)
        client = await leaving(made, say("second", stream=False), "fin")
        await made.until(lambda: len(made.proxy._admission.line) == 1)
        client.close()
        await made.until(lambda: len(made.proxy._admission.line) == 0)
        go.set()
        assert (await first).status == 200
        assert len(engine.asked) == 1
        assert not engine.aborted


async def test_a_client_that_leaves_in_mid_answer_is_aborted_too(tmp_path: Path) -> None:
    """The engine is told, and the slot is free."""

    async def endless(exchange: Exchange, body: dict[str, Any]) -> None:
        await exchange.start(200, SSE)
        while not exchange.gone.is_set():
            await exchange.write(chunk("word "))
            await asyncio.sleep(0.01)

    engine = Engine("standard", endless)
    async with rig(tmp_path, engine) as made:
        got = await made.open(say())
        async for part in got:
            assert part
            break
        got.close()
        await made.until(lambda: engine.aborted)
        await made.until(lambda: made.record("standard").in_flight == 0)


# ---- prompts that are too long -----------------------------------------------------------


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


# ---- quiet engines -----------------------------------------------------------------------


@pytest.mark.case("C40")
async def test_no_clock_runs_against_an_answer_that_goes_on(tmp_path: Path) -> None:
    """A long first byte and long pauses are legal: nothing here gives up by time alone."""

    async def slow(exchange: Exchange, asked: dict[str, Any]) -> None:
        await asyncio.sleep(6.0)  # past httpx's five seconds, the usual default
        await exchange.start(200, SSE)
        for word in ("a", "b"):
            await exchange.write(chunk(word))
            await asyncio.sleep(1.0)
        await exchange.write(chunk(finish="stop") + DONE)
        await exchange.finish()

    async with rig(tmp_path, Engine("standard", slow)) as made:
        text = await read(await made.open(say()))
        assert text.replace(b": rigctl\n", b"").endswith(chunk(finish="stop") + DONE)


async def test_a_kept_connection_that_the_engine_has_closed_is_not_its_fault(
    tmp_path: Path,
) -> None:
    """The same place is asked again over a new one."""
    engine = Engine("standard", short)
    async with rig(tmp_path, engine) as made:
        await made.ask(say("one", stream=False))
        assert engine.server is not None
        for connection in tuple(engine.server.connections):
            connection.abort()
        got = await made.ask(say("two", stream=False))
        assert got.status == 200
        assert made.record("standard").failed == 0
