"""What people see of the requests that run: the rows, made by a proxy that serves them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import DONE, SSE, Engine, Rig, chunk, rig, say, short, stream, whole

from rigctl.adapters.http1 import Exchange
from rigctl.core.flow import FlowRows
from rigctl.core.ids import GroupName
from rigctl.core.link_words import Progress

STANDARD = GroupName("standard")


def rows(made: Rig) -> FlowRows:
    """As the daemon is told."""
    return made.proxy._rows.make(made.proxy._clock.now())


async def read(made: Rig, body: dict[str, Any]) -> None:
    """A stream to its end."""
    async for _ in await made.open(body):
        pass


@contextlib.asynccontextmanager
async def going(*work: Any) -> AsyncIterator[None]:
    """These run meanwhile, and are given up at the end."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def odd(exchange: Exchange, asked: dict[str, Any]) -> None:
    """All thought, the same again and again, or a proper answer: as the last message asks."""
    thought = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hmm "}}]}\n\n'
    match asked["messages"][-1]["content"]:
        case "think":
            await stream(exchange, thought, chunk(finish="length"), DONE)
        case "loop":
            same = [chunk("I will now check the file again. ")] * 400
            await stream(exchange, *same, chunk(finish="length"), DONE)
        case _:
            await short(exchange, asked)


@pytest.mark.parametrize(("ask", "flag"), [("think", "all-thought"), ("loop", "repeats")])
async def test_a_session_shows_what_was_odd_about_its_last_answer(
    tmp_path: Path, ask: str, flag: str
) -> None:
    """Until its next one."""
    async with rig(tmp_path, Engine("standard", odd)) as made:
        body = say("who am I")
        body["messages"] += [{"role": "assistant", "content": "you"}]
        body["messages"] += [{"role": "user", "content": ask}]
        await read(made, body)
        (row,) = rows(made).sessions
        assert (row.state, row.flags) == ("resting", (flag,))
        body["messages"] += [{"role": "assistant", "content": ""}]
        body["messages"] += [{"role": "user", "content": "well?"}]
        await read(made, body)
        (row,) = rows(made).sessions
        assert (row.state, row.flags, row.turn) == ("resting", (), 2)


async def test_tokens_are_told_where_an_event_holds_several(tmp_path: Path) -> None:
    """An engine that speculates writes some tokens at once: one answer tells how many."""
    go = asyncio.Event()

    async def fours(exchange: Exchange, asked: dict[str, Any]) -> None:
        usage = json.dumps({"prompt_tokens": 8, "completion_tokens": 160, "total_tokens": 168})
        await exchange.start(200, SSE)
        for _ in range(40):
            await exchange.write(chunk("four tokens of text "))
        if asked["messages"][0]["content"] == "slow":
            await go.wait()
        end = (
            b'data: {"id":"x","choices":[],"usage":%b}\n\n' % str(usage).replace("'", '"').encode()
        )
        await exchange.write(chunk(finish="stop") + end + DONE)
        await exchange.finish()

    async with rig(tmp_path, Engine("standard", fours)) as made:
        await read(made, say("quick"))
        async with going(read(made, say("slow"))):
            await made.until(lambda: rows(made).sessions[0].produced == 160)
            row = rows(made).sessions[0]
            assert row.state == "answering"
            assert row.context == 160 + made.proxy._board.get(STANDARD).held_tokens - 16
            go.set()
            await made.until(lambda: not len(made.proxy._live))


async def test_a_stall_is_not_laid_to_a_small_request_beside_a_large_one(tmp_path: Path) -> None:
    """An answer that is not streamed shows no first byte: it may be older than who is to blame."""

    async def engine(exchange: Exchange, asked: dict[str, Any]) -> None:
        if asked["stream"] and asked["messages"][0]["content"] == "talk":
            await exchange.start(200, SSE)
            await exchange.write(chunk("w "))
        await asyncio.sleep(60)

    standard = Engine("standard", engine)
    async with (
        rig(tmp_path, standard) as made,
        going(
            made.ask(say("a title", stream=False)),
            read(made, say("talk")),
        ),
    ):
        await made.until(lambda: len(standard.asked) == 2)
        async with going(read(made, say("P " + "word " * 60_000))):
            await made.until(lambda: len(standard.asked) == 3)
            await made.until(lambda: any(r.state == "stalled" for r in rows(made).sessions))
            found = rows(made)
            largest = max(found.sessions, key=lambda row: row.context)
            assert found.clusters[0].culprit == largest.session
            (stalled,) = [row for row in found.sessions if row.state == "stalled"]
            assert stalled.behind == largest.session


