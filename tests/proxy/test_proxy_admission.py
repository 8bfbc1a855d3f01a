"""Who gets a place, who waits, who is refused: the rules as a client meets them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import Engine, json_error, rig, say, short, whole

from rigctl.adapters.http1 import Exchange
from rigctl.core.link_words import TableClient


class Held:
    """Engines that answer when they are told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, exchange: Exchange, asked: dict[str, Any]) -> None:
        await self.go.wait()
        await short(exchange, asked)


def asks(made: Any, count: int, **more: Any) -> list[asyncio.Task[Any]]:
    return [
        asyncio.create_task(made.ask(say(f"task {each}", stream=False, **more)))
        for each in range(count)
    ]


@pytest.mark.case("C19")
async def test_ten_short_requests_at_once_run_six_and_four(tmp_path: Path) -> None:
    """With one identical opening of thousands of characters, and no id to tell them apart."""
    held = Held()
    standard = Engine("standard", held)
    long = Engine("long", held, window=524_288, pool=650_000)
    opening = {"role": "system", "content": "You are a coding agent. " * 600}
    async with rig(tmp_path, standard, long) as made:

        def body(text: str) -> dict[str, Any]:
            return {**say(stream=False), "messages": [opening, {"role": "user", "content": text}]}

        first = [asyncio.create_task(made.ask(body(f"fix bug {each}"))) for each in range(10)]
        await made.until(lambda: len(standard.asked) + len(long.asked) == 10)
        assert (len(standard.asked), len(long.asked)) == (6, 4)
        assert len(made.proxy._admission.line) == 0
        held.go.set()
        homes = [each.header(b"x-rig-cluster") for each in await asyncio.gather(*first)]
        for each, home in enumerate(homes):  # every second turn goes where its first one went
            turn = body(f"fix bug {each}")
            turn["messages"] += [
                {"role": "assistant", "content": "one two"},
                {"role": "user", "content": "go on"},
            ]
            got = await made.ask(turn)
            assert got.header(b"x-rig-cluster") == home
            assert got.header(b"x-rig-rule") == b"home"


async def test_a_full_line_is_said_with_a_whole_number_of_seconds(tmp_path: Path) -> None:
    """503 for OpenAI clients, 529 for Anthropic's, each with a Retry-After that SDKs obey."""
    held = Held()
    async with rig(tmp_path, Engine("standard", held, slots=1), queue_limit=2) as made:
        waiting = asks(made, 3)
        await made.until(lambda: len(made.proxy._admission.line) == 2)
        got = await made.ask(say("one more", stream=False))
        assert got.status == 503
        assert json.loads(got.body)["error"]["code"] == "queue_full"
        assert 1 <= int(got.header(b"retry-after")) <= 60
        other = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
        got = await made.ask(other, "/v1/messages")
        assert got.status == 529
        assert json.loads(got.body)["error"]["type"] == "overloaded_error"
        held.go.set()
        assert [each.status for each in await asyncio.gather(*waiting)] == [200, 200, 200]


async def test_waiting_is_shown_with_place_and_reason(tmp_path: Path) -> None:
    """The rows tell who runs, who waits, and in which place."""
    held = Held()
    async with rig(tmp_path, Engine("standard", held, slots=1)) as made:
        waiting = asks(made, 3)
        await made.until(lambda: len(made.proxy._admission.line) == 2)
        rows = made.proxy._rows.make(made.proxy._clock.now())
        assert rows.queued == 2
        states = sorted(row.state for row in rows.sessions)
        assert states == ["prefilling", "queued", "queued"]
        said = sorted(row.say for row in rows.sessions if row.state == "queued")
        assert said[0].startswith("place 1 of 2")
        assert said[1].startswith("place 2 of 2")
        assert rows.clusters[0].waiting == 2
        held.go.set()
        await asyncio.gather(*waiting)


