"""Clients that leave, and people who end requests: what becomes of the slot, and what is said."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import CHAT, SSE, Engine, Rig, chunk, rig, say, short, whole

from rigctl.adapters.http1 import Exchange
from rigctl.core.link_words import AbortRequest


def ask_and_go(made: Rig, body: dict[str, Any], path: str = CHAT) -> socket.socket:
    """A request whose answer is not waited for; close what is returned to leave."""
    raw = json.dumps(body).encode()
    line = socket.create_connection(("127.0.0.1", made.port))
    head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    line.sendall(head % (path.encode(), len(raw)) + raw)
    return line


class Stubborn:
    """An engine that works on after its client has gone, until it is let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, exchange: Exchange, asked: dict[str, Any]) -> None:
        await self.go.wait()
        await whole(exchange, "late")


@pytest.mark.case("C31")
@pytest.mark.parametrize(
    ("body", "path", "refused"),
    [
        (say(stream=False, n=2), CHAT, 200),
        (say(stream=False), "/v1/messages", 200),
        (say(stream=False), CHAT, 401),
        (say(stream=False), CHAT, 404),
    ],
    ids=["n of two", "messages without an id", "abort 401", "abort 404"],
)
async def test_a_slot_is_free_when_the_engine_says_so(
    tmp_path: Path, body: dict[str, Any], path: str, refused: int
) -> None:
    """Where no abort can reach a request its engine notices the closed connection in its own
    time; until then the slot is given to nobody, or a prompt would wait there unseen."""
    script = Stubborn()
    engine = Engine("standard", script, abort_status=refused)
    async with rig(tmp_path, engine) as made:
        line = ask_and_go(made, body, path)
        await made.until(lambda: engine.asked)
        line.close()
        await made.until(lambda: not len(made.proxy._live))
        await asyncio.sleep(0.7)  # over the first look
        record = made.record("standard")
        assert record.in_flight == 1
        assert record.slots_taken == body.get("n", 1)
        script.go.set()
        await made.until(lambda: not record.in_flight)
        assert record.slots_taken == 0
        said = " ".join(made.proxy._rows.make(made.proxy._clock.now()).off)
        assert (f"/abort_request answered {refused}" in said) == (refused != 200)


async def test_one_that_leaves_as_its_whole_answer_comes_takes_no_slot_along(
    tmp_path: Path,
) -> None:
    """Gone, and the answer is there before anybody has heard of it."""
    script = Stubborn()
    engine = Engine("standard", script)
    async with rig(tmp_path, engine) as made:
        line = ask_and_go(made, say(stream=False))
        await made.until(lambda: engine.asked)
        [request] = made.proxy._live
        request.exchange.on_gone = None
        request.exchange.is_gone = True
        script.go.set()
        await made.until(lambda: not len(made.proxy._live))
        record = made.record("standard")
        assert (record.in_flight, record.held_tokens, record.unread) == (0, 0, {})
        line.close()


async def test_a_failure_of_our_own_takes_no_slot_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is: the client is told that it failed here, and the next one has its place."""
    engine = Engine("standard", short, slots=1)
    async with rig(tmp_path, engine) as made:
        serving = made.proxy._serving
        with monkeypatch.context() as patched:
            patched.setattr(serving, "_wishes", None)  # called, it raises
            got = await made.ask(say(stream=False))
        assert got.status == 500
        assert made.record("standard").in_flight == 0
        assert (await made.ask(say(stream=False))).status == 200


@pytest.mark.case("C31")
async def test_one_that_leaves_while_its_loss_is_judged_is_not_put_in_the_line(
    tmp_path: Path,
) -> None:
    """Nobody would take it off again, and its place would count against those who wait. What is
    found out of the crash still counts for its next try."""
    asked = asyncio.Event()

    async def dies(exchange: Exchange, body: dict[str, Any]) -> None:
        asked.set()
        await asyncio.sleep(30)

    engine = Engine("standard", dies)
    other = Engine("long", Stubborn(), window=524_288, slots=1)
    async with rig(tmp_path, engine, other) as made:
        made.proxy._serving._judge._linked = lambda: True
        line = ask_and_go(made, say("poison"))
        await asked.wait()
        made.change("long", state="starting", gate="closed")
        await engine.stop()
        await made.until(lambda: made.record("standard").failed)
        line.close()
        await made.until(lambda: not len(made.proxy._live))
        assert len(made.proxy._admission.line) == 0
        assert made.record("standard").in_flight == 0
        assert len(made.proxy._serving._judge._poison) == 1
        await engine.start()


@pytest.mark.case("C33")
async def test_one_that_closes_behind_the_finish_reason_has_had_its_answer(
    tmp_path: Path,
) -> None:
    """It does not wait for `[DONE]`: that is a complete answer, and no leaving."""
    go = asyncio.Event()

    async def dawdles(exchange: Exchange, asked: dict[str, Any]) -> None:
        await exchange.start(200, SSE)
        await exchange.write(chunk("one") + chunk(finish="stop"))
        await go.wait()

    async with rig(tmp_path, Engine("standard", dawdles)) as made:
        line = ask_and_go(made, say())
        said = b""
        async with asyncio.timeout(10):
            while b'"stop"' not in said:
                said += await asyncio.to_thread(line.recv, 65536)
        line.close()
        await made.until(lambda: not len(made.proxy._live))
        go.set()
        assert made.proxy._booking.totals["complete"] == 1
        assert made.proxy._booking.totals["cancelled"] == 0
        await made.until(lambda: not made.record("standard").in_flight)


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
async def test_what_a_person_has_ended_does_not_come_back_by_itself(
    tmp_path: Path, path: str
) -> None:
    """The SDKs ask again after a 409, unless they are told not to."""
    script = Stubborn()
    engine = Engine("standard", script)
    async with rig(tmp_path, engine) as made:
        asking = asyncio.create_task(made.ask(say(stream=False), path))
        await made.until(lambda: engine.asked)
        [request] = made.proxy._live
        made.proxy._hear(AbortRequest(request.id))
        got = await asking
        assert got.status == 409
        assert got.header(b"x-should-retry") == b"false"
        script.go.set()
        with contextlib.suppress(TimeoutError):
            await made.until(lambda: not made.record("standard").in_flight)
        assert made.record("standard").in_flight == 0
