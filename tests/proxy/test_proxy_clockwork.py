"""What the proxy does by the clock, beside its answers: none of it may hold another up."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import SSE, Engine, Rig, chunk, rig, say, short

from rigctl.adapters.http1 import Exchange
from rigctl.core.home import Ended
from rigctl.core.ids import GroupName, Mono


class Endless:
    """An engine whose answers go on until they are let end."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = parts
        self.go = asyncio.Event()

    async def __call__(self, exchange: Exchange, asked: dict[str, Any]) -> None:
        await exchange.start(200, SSE)
        for part in self.parts:
            await exchange.write(part)
        await self.go.wait()
        await exchange.write(chunk(finish="stop"))
        await exchange.finish()


def rows(made: Rig, later: float = 0.0) -> Any:
    return made.proxy._rows.make(Mono(made.proxy._clock.now() + later))


async def test_an_engine_that_takes_no_sessions_end_holds_up_no_comment(tmp_path: Path) -> None:
    """Each may take seconds to be told, and a hundred may end at once."""
    go = asyncio.Event()
    endless = Endless(chunk("a"))
    engine = Engine("standard", endless, hold_closing=go)
    async with rig(
        tmp_path, engine, rows={"standard": {"session_radix": True}}, keep_alive=0.3
    ) as made:
        made.proxy._ends.tell(
            Ended(f"{number:08x}", GroupName("standard"), "one") for number in range(3)
        )
        got = await made.open(say())
        said = b""
        async for part in got:
            said += part
            if said.count(b": rigctl\n") == 3:
                break
        assert not engine.closed
        go.set()
        await made.until(lambda: len(engine.closed) == 3)
        endless.go.set()
        got.close()


async def test_sessions_of_an_earlier_start_are_not_named_to_the_next(tmp_path: Path) -> None:
    """Nor to an engine that keeps none, nor to one that is not there."""
    engine = Engine("standard", short)
    async with rig(tmp_path, engine, rows={"standard": {"session_radix": True}}) as made:
        ends = [("old", "standard", "zero"), ("none", "long", "one"), ("now", "standard", "one")]
        made.proxy._ends.tell(Ended(label, GroupName(at), run) for label, at, run in ends)
        await made.until(lambda: engine.closed)
        made.change("standard", session_radix=False)
        made.proxy._ends.tell([Ended("late", GroupName("standard"), "one")])
        assert made.proxy._ends._task is None
        assert engine.closed == ["now"]


async def test_a_loop_is_seen_while_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has no end at which it could be judged; the log names it once, and not its words."""
    endless = Endless(*[chunk("and then the secret cat sat down again; ")] * 150)
    async with rig(tmp_path, Engine("standard", endless)) as made:
        got = await made.open(say())
        [request] = made.proxy._live
        await made.until(lambda: request.attempt and request.attempt.reader.progress == 150)
        with caplog.at_level(logging.WARNING):
            for later in (6.0, 12.0, 12.5):
                [row] = rows(made, later).sessions
                assert row.flags == ("repeats",)
        said = [each for each in caplog.messages if "repeats itself" in each]
        assert len(said) <= 1
        assert "cat" not in caplog.text
        endless.go.set()
        await got.body()
        [row] = rows(made).sessions
        assert row.state == "resting"


async def test_an_answer_that_says_something_new_each_time_is_no_loop(tmp_path: Path) -> None:
    """However long it runs."""
    endless = Endless(*[chunk(f"line {number} of the table; ") for number in range(300)])
    async with rig(tmp_path, Engine("standard", endless)) as made:
        got = await made.open(say())
        [request] = made.proxy._live
        await made.until(lambda: request.attempt and request.attempt.reader.progress == 300)
        assert rows(made, 6.0).sessions[0].flags == ()
        endless.go.set()
        await got.body()


async def test_a_resting_session_has_an_owner(tmp_path: Path) -> None:
    """The last client that asked in it."""
    async with rig(tmp_path, Engine("standard", short)) as made:
        await made.ask(say(stream=False))
        [row] = rows(made).sessions
        assert (row.state, row.client) == ("resting", "-")


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_an_end_before_the_answers_is_told_to_each(tmp_path: Path, stream: bool) -> None:
    """Past the drain's limit: an error in-band where bytes have gone out, else a 503 that asks to
    come again; and the engine is told to stop."""
    endless = Endless(chunk("a"))
    engine = Engine("standard", endless, slots=1)
    async with rig(tmp_path, engine) as made:
        got = await made.open(say())
        await anext(aiter(got))
        waiting = asyncio.create_task(made.ask(say("second", stream=stream)))
        await made.until(lambda: len(made.proxy._admission.line))
        made.proxy.end()
        rest = b"".join([part async for part in got])
        assert b'"code":"restarting"' in rest
        assert rest.endswith(b"data: [DONE]\n\n")
        refused = await waiting
        assert refused.status == 503
        assert refused.header(b"retry-after") == b"1"
        assert "ask again" in json.loads(refused.body)["error"]["message"]
        await made.until(lambda: engine.aborted)
        endless.go.set()