async def test_a_clients_limit_lets_others_pass(tmp_path: Path) -> None:
    """A client over its limit waits; the free slots are not kept from others."""
    held = Held()
    keys = {"anna": "key-a", "ben": "key-b"}
    clients = tuple(
        TableClient(name, hashlib.sha256(key.encode()).hexdigest(), 1 if name == "anna" else None)
        for name, key in keys.items()
    )
    engine = Engine("standard", held)

    async def ask(made: Any, who: str, text: str) -> Any:
        field = (b"authorization", f"Bearer {keys[who]}".encode())
        return await made.ask(say(text, stream=False), headers=[field])

    async with rig(tmp_path, engine, clients=clients) as made:
        first = [asyncio.create_task(ask(made, "anna", f"a{each}")) for each in range(2)]
        await made.until(lambda: len(made.proxy._admission.line) == 1)
        ben = asyncio.create_task(ask(made, "ben", "b"))
        await made.until(lambda: len(engine.asked) == 2)  # one of anna's, and ben's
        held.go.set()
        assert [each.status for each in await asyncio.gather(*first, ben)] == [200, 200, 200]
        rows = made.proxy._rows.make(made.proxy._clock.now())
        sums = {row.client: row for row in rows.clients}
        assert sums["anna"].requests == 2
        assert sums["anna"].limit == 1
        assert sums["ben"].prompt_tokens == 12


async def test_a_client_over_its_limit_fills_its_own_line_only(tmp_path: Path) -> None:
    """Its line is as long as everybody's; past that it is refused, and others still may wait."""
    held = Held()
    clients = tuple(
        TableClient(name, hashlib.sha256(name.encode()).hexdigest(), limit)
        for name, limit in (("anna", 1), ("ben", None))
    )
    engine = Engine("standard", held, slots=2)

    def ask(made: Any, who: str, text: str) -> asyncio.Task[Any]:
        body = say(text, stream=False)
        return asyncio.create_task(made.ask(body, headers=[(b"x-api-key", who.encode())]))

    async with rig(tmp_path, engine, clients=clients, queue_limit=3) as made:
        asked = [ask(made, "anna", "a0")]
        await made.until(lambda: engine.asked)
        asked += [ask(made, "anna", f"a{each}") for each in range(1, 4)]
        await made.until(lambda: len(made.proxy._admission.line) == 3)
        refused = await ask(made, "anna", "a4")
        assert refused.status == 503
        assert refused.header(b"retry-after") == b"10"
        assert "3 of its own wait" in json_error(refused)
        asked.append(ask(made, "ben", "b0"))
        await made.until(lambda: len(engine.asked) == 2)
        asked += [ask(made, "ben", f"b{each}") for each in range(1, 3)]
        await made.until(lambda: len(made.proxy._admission.line) == 5)
        held.go.set()
        assert [each.status for each in await asyncio.gather(*asked)] == [200] * 7


async def test_no_key_no_answer(tmp_path: Path) -> None:
    """A wrong key is refused, never echoed, and no key is passed on to an engine."""
    known = TableClient("anna", hashlib.sha256(b"key").hexdigest())
    engine = Engine("standard", short)
    async with rig(tmp_path, engine, clients=(known,)) as made:
        for path, field in (
            ("/v1/chat/completions", ()),
            ("/v1/chat/completions", [(b"authorization", b"Bearer other")]),
            ("/v1/messages", [(b"x-api-key", b"other")]),
        ):
            got = await made.ask(say(stream=False), path, headers=field)
            assert got.status == 401
            assert b"other" not in got.body
        got = await made.ask(say(stream=False), headers=[(b"x-api-key", b"key")])
        assert got.status == 200
        assert not {b"x-api-key", b"authorization"} & {name for name, _ in engine.heads[0].headers}
        assert (await made.http.get("127.0.0.1", made.port, "/livez")).status == 200
        assert (await made.http.get("127.0.0.1", made.port, "/v1/models")).status == 401


# ---- the gate ----------------------------------------------------------------------------


async def test_a_draining_cluster_gets_nothing_new_and_loses_nothing(tmp_path: Path) -> None:
    """New work goes elsewhere, sessions at home there too; what runs finishes; a reloaded table
    cuts no stream."""
    held = Held()
    standard, long = Engine("standard", held), Engine("long", held, window=524_288)
    async with rig(tmp_path, standard, long) as made:
        running = asks(made, 1)
        await made.until(lambda: standard.asked)
        made.change("standard", state="draining", gate="finish", drain=3)
        record = made.record("standard")
        state = made.proxy._board.gate(record, 0)
        assert (state.gate, state.drain, state.in_flight) == ("finish", 3, 1)
        other = asyncio.create_task(made.ask(say("new", stream=False)))
        await made.until(lambda: long.asked)
        held.go.set()
        assert [each.status for each in await asyncio.gather(*running, other)] == [200, 200]
        state = made.proxy._board.gate(record, 0)
        assert (state.gate, state.in_flight) == ("closed", 0)
        again = await made.ask(say("task 0", stream=False))
        assert again.header(b"x-rig-cluster") == b"long"
        made.change("standard", state="ready", gate="open", drain=0)
        assert made.proxy._board.gate(record, 0).gate == "open"


