"""What an engine's no means: whose fault it is, who hears of it, and in which words."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import JSON, SSE, Engine, chunk, json_error, rig, say, short, stream

from rigctl.adapters.http1 import Exchange
from rigctl.core.ask import Endpoint
from rigctl.parse.asks import read_ask

MESSAGES = "/v1/messages"


def refuses(status: int, body: Any) -> Any:
    """An engine that answers everything so."""

    async def script(exchange: Exchange, asked: dict[str, Any]) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        await exchange.respond(status, raw, JSON)

    return script


# ---- bodies that nobody can read -------------------------------------------------------


@pytest.mark.parametrize("body", [b"[1]", b'{"model":', b"\xff\xfe{", b"", b"3", b'{"a":NaN'])
@pytest.mark.parametrize("path", ["/v1/chat/completions", MESSAGES, "/v1/responses"])
async def test_a_body_that_is_no_object_costs_nobody_a_slot(
    tmp_path: Path, body: bytes, path: str
) -> None:
    """400 in the client's dialect, at once, though every slot is taken; no session, no mark."""
    go = asyncio.Event()

    async def held(exchange: Exchange, asked: dict[str, Any]) -> None:
        await go.wait()
        await short(exchange, asked)

    engine = Engine("standard", held, slots=1)
    async with rig(tmp_path, engine) as made:
        waiting = asyncio.create_task(made.ask(say(stream=False)))
        await made.until(lambda: engine.asked)
        homes = len(made.proxy._admission.homes)
        got = await made.ask(body, path, headers=[(b"x-session-id", b"s")])
        assert got.status == 400
        said = json.loads(got.body)
        assert said["error"]["type"] == "invalid_request_error"
        assert (said.get("type") == "error") == (path == MESSAGES)
        assert len(made.proxy._admission.homes) == homes
        assert made.record("standard").in_flight == 1
        assert made.record("standard").failed == 0
        assert len(engine.asked) == 1
        [told] = made.proxy._routes.fresh()
        assert (told.rule, told.status, told.session) == ("body", 400, "")
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body
        assert b'rigctl_refused_total{code="invalid_request"} 1.0' in page
        go.set()
        assert (await waiting).status == 200


# ---- an engine's own errors ------------------------------------------------------------


async def test_an_engines_error_goes_elsewhere_and_else_in_its_own_words(tmp_path: Path) -> None:
    """Another cluster answers; where there is none, the client reads status and words of the
    engine, not that it was lost."""
    broken = refuses(500, {"error": {"message": "kernel said no", "type": "X"}})
    standard, long = Engine("standard", broken), Engine("long", short, window=524_288)
    async with rig(tmp_path, standard, long) as made:
        assert (await made.ask(say(stream=False))).header(b"x-rig-cluster") == b"long"
        made.change("long", gate="closed", state="stopped")
        got = await made.ask(say("another", stream=False))
        assert got.status == 500
        assert json_error(got) == "kernel said no"
        assert made.record("standard").failed == 2


async def test_two_engines_that_fail_alike_are_asked_once_each(tmp_path: Path) -> None:
    """And the last one's words are the answer; a busy 503 says when to come back."""
    body = {"error": {"message": "the scheduler is away", "type": "X"}}
    engines = [Engine(name, refuses(503, body)) for name in ("standard", "long")]
    async with rig(tmp_path, *engines) as made:
        got = await made.ask(say(stream=False))
        assert got.status == 503
        assert got.header(b"retry-after") == b"5"
        assert [len(each.asked) for each in engines] == [1, 1]
        assert all(made.record(each.name).in_flight == 0 for each in engines)


