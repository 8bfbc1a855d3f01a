"""The waiting line as clients meet it: who was let in is not put out again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from proxy_kit import Engine, rig, say, short

from rigctl.adapters.http1 import Exchange


async def test_who_was_let_in_is_not_refused_for_a_full_line(tmp_path: Path) -> None:
    """Lost before its first byte while others wait: it waits with them, unnoticed."""
    die, go = asyncio.Event(), asyncio.Event()

    async def dying(exchange: Exchange, asked: dict[str, Any]) -> None:
        await die.wait()
        exchange.abort()

    async def held(exchange: Exchange, asked: dict[str, Any]) -> None:
        await go.wait()
        await short(exchange, asked)

    standard = Engine("standard", dying, slots=1)
    long = Engine("long", held, window=524_288, slots=2, pool=600_000)
    async with rig(tmp_path, standard, long, queue_limit=1) as made:
        lost = asyncio.create_task(made.ask(say("first in", stream=False)))
        await made.until(lambda: len(standard.asked) == 1)
        large = say("word " * 250_000, stream=False)
        others = [asyncio.create_task(made.ask(large)) for _ in range(2)]
        await made.until(lambda: len(long.asked) == 1 and len(made.proxy._admission.line) == 1)
        die.set()
        await made.until(lambda: len(made.proxy._admission.line) == 2)
        go.set()
        assert [got.status for got in await asyncio.gather(lost, *others)] == [200] * 3


async def test_a_shorter_line_throws_nobody_out(tmp_path: Path) -> None:
    """A reload of the table with a smaller limit counts for newcomers."""
    go = asyncio.Event()

    async def held(exchange: Exchange, asked: dict[str, Any]) -> None:
        await go.wait()
        await short(exchange, asked)

    async with rig(tmp_path, Engine("standard", held, slots=1)) as made:
        waiting = [asyncio.create_task(made.ask(say(f"t{n}", stream=False))) for n in range(4)]
        await made.until(lambda: len(made.proxy._admission.line) == 3)
        made.give(policy=replace(made.table.policy, queue_limit=1))
        assert (await made.ask(say("new", stream=False))).status == 503
        go.set()
        assert [got.status for got in await asyncio.gather(*waiting)] == [200] * 4