async def test_an_engine_that_only_decodes_has_read_what_is_not_streamed(tmp_path: Path) -> None:
    """The daemon's word on it tells; but not of a request that came since it looked."""

    async def engine(exchange: Exchange, asked: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    standard = Engine("standard", engine)
    async with (
        rig(tmp_path, standard) as made,
        going(made.ask(say("a title", stream=False)), read(made, say("to be read"))),
    ):
        await made.until(lambda: len(standard.asked) == 2)
        unread = made.record("standard").unread
        assert len(unread) == 2
        decodes = Progress(STANDARD, "decoding")
        made.proxy._hear(decodes)
        assert len(unread) == 2, "it may have been looked at before they came"
        for request in made.proxy._live:
            request.sent -= 3.0
        made.proxy._hear(Progress(STANDARD, "prefilling"))
        assert len(unread) == 2
        made.proxy._hear(decodes)
        (left,) = unread
        assert made.proxy._live.find(left).ask.stream


async def test_a_session_that_waits_is_shown_once_and_by_its_name(tmp_path: Path) -> None:
    """And its requests count as its own in the line: one session's many wait behind another's."""
    go, order = asyncio.Semaphore(1), []

    async def one_at_a_time(exchange: Exchange, asked: dict[str, Any]) -> None:
        order.append(asked["messages"][0]["content"][-1])
        await go.acquire()
        await whole(exchange, "one two")

    def turn(who: str, number: int) -> dict[str, Any]:
        body = say(f"I am {who}", stream=False)
        for at in range(number):
            body["messages"] += [{"role": "assistant", "content": f"answer {at}"}]
            body["messages"] += [{"role": "user", "content": f"and then {at}"}]
        return body

    async with rig(tmp_path, Engine("standard", one_at_a_time, slots=1)) as made:
        label = (await made.ask(turn("B", 1))).header(b"x-rig-session").decode()
        async with going(made.ask(turn("A", 1))):
            await made.until(lambda: len(order) == 2)
            async with going(made.ask(turn("B", 2))):
                await made.until(lambda: len(made.proxy._admission.line) == 1)
                shown = [row for row in rows(made).sessions if row.session == label]
                assert [row.state for row in shown] == ["queued"]
                (place,) = made.proxy._admission.line.places(made.proxy._clock.now())
                assert place.session == label


async def test_a_session_that_leaves_its_home_says_so(tmp_path: Path) -> None:
    """Its home is closed: the other one reads its prompt anew."""
    engines = Engine("standard", short), Engine("long", short, window=524_288)
    async with rig(tmp_path, *engines) as made:
        body = say("who am I")
        await read(made, body)
        made.change("standard", gate="closed", state="stopped")
        seen: list[tuple[str, ...]] = []
        made.proxy._booking.ended = _listening(made.proxy._booking.ended, seen)
        body["messages"] += [{"role": "assistant", "content": "one two"}]
        body["messages"] += [{"role": "user", "content": "and?"}]
        await read(made, body)
        await made.until(lambda: made.proxy and seen)
        assert seen == [("moved",)]


async def test_what_messages_cannot_do_is_shown_also_on_a_rig_that_lacks_nothing(
    tmp_path: Path,
) -> None:
    """`/v1/messages` takes neither sessions nor budgets, whatever its engine was started with."""
    all_of_it = {"header_rid": True, "session_radix": True, "strict_thinking": True}
    async with rig(tmp_path, Engine("standard", short), rows={"standard": all_of_it}) as made:
        (said,) = rows(made).off
        assert said.startswith("/v1/messages: session ids and thinking budgets are not passed on")
        made.change("standard", gate="closed", state="stopped")
        assert rows(made).off == ()


def _listening(ended: Any, seen: list[tuple[str, ...]]) -> Any:
    def heard(request: Any, *more: Any) -> None:
        seen.append(tuple(sorted(request.flags)))
        ended(request, *more)

    return heard