async def test_a_wrong_key_for_an_engine_is_the_owners_and_costs_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another engine answers; with none the client reads that it is not its own key."""
    denies = refuses(401, {"error": "Unauthorized"})
    standard, long = Engine("standard", denies), Engine("long", short, window=524_288)
    async with rig(tmp_path, standard, long) as made:
        assert (await made.ask(say(stream=False))).header(b"x-rig-cluster") == b"long"
        assert "does not take the key that rig.toml names" in caplog.text
        made.change("long", gate="closed", state="stopped")
        got = await made.ask(say("another", stream=False))
        assert got.status == 502
        assert json.loads(got.body)["error"]["code"] == "engine_key"
        word, _, why = made.proxy._board.standing(made.record("standard"))
        assert word.value == "suspect"
        assert "key" in why


async def test_an_engine_that_redirects_redirects_nobody(tmp_path: Path) -> None:
    """Its 302 is a bad answer, and never one of ours."""
    async with rig(tmp_path, Engine("standard", refuses(302, b""))) as made:
        got = await made.ask(say(stream=False))
        assert got.status == 502
        assert "302" in json_error(got)


async def test_the_places_of_the_servers_code_stay_with_the_server(tmp_path: Path) -> None:
    """FastAPI appends file and line to what is wrong with a body."""
    message = (
        "1 validation error:\n  {'msg': 'Field required'}\n\n"
        '  File "/root/x/http_server.py", line 1870, in chat\n    POST /v1/chat/completions'
    )
    body = {"object": "error", "message": message, "type": "Bad Request", "code": 400}
    async with rig(tmp_path, Engine("standard", refuses(400, body))) as made:
        got = await made.ask(say(stream=False))
        assert got.status == 400
        assert "Field required" in json_error(got)
        assert b"/root" not in got.body
        assert b"http_server" not in got.body


@pytest.mark.case("C34")
async def test_a_clients_error_inside_a_stream_counts_against_nobody(tmp_path: Path) -> None:
    """Anthropic's dialect has no code: the type tells whose error it was. Nobody else is asked."""
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "bad tool"}}

    async def begins(exchange: Exchange, asked: dict[str, Any]) -> None:
        start = {"type": "message_start", "message": {"id": "m", "usage": {}}}
        await stream(
            exchange,
            b"event: message_start\ndata: " + json.dumps(start).encode() + b"\n\n",
            b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n",
        )

    standard, long = Engine("standard", begins), Engine("long", begins, window=524_288)
    async with rig(tmp_path, standard, long) as made:
        got = await made.ask(say(), MESSAGES)
        assert got.status == 400
        assert json.loads(got.body)["error"]["message"] == "bad tool"
        assert not long.asked
        assert made.record("standard").failed == 0


@pytest.mark.case("C34")
async def test_behind_its_own_error_a_connection_may_break(tmp_path: Path) -> None:
    """The client reads one error, the engine's, and not another one of ours behind it."""
    error = b'data: {"error":{"message":"boom","type":"X","code":500}}\n\n'

    async def breaks(exchange: Exchange, asked: dict[str, Any]) -> None:
        await exchange.start(200, SSE)
        await exchange.write(chunk("a") + error)
        exchange.abort()

    async with rig(tmp_path, Engine("standard", breaks)) as made:
        got = await made.open(say())
        assert b"".join([part async for part in got]) == chunk("a") + error
        assert made.record("standard").failed == 1


# ---- prompts that may kill -------------------------------------------------------------


async def test_counting_a_prompt_that_may_kill_is_no_danger(tmp_path: Path) -> None:
    """Its quarantine is for those that would be read by cards."""

    async def counts(exchange: Exchange, asked: dict[str, Any]) -> None:
        await exchange.respond(200, b'{"input_tokens":3}', JSON)

    async with rig(tmp_path, Engine("standard", counts)) as made:
        tip = read_ask(Endpoint.MESSAGES, (), json.dumps(say(stream=False)).encode()).chain[-1]
        made.proxy._serving._judge._poison[tip] = made.proxy._clock.now()
        assert (await made.ask(say(stream=False), MESSAGES)).status == 400
        assert (await made.ask(say(stream=False), MESSAGES + "/count_tokens")).status == 200


@pytest.mark.parametrize(
    ("status", "openai", "anthropic"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (500, "server_error", "api_error"),
        (503, "server_error", "overloaded_error"),
    ],
)
async def test_an_error_in_band_is_of_the_kind_that_its_status_would_be(
    tmp_path: Path, status: int, openai: str, anthropic: str
) -> None:
    """After a comment the status is 200: the kind is what tells an SDK whether to try again."""

    async def late(exchange: Exchange, asked: dict[str, Any]) -> None:
        await asyncio.sleep(0.6)
        body = {"object": "error", "message": "no", "code": status}
        await exchange.respond(status, json.dumps(body).encode(), JSON)

    engine = Engine("standard", late)
    async with rig(tmp_path, engine, first_keep_alive=0.2, keep_alive=0.2) as made:
        got = await made.ask(say())
        assert got.status == 200
        assert got.body.startswith(b":")
        assert f'"type":"{openai}"'.encode() in got.body
        asked = {"model": "m", "max_tokens": 5, "stream": True, "messages": say()["messages"]}
        got = await made.ask(asked, "/v1/messages")
        assert f'"type":"{anthropic}"'.encode() in got.body


async def test_an_engines_full_queue_is_called_that(tmp_path: Path) -> None:
    """It was not lost, nor is it broken: the client may come again soon."""
    say_full = "The request queue is full."
    full = refuses(503, {"object": "error", "message": say_full, "code": 503})
    async with rig(tmp_path, Engine("standard", full)) as made:
        got = await made.ask(say(stream=False))
        assert (got.status, got.header(b"retry-after")) == (503, b"5")
        error = json.loads(got.body)["error"]
        assert (error["code"], error["message"]) == ("queue_full", say_full)
        assert made.proxy._board.standing(made.record("standard"))[0].value == "up"
    async with rig(
        tmp_path / "two", Engine("standard", full), Engine("long", short, window=524_288)
    ) as made:
        assert (await made.ask(say(stream=False))).header(b"x-rig-cluster") == b"long"
