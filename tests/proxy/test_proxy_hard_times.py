"""Silence, a verdict, a machine that slept: what is cut by them (nothing), and what is told."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import JSON, SSE, Engine, Rig, chunk, rig, say, short

from rigctl.adapters.http1 import Exchange
from rigctl.core.clusters import Standing
from rigctl.core.evidence import Looked, Silent, StandingPolicy
from rigctl.core.ids import Mono
from rigctl.core.standing import observe


class Silence:
    """An engine that says one word, and the next one when it is let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked = 0

    async def __call__(self, exchange: Exchange, asked: dict[str, Any]) -> None:
        self.asked += 1
        await exchange.start(200, SSE)
        await exchange.write(chunk("first"))
        await self.go.wait()
        await exchange.write(chunk(" last") + chunk(finish="stop") + b"data: [DONE]\n\n")
        await exchange.finish()


def freeze(made: Rig, name: str) -> None:
    """Minutes pass in which no byte comes and no counter moves, though looks are answered."""
    record, now = made.record(name), made.proxy._clock.now()
    for second in (0.0, 30.0, 60.0, 120.0, 180.0):
        at = Mono(now - 180.0 + second)
        if second == 0.0:
            record.watch = observe(record.watch, Looked(0.0, 1.0, 0.0, 0.0), at)
            record.watch = replace(record.watch, moved_at=at, work_since=at)
        record.watch = observe(record.watch, Looked(second, 1.0, 0.0, 0.0), at)
        record.watch = observe(record.watch, Silent(second, 1), at)


@pytest.mark.case("C07")
async def test_a_silent_stream_is_cut_by_no_verdict(tmp_path: Path) -> None:
    """Its engine is judged down, new work goes elsewhere, and that is said; the stream itself
    stays, and is whole when the engine goes on."""
    silence = Silence()
    frozen = Engine("standard", silence)
    async with rig(tmp_path, frozen, Engine("long", short, window=524_288)) as made:
        got = await made.open(say())
        first = await anext(aiter(got))
        assert StandingPolicy().frozen <= 60
        freeze(made, "standard")
        word, _, why = made.proxy._board.standing(made.record("standard"))
        assert word is Standing.DOWN
        assert "no byte and no counter moved" in why
        other = await made.ask(say("new", stream=False))
        assert other.header(b"x-rig-cluster") == b"long"
        assert b"no byte and no counter moved" in other.header(b"x-rig-why")
        shown = made.proxy._rows.make(made.proxy._clock.now())
        assert [each.standing for each in shown.clusters] == ["down", "up"]
        assert made.record("standard").in_flight == 1
        silence.go.set()
        rest = b"".join([part async for part in got])
        assert (first + rest).count(b"data: ") == 4
        assert made.proxy._booking.totals["truncated"] == 0


@pytest.mark.case("C91")
async def test_a_machine_that_slept_is_looked_at_before_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing new is sent until a look has passed; what ran is not cut by the jump of a clock."""
    silence = Silence()
    engine = Engine("standard", silence)
    async with rig(tmp_path, engine) as made:
        got = await made.open(say())
        await anext(aiter(got))
        looks: list[str] = []
        proxy = made.proxy
        monkeypatch.setattr(proxy._watcher, "look", lambda: looks.append("look"))
        once = iter([28_800.0])
        monkeypatch.setattr(proxy._sleep_watch, "slept", lambda: next(once, 0.0))
        await made.until(lambda: looks)
        word, _, why = proxy._board.standing(made.record("standard"))
        assert word is Standing.SUSPECT
        assert "slept" in why
        waiting = asyncio.create_task(made.ask(say("new", stream=False)))
        await made.until(lambda: len(proxy._admission.line))
        assert silence.asked == 1
        monkeypatch.undo()
        proxy._watcher.look()
        await made.until(lambda: silence.asked == 2)
        silence.go.set()
        assert (await waiting).status == 200
        rest = b"".join([part async for part in got])
        assert rest.endswith(b"data: [DONE]\n\n")
        assert made.record("standard").failed == 0


async def test_refusals_tell_nothing_of_how_long_answers_take(tmp_path: Path) -> None:
    """A client that sends nonsense all day must not make waiting look short."""

    async def refuses(exchange: Exchange, asked: dict[str, Any]) -> None:
        body = {"object": "error", "message": "no such tool", "code": 400}
        await exchange.respond(400, json.dumps(body).encode(), JSON)

    async with rig(tmp_path, Engine("standard", refuses)) as made:
        before = made.record("standard").answer_seconds
        for _ in range(3):
            got = await made.ask(say(stream=False))
            assert json.loads(got.body)["error"]["code"] == "invalid_request"
        assert made.record("standard").answer_seconds == before


async def test_a_thousand_clients_and_sessions_leave_bounded_memory(tmp_path: Path) -> None:
    """Whatever they send: what is kept of them has limits, and what ran is gone."""
    async with rig(tmp_path, Engine("standard", short), queue_limit=2_000) as made:
        for start in range(0, 1_000, 50):
            await asyncio.gather(
                *(
                    made.ask(
                        say(f"task {number}", stream=False, reasoning_effort=f"level{number}"),
                        headers=[(b"x-session-id", b"%d" % number)],
                    )
                    for number in range(start, start + 50)
                )
            )
        proxy = made.proxy
        made.proxy._rows.make(proxy._clock.now())
        assert len(proxy._live) == 0
        assert len(proxy._admission.line) == 0
        assert proxy._live.bodies == 0
        assert not proxy._rows._paces._before
        assert not proxy._rows._loops._looked
        assert len(proxy._routes._records) == 500
        assert len(proxy._routes._owners) <= 4_096
        assert len(proxy._accounts._accounts) == 1
        assert len(proxy._serving._kept_efforts) <= 4_096
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body
        assert page.count(b"\n") < 400
