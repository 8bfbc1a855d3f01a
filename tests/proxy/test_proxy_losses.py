"""What the endpoint does when an engine or a client fails it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import DONE, SSE, Engine, chunk, json_error, rig, say, short, whole

from rigctl.adapters.http1 import Exchange
from rigctl.core.ids import GroupName
from rigctl.core.link_words import Progress


async def read(got: Any) -> bytes:
    return b"".join([part async for part in got])


async def silent(exchange: Exchange, body: dict[str, Any]) -> None:
    """It reads the prompt until it is ended."""
    await asyncio.sleep(30)


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

    lost = Engine("standard", dies)
    async with rig(tmp_path, lost, Engine("long", short, window=524_288)) as made:
        waiting = {text: asyncio.create_task(made.ask(say(text, stream=False))) for text in breaks}
        for _ in waiting:
            await asked.acquire()
        lost.deaf = True
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
    lost, last = Engine("standard", silent), Engine("long", short, window=524_288)
    async with rig(tmp_path, lost, last) as made:
        waiting = asyncio.create_task(made.ask(say("poison", stream=False)))
        await made.until(lambda: lost.asked)
        await lost.stop()
        got = await waiting
        assert got.status >= 500
        assert "the only one being read" in json_error(got)
        again = await made.ask(say("poison", stream=False))  # an SDK's own retry
        assert again.status == 400
        assert not last.asked
        assert (await made.ask(say("harmless", stream=False))).status == 200
        await lost.start()


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("how", ["reset", "empty"])
async def test_a_server_that_lives_has_not_been_crashed_by_a_prompt(
    tmp_path: Path, how: str, linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a connection broke, or an answer was none: the other one is asked, unnoticed."""

    async def drops(exchange: Exchange, body: dict[str, Any]) -> None:
        if how == "empty":
            await exchange.start(200, SSE)
            await exchange.finish()
        else:
            exchange.abort()

    monkeypatch.setattr("rigctl.proxy.judging.VERDICT", 0.3)
    last = Engine("long", short, window=524_288)
    async with rig(tmp_path, Engine("standard", drops), last) as made:
        monkeypatch.setattr(made.proxy._serving._judge, "_linked", lambda: linked)
        for _ in range(2):
            got = await made.ask(say("harmless"))
            assert got.status == 200
            assert b"one " in got.body
        assert len(last.asked) == 2


async def test_what_only_decoded_is_not_what_crashed_its_server(tmp_path: Path) -> None:
    """An answer that is not streamed shows no first byte, but its prompt had been read."""
    lost, last = Engine("standard", silent), Engine("long", short, window=524_288)
    async with rig(tmp_path, lost, last) as made:
        waiting = asyncio.create_task(made.ask(say("a title", stream=False)))
        other = asyncio.create_task(made.ask(say("to be read", stream=True)))
        await made.until(lambda: len(lost.asked) == 2)
        for request in made.proxy._live:
            request.sent -= 3.0
        made.proxy._hear(Progress(GroupName("standard"), "decoding"))
        other.cancel()
        await made.until(lambda: len(made.proxy._live) == 1)
        await lost.stop()
        got = await waiting
        assert (got.status, got.header(b"x-rig-cluster")) == (200, b"long")
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
