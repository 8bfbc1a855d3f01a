"""Streams through the endpoint: their bytes, their ends, what is put in and what is taken out."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import (
    DONE,
    SSE,
    Engine,
    chunk,
    rig,
    say,
    short,
    stream,
    whole,
)

from rigctl.adapters.http1 import Exchange, HttpError


def scripted(*parts: bytes) -> Any:
    async def script(exchange: Exchange, asked: dict[str, Any]) -> None:
        await stream(exchange, *parts)

    return script


async def read(got: Any) -> bytes:
    return b"".join([part async for part in got])


@pytest.mark.case("C36")
async def test_bytes_pass_as_they_came_wherever_they_are_cut(tmp_path: Path) -> None:
    """UTF-8 cut inside a character, events cut anywhere, and bytes that are no UTF-8 at all."""
    globe = chunk("🌍 naïve").replace(b"\\ud83c\\udf0d", "🌍".encode())
    whole_stream = globe + b'data: {"choices":[{"index":0,"delta":{"content":"\xff"}}]}\n\n'
    whole_stream += chunk(finish="stop") + DONE
    pieces = [whole_stream[at : at + 7] for at in range(0, len(whole_stream), 7)]
    engine = Engine("standard", scripted(*pieces))
    async with rig(tmp_path, engine) as made:
        asked = say(stream_options={"include_usage": True})
        assert await read(await made.open(asked)) == whole_stream


@pytest.mark.case("C33")
@pytest.mark.parametrize(
    ("parts", "tail"),
    [
        ((chunk("a"), chunk(finish="stop")), DONE),
        ((chunk("a", "stop"), DONE), DONE),
    ],
    ids=["no DONE", "text and end in one frame"],
)
async def test_a_complete_answer_gets_its_end(
    tmp_path: Path, parts: tuple[bytes, ...], tail: bytes
) -> None:
    """Where the engine left `[DONE]` out it is added, where not it is not doubled."""
    async with rig(tmp_path, Engine("standard", scripted(*parts))) as made:
        got = await read(await made.open(say()))
        assert got.endswith(tail)
        assert got.count(b"[DONE]") == 1
        assert b"error" not in got
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body.decode()
        assert 'outcome="complete"} 1.0' in page


@pytest.mark.case("C33")
async def test_a_stream_that_just_closes_is_told_as_cut(tmp_path: Path) -> None:
    """A clean close without a finish reason is no end."""
    async with rig(tmp_path, Engine("standard", scripted(chunk("a"), chunk("b")))) as made:
        got = await read(await made.open(say()))
        assert got.startswith(chunk("a") + chunk("b"))
        error = json.loads(got.split(b"data: ")[3].split(b"\n\n")[0])
        assert error["error"]["code"] == "server_lost"
        assert got.endswith(DONE)


@pytest.mark.case("C33")
async def test_a_connection_that_breaks_in_mid_answer_is_told_as_cut(tmp_path: Path) -> None:
    """The error is an event of its own, behind whatever was torn."""

    async def breaks(exchange: Exchange, asked: dict[str, Any]) -> None:
        await exchange.start(200, SSE)
        await exchange.write(chunk("a") + chunk("b")[:-5])  # cut in the middle of an event
        await asyncio.sleep(0.05)
        exchange.abort()

    async with rig(tmp_path, Engine("standard", breaks)) as made:
        got = await read(await made.open(say()))
        assert b'"code":"server_lost"' in got
        before = got[: got.index(b'data: {"error"')]
        assert before.endswith(b"\n\n")  # the torn event was closed, the error is one of its own


@pytest.mark.case("C33")
async def test_an_unstreamed_answer_that_breaks_never_looks_whole(tmp_path: Path) -> None:
    """One that was begun, because it is too large to be held back, ends with its connection."""

    async def breaks(exchange: Exchange, asked: dict[str, Any]) -> None:
        await exchange.start(200, [(b"content-type", b"application/json")])
        for _ in range(10):
            await exchange.write(b"x" * (1024 * 1024))
        exchange.abort()

    async with rig(tmp_path, Engine("standard", breaks)) as made:
        with pytest.raises(HttpError):
            await made.ask(say(stream=False), limit=64 * 1024 * 1024)


@pytest.mark.case("C34")
async def test_a_first_event_that_is_an_error_goes_to_another_cluster(tmp_path: Path) -> None:
    """Nothing of an answer was sent, so nobody notices."""
    error = b'data: {"error":{"message":"TimeoutError","type":"GatewayTimeout","code":504}}\n\n'
    broken = Engine("standard", scripted(error, DONE))
    async with rig(tmp_path, broken, Engine("long", short, window=524_288)) as made:
        got = await made.open(say())
        assert got.status == 200
        assert dict(got.headers)[b"x-rig-cluster"] == b"long"
        assert b"TimeoutError" not in await read(got)


@pytest.mark.case("C34")
@pytest.mark.parametrize("event", [b"", b"event: error\n"], ids=["data", "event: error"])
async def test_with_nowhere_else_to_go_it_becomes_a_status(tmp_path: Path, event: bytes) -> None:
    """As a body with its status, not as a 200."""
    error = event + b'data: {"error":{"message":"pool is full","type":"X","code":504}}\n\n'
    async with rig(tmp_path, Engine("standard", scripted(error, DONE))) as made:
        got = await made.ask(say())
        assert got.status >= 500
        assert got.header(b"content-type") == b"application/json"


@pytest.mark.case("C34")
async def test_a_later_error_is_passed_on_and_counts_as_failed(tmp_path: Path) -> None:
    """Its bytes are not touched."""
    error = b'data: {"error":{"message":"boom","type":"X","code":500}}\n\n'
    async with rig(tmp_path, Engine("standard", scripted(chunk("a"), error, DONE))) as made:
        got = await read(await made.open(say()))
        assert got == chunk("a") + error + DONE
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body.decode()
        assert 'outcome="failed"} 1.0' in page


USAGE = (
    b'data: {"id":"x","choices":[],"usage":{"prompt_tokens":80,"completion_tokens":12,'
    b'"prompt_tokens_details":{"cached_tokens":79}}}\n\n'
)


@pytest.mark.case("C46")
@pytest.mark.parametrize(
    ("options", "swallowed"),
    [
        (None, True),
        ({"include_usage": False}, True),
        ({"include_usage": True}, False),
        ({"include_usage": True, "continuous_usage_stats": True}, False),
    ],
)
async def test_only_the_usage_that_we_asked_for_is_swallowed(
    tmp_path: Path, options: dict[str, bool] | None, swallowed: bool
) -> None:
    """What the client asked for itself passes byte for byte, and is counted all the same."""
    parts = (chunk("a"), chunk(finish="stop"), USAGE, DONE)
    engine = Engine("standard", scripted(*parts))
    async with rig(tmp_path, engine) as made:
        asked = say() if options is None else say(stream_options=options)
        got = await read(await made.open(asked))
        kept = (chunk("a"), chunk(finish="stop"), DONE) if swallowed else parts
        assert got == b"".join(kept)
        assert engine.asked[0]["stream_options"]["include_usage"] is True
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body.decode()
        assert 'rigctl_tokens_total{cluster="standard",kind="cached"} 79.0' in page
        carried = {"in": len(json.dumps(asked)), "out": len(b"".join(parts))}
        for way, size in carried.items():
            assert f'rigctl_relayed_bytes_total{{direction="{way}"}} {size}.0' in page


@pytest.mark.case("C46")
async def test_no_usage_is_counted_as_untold_not_as_nothing(tmp_path: Path) -> None:
    """Its tokens are in no sum."""
    async with rig(tmp_path, Engine("standard", short)) as made:
        await read(await made.open(say()))
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body.decode()
        assert 'rigctl_uncounted_answers_total{cluster="standard"} 1.0' in page
        assert made.proxy._accounts.of("-").uncounted == 1


@pytest.mark.case("C38")
async def test_keep_alive_comments_flow_and_hurt_nobody(tmp_path: Path) -> None:
    """Before the first byte and between events; one line feed, so that they end no event."""
    go = asyncio.Event()

    async def slow(exchange: Exchange, asked: dict[str, Any]) -> None:
        await go.wait()
        await stream(exchange, chunk("a"), chunk(finish="stop"), DONE)

    async with rig(
        tmp_path, Engine("standard", slow), keep_alive=1.0, first_keep_alive=0.4
    ) as made:
        got = await made.open(say())  # the head is out before the engine has said a word
        assert dict(got.headers)[b"content-type"].startswith(b"text/event-stream")
        parts = got.chunks()
        first = await anext(parts)
        assert first == b": rigctl\n"
        go.set()
        rest = b"".join([part async for part in parts])
        assert rest.replace(b": rigctl\n", b"") == chunk("a") + chunk(finish="stop") + DONE


@pytest.mark.case("C38")
async def test_comments_of_an_engine_are_no_progress(tmp_path: Path) -> None:
    """They pass on to the client and move no counter."""
    go = asyncio.Event()

    async def comments(exchange: Exchange, asked: dict[str, Any]) -> None:
        await exchange.start(200, SSE)
        await exchange.write(chunk("a"))
        for _ in range(3):
            await exchange.write(b":\n\n")
        await go.wait()
        await exchange.write(chunk(finish="stop") + DONE)
        await exchange.finish()

    async with rig(tmp_path, Engine("standard", comments)) as made:
        got = await made.open(say())
        request = next(iter(made.proxy._live))
        await made.until(lambda: request.attempt and request.attempt.reader)
        reader = request.attempt.reader
        await made.until(lambda: reader.progress)
        await asyncio.sleep(0.05)
        assert reader.progress == 1
        go.set()
        assert b":\n\n" in await read(got)


@pytest.mark.case("C38")
async def test_an_error_after_a_comment_goes_in_band(tmp_path: Path) -> None:
    """The comment has fixed the status at 200: what comes too late is an event."""

    async def refuses_late(exchange: Exchange, asked: dict[str, Any]) -> None:
        await asyncio.sleep(1.2)
        await exchange.respond(400, b'{"object":"error","message":"invalid tool schema"}')

    engine = Engine("standard", refuses_late)
    async with rig(tmp_path, engine, first_keep_alive=0.3, keep_alive=1.0) as made:
        got = await made.open(say())
        text = await read(got)
        assert got.status == 200
        assert b"invalid tool schema" in text
        assert text.endswith(DONE)


@pytest.mark.case("C50")
async def test_hop_by_hop_headers_stay_on_their_hop(tmp_path: Path) -> None:
    """Both ways; and nothing of the client's steers the engine."""

    async def chatty(exchange: Exchange, asked: dict[str, Any]) -> None:
        more = [
            (b"connection", b"x-private"),
            (b"x-private", b"1"),
            (b"keep-alive", b"timeout=5"),
            (b"date", b"today"),
        ]
        await exchange.start(200, [*SSE, *more])
        await exchange.write(chunk("a", "stop") + DONE)
        await exchange.finish()

    engine = Engine("standard", chatty)
    asked = [
        (b"te", b"trailers"),
        (b"x-override-rid", b"mine"),
        (b"authorization", b"Bearer theirs"),
        (b"cookie", b"a=b"),
    ]
    async with rig(tmp_path, engine) as made:
        got = await made.open(say(), headers=asked)
        names = [name for name, _ in got.headers]
        assert b"x-private" not in names
        assert b"keep-alive" not in names
        assert names.count(b"transfer-encoding") == 1
        assert dict(got.headers)[b"cache-control"] == b"no-cache"
        assert dict(got.headers)[b"x-accel-buffering"] == b"no"
        await read(got)
        sent = dict(engine.heads[0].headers)
        assert sent[b"host"] == f"127.0.0.1:{engine.port}".encode()
        assert not {b"te", b"x-override-rid", b"authorization", b"cookie"} & set(sent)