@pytest.mark.case("C41")
async def test_requests_wait_for_a_cluster_that_starts(tmp_path: Path) -> None:
    """They are held, not refused, and answered once it is ready."""
    engine = Engine("standard", short)
    async with rig(tmp_path, engine, hold=30.0) as made:
        made.change("standard", state="starting", gate="closed", say="weights", eta=20.0)
        waiting = asks(made, 2)
        await made.until(lambda: len(made.proxy._admission.line) == 2)
        rows = made.proxy._rows.make(made.proxy._clock.now())
        assert {row.state for row in rows.sessions} == {"held"}
        made.change("standard", state="ready", gate="open", run="two")
        assert [each.status for each in await asyncio.gather(*waiting)] == [200, 200]


@pytest.mark.case("C41")
async def test_past_the_limit_of_holding_they_are_told_when_to_come_back(tmp_path: Path) -> None:
    """Then 503 with whole seconds, at most sixty."""
    async with rig(tmp_path, Engine("standard", short), hold=0.5) as made:
        made.change("standard", state="starting", gate="closed", say="weights", eta=300.0)
        got = await made.ask(say(stream=False))
        assert got.status == 503
        assert 1 <= int(got.header(b"retry-after")) <= 60
        assert "standard" in json_error(got)


async def test_leaving_finishes_what_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    """SIGTERM's drain: the address refuses, the answers under way end well."""
    held = Held()
    async with rig(tmp_path, Engine("standard", held)) as made:
        running = asks(made, 2)
        await made.until(lambda: made.record("standard").in_flight == 2)
        made.proxy.leave("SIGTERM")
        await made.until(lambda: not made.proxy._server.sockets)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", made.port)
        held.go.set()
        assert [each.status for each in await asyncio.gather(*running)] == [200, 200]


# ---- what is asked of an engine ------------------------------------------------------------


async def test_what_engines_need_is_put_in_and_what_clients_may_not_is_taken_out(
    tmp_path: Path,
) -> None:
    """Ids are ours, steering keys are gone, a thinking budget stays under the owner's cap."""
    engine = Engine("standard", short)
    row = {"session_radix": True, "strict_thinking": True, "think_budget": 5000}
    async with rig(tmp_path, engine, rows={"standard": row}) as made:
        wishes = {"rid": "mine", "session_id": "s", "priority": 9, "cache_salt": "x"}
        wishes |= {"custom_params": {"thinking_budget": 900_000, "other": 1}, "top_k": 5}
        await made.ask(say(stream=False, **wishes))
        asked = engine.asked[0]
        assert asked["rid"].startswith("rig-")
        assert len(asked["rid"]) == len("rig-12345678-12345678-0")
        assert asked["session_id"] != "s"
        assert asked["custom_params"] == {"thinking_budget": 5000}
        assert "priority" not in asked
        assert "cache_salt" not in asked
        assert asked["top_k"] == 5
        await made.ask(say(stream=False, thinking={"type": "enabled", "budget_tokens": 2000}))
        assert engine.asked[1]["custom_params"] == {"thinking_budget": 2000}


async def test_a_session_that_ended_is_closed_at_its_engine(tmp_path: Path) -> None:
    """So that it may drop what it holds for it."""
    engine = Engine("standard", short)
    async with rig(tmp_path, engine, rows={"standard": {"session_radix": True}}) as made:
        got = await made.ask(say(stream=False))
        label = got.header(b"x-rig-session").decode()
        made.proxy._board.policy = replace(made.proxy._board.policy, home_ttl=0.0)
        await made.until(lambda: engine.closed)
        assert engine.closed == [label]