async def test_a_slow_reader_holds_its_engine_up_instead_of_filling_memory(tmp_path: Path) -> None:
    """What it does not read is not read from the engine."""
    sent = 0

    async def floods(exchange: Exchange, asked: dict[str, Any]) -> None:
        nonlocal sent
        await exchange.start(200, SSE)
        for _ in range(400):
            await exchange.write(chunk("x" * 100_000))
            sent += 1
        await exchange.write(chunk(finish="stop") + DONE)
        await exchange.finish()

    async with rig(tmp_path, Engine("standard", floods)) as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port, limit=65536)
        body = json.dumps(say()).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
            % len(body)
            + body
        )
        await made.until(lambda: sent)
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 200  # the rest waits at the engine: 40 MB are nowhere on the way
        total = 0
        while part := await reader.read(1 << 20):
            total += len(part)
            if b"[DONE]" in part:
                break
        assert sent == 400
        assert total > 40_000_000
        writer.close()


async def test_an_answer_that_only_thought_and_one_that_repeats_are_flagged(tmp_path: Path) -> None:
    """Agents see the first as empty; the second never ends."""

    async def thinks(exchange: Exchange, asked: dict[str, Any]) -> None:
        thought = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hmm "}}]}\n\n'
        await stream(exchange, thought, chunk(finish="length"), DONE)

    async def loops(exchange: Exchange, asked: dict[str, Any]) -> None:
        line = chunk("I will now check the file again. ")
        await stream(exchange, *[line] * 40, chunk(finish="length"), DONE)

    async def either(exchange: Exchange, asked: dict[str, Any]) -> None:
        await (thinks if asked["messages"][0]["content"] == "think" else loops)(exchange, asked)

    async with rig(tmp_path, Engine("standard", either)) as made:
        await read(await made.open(say("think")))
        await read(await made.open(say("loop")))
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body.decode()
        assert 'rigctl_all_thought_total{cluster="standard"} 1.0' in page
        assert 'rigctl_repeats_total{cluster="standard"} 1.0' in page


async def test_an_unstreamed_answer_is_passed_on_with_its_decision(tmp_path: Path) -> None:
    """Its bytes, the client's own request id, and why it went where it went."""

    async def answers(exchange: Exchange, asked: dict[str, Any]) -> None:
        await whole(exchange, "hi", extra={"kept": True})

    async with rig(tmp_path, Engine("standard", answers)) as made:
        got = await made.ask(say(stream=False), headers=[(b"x-request-id", b"mine-1")])
        assert json.loads(got.body)["extra"] == {"kept": True}
        assert got.header(b"x-request-id") == b"mine-1"
        assert got.header(b"x-rig-cluster") == b"standard"
        assert got.header(b"x-rig-rule") == b"free"
        assert int(got.header(b"x-rig-tokens")) > 0