async def test_effort_levels_that_the_template_rejects_are_translated(tmp_path: Path) -> None:
    """Found out by asking /tokenize once; a session keeps its translation."""
    engine = Engine("standard", short, count=10)
    engine.efforts = ("low", "medium", "xhigh")
    async with rig(tmp_path, engine) as made:
        await made.until(lambda: made.record("standard").efforts)
        await made.ask(say(stream=False, reasoning_effort="high"))
        assert engine.asked[-1]["reasoning_effort"] == "xhigh"
        await made.ask(say(stream=False, reasoning_effort="minimal"))
        assert engine.asked[-1]["reasoning_effort"] == "low"
        await made.ask(say(stream=False, reasoning_effort="none"))
        assert engine.asked[-1]["chat_template_kwargs"]["enable_thinking"] is False
        assert "reasoning_effort" not in engine.asked[-1]
        made.record("standard").efforts = {"high": "medium"}
        await made.ask(say(stream=False, reasoning_effort="high"))
        assert engine.asked[-1]["reasoning_effort"] == "xhigh"


async def test_a_session_older_than_the_probe_keeps_no_translation(tmp_path: Path) -> None:
    """What is not known yet is not held to: its next turn is translated."""
    engine = Engine("standard", short, count=10)
    engine.efforts = ("low", "medium", "xhigh")
    async with rig(tmp_path, engine) as made:
        record = made.record("standard")
        await made.until(lambda: record.probed)
        found, record.efforts, record.probed = record.efforts, {}, False
        await made.ask(say(stream=False, reasoning_effort="high"))
        assert engine.asked[-1]["reasoning_effort"] == "high"
        record.efforts, record.probed = found, True
        await made.ask(say(stream=False, reasoning_effort="high"))
        assert engine.asked[-1]["reasoning_effort"] == "xhigh"


@pytest.mark.case("C47")
async def test_side_calls_take_no_slot_and_a_404_is_nobodys_fault(tmp_path: Path) -> None:
    """Twenty at once beside a full cluster: no slot, no session, no mark against it."""

    async def no_such(exchange: Exchange, asked: dict[str, Any]) -> None:
        await exchange.respond(404, b'{"detail":"Not Found"}', [])

    held = Held()

    async def either(exchange: Exchange, asked: dict[str, Any]) -> None:
        side = exchange.head.path.endswith("count_tokens")
        await (no_such if side else held)(exchange, asked)

    engine = Engine("standard", either, slots=1)
    async with rig(tmp_path, engine) as made:
        running = asks(made, 1)
        await made.until(lambda: engine.asked)
        body = {"model": "claude-haiku-4-5-20251001", "messages": []}
        path = "/v1/messages/count_tokens?beta=true"
        for got in await asyncio.gather(*[made.ask(body, path) for _ in range(20)]):
            assert got.status == 404
            assert json.loads(got.body)["type"] == "error"
        assert engine.heads[-1].target.endswith(b"?beta=true")
        assert made.record("standard").in_flight == 1
        assert made.record("standard").failed == 0
        assert len(made.proxy._admission.homes) == 1
        held.go.set()
        await asyncio.gather(*running)


@pytest.mark.case("C48")
async def test_a_continued_response_goes_to_who_gave_it(tmp_path: Path) -> None:
    """And to nobody else, once that engine was started anew."""

    async def responds(exchange: Exchange, asked: dict[str, Any]) -> None:
        await whole(exchange, "hi", id=asked["request_id"], object="response", status="completed")

    standard, long = Engine("standard", responds), Engine("long", responds, window=524_288)
    async with rig(tmp_path, standard, long) as made:
        made.change("standard", gate="closed", state="off")
        path = "/v1/responses"
        first = await made.ask({"model": "m", "input": "hi", "store": True}, path)
        made.change("standard", gate="open", state="ready")
        given = json.loads(first.body)["id"]
        turn = {"model": "m", "input": "go on", "previous_response_id": given}
        got = await made.ask(turn, path)
        assert got.header(b"x-rig-cluster") == b"long"
        assert got.header(b"x-rig-rule") == b"pinned"
        made.change("long", run="another")
        got = await made.ask({**turn, "previous_response_id": given}, path)
        assert got.status == 400
        assert "started anew" in json_error(got)
