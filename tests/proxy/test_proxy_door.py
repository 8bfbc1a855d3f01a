"""What the door says, and to whom: paths, keys, sizes, names; and what of it is counted."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import logging
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from proxy_kit import CHAT, JSON, Engine, Rig, chunk, json_error, rig, say, short

from rigctl.adapters.decoding import decode_body
from rigctl.adapters.http1 import Exchange
from rigctl.core.link_words import TableClient
from rigctl.proxy.clients import only_here


async def refusals(made: Rig) -> dict[str, float]:
    """Of `/metrics`, by code."""
    page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body.decode()
    head = 'rigctl_refused_total{code="'
    lines = [each.removeprefix(head) for each in page.splitlines() if each.startswith(head)]
    return {each.split('"')[0]: float(each.split()[-1]) for each in lines}


async def raw(made: Rig, data: bytes) -> bytes:
    """Everything that comes back until the close."""
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    writer.write(data)
    async with asyncio.timeout(10):
        found = await reader.read()
    writer.close()
    return found


async def test_what_the_door_refuses_is_counted_with_few_labels(tmp_path: Path) -> None:
    """By what was wrong, never by path, name or key: a scan of a thousand paths adds no row."""
    known = TableClient("anna", hashlib.sha256(b"key").hexdigest())
    async with rig(tmp_path, Engine("standard", short), clients=(known,)) as made:
        for number in range(40):
            await made.http.get("127.0.0.1", made.port, f"/scan/{number}")
        await made.http.get("127.0.0.1", made.port, CHAT)
        await made.ask(say(stream=False), headers=[(b"x-api-key", b"wrong-key-1234")])
        await made.ask(b"no", headers=[(b"x-api-key", b"key"), (b"content-encoding", b"gzip")])
        found = await refusals(made)
        assert found["not_found"] == 40
        assert found["method_not_allowed"] == 1
        assert found["invalid_api_key"] == 1
        assert found["bad_request"] == 1
        page = (await made.http.get("127.0.0.1", made.port, "/metrics")).body
        assert b"scan" not in page
        assert b"wrong-key" not in page


async def test_a_wrong_key_leaves_a_line_and_not_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner can see that somebody's key is wrong, and from where."""
    known = TableClient("anna", hashlib.sha256(b"key").hexdigest())
    async with rig(tmp_path, Engine("standard", short), clients=(known,)) as made:
        with caplog.at_level(logging.INFO):
            await made.ask(say(), headers=[(b"authorization", b"Bearer sk-secret-77")])
        assert "without a valid key from 127.0.0.1:" in caplog.text
        assert "secret" not in caplog.text


MIB = 1024 * 1024


async def test_chunked_bodies_cannot_outgrow_the_memory_that_is_set(tmp_path: Path) -> None:
    """They announce no length, so each counts as the largest that may come; once it is there it
    counts as what it is."""
    engine = Engine("standard", short)
    async with rig(tmp_path, engine, body_limit=2 * MIB, memory_limit=4 * MIB) as made:
        head = b'POST %b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"a":\r\n'
        slow = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
            writer.write(head % CHAT.encode())
            slow.append((reader, writer))
        await made.until(lambda: made.proxy._front._reserved == 4 * MIB)
        got = await made.ask(say("x" * (MIB + 1), stream=False))
        assert got.status == 503
        assert got.header(b"retry-after") == b"5"
        assert not engine.asked
        for _, writer in slow:
            writer.close()
        await made.until(lambda: made.proxy._front._reserved == 0)
        assert (await made.ask(say(stream=False))).status == 200
        assert (await refusals(made))["bodies_full"] == 1


@pytest.mark.parametrize(
    ("given", "echoed"),
    [
        (b"abc-123", True),
        (b"a" * 128, True),
        (b"a" * 129, False),
        (b"two words", False),
        (b"\xff\xfe", False),
        (b"tab\there", False),
        (b"\x1b[31mred", False),
    ],
)
async def test_a_request_id_is_echoed_where_it_is_harmless(
    tmp_path: Path, given: bytes, echoed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Both to client and engine; else ours stands in its place, and it is in no log."""
    engine = Engine("standard", short)
    async with rig(tmp_path, engine) as made:
        head = b"POST %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n"
        body = json.dumps(say(stream=False)).encode()
        with caplog.at_level(logging.DEBUG):
            found = await raw(
                made,
                head % (CHAT.encode(), len(body)) + b"x-request-id: " + given + b"\r\n\r\n" + body,
            )
        if found.startswith(b"HTTP/1.1 400"):
            assert not engine.asked  # no field value at all
            return
        assert found.startswith(b"HTTP/1.1 200")
        sent = engine.heads[0].header(b"x-request-id")
        assert (sent == given) == echoed
        assert b"x-request-id: " + sent + b"\r\n" in found
        assert "\x1b" not in caplog.text


@pytest.mark.parametrize("name", ["x\r\nx-evil: 1", "x\x1b[2J", "naïve 🌍", "a" * 5_000, ""])
async def test_names_that_a_client_invents_reach_no_header_and_no_log(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Session ids and model names are hashed, or not repeated at all."""
    async with rig(tmp_path, Engine("standard", short)) as made:
        asked = say(stream=False, model=name, prompt_cache_key=name, user=name)
        with caplog.at_level(logging.DEBUG):
            got = await made.ask({**asked, "metadata": {"user_id": name}})
        assert got.status == 200
        assert got.header(b"x-evil") is None
        for _, value in got.headers:
            assert value.isascii()
            assert len(value) < 400
        if len(name) > 1:
            assert name not in caplog.text
            assert "\x1b" not in caplog.text


async def test_any_model_name_is_served_and_the_list_names_the_one(tmp_path: Path) -> None:
    """POST takes whatever agents are set to; the engine is asked by its own name."""
    engine = Engine("standard", short)
    async with rig(tmp_path, engine) as made:
        for name in ("gpt-4o", "claude-haiku-4-5-20251001", "lora:x"):
            assert (await made.ask(say(stream=False, model=name))).status == 200
        assert [each["model"] for each in engine.asked] == ["qwen"] * 3
        known = await made.http.get("127.0.0.1", made.port, "/v1/models/qwen")
        other = await made.http.get("127.0.0.1", made.port, "/v1/models/gpt-4o")
        assert (known.status, other.status) == (200, 404)
        assert "`qwen`" in json.loads(other.body)["error"]["message"]
        listed = json.loads((await made.http.get("127.0.0.1", made.port, "/v1/models")).body)
        assert [each["id"] for each in listed["data"]] == ["qwen"]
        assert listed["data"][0]["max_model_len"] == 262_144


@pytest.mark.case("C53")
async def test_an_http_1_0_stream_with_comments_ends_by_closing(tmp_path: Path) -> None:
    """No chunk sizes in its text, comments between its events, and no host needed."""
    go = asyncio.Event()

    async def slow(exchange: Exchange, asked: dict[str, Any]) -> None:
        await go.wait()
        await short(exchange, asked)

    async with rig(
        tmp_path, Engine("standard", slow), keep_alive=0.2, first_keep_alive=0.2
    ) as made:
        body = json.dumps(say()).encode()
        asked = asyncio.create_task(
            raw(
                made,
                b"POST %b HTTP/1.0\r\ncontent-length: %d\r\n\r\n%b"
                % (CHAT.encode(), len(body), body),
            )
        )
        await made.until(lambda: [each for each in made.proxy._live if each.commented])
        go.set()
        head, _, said = (await asked).partition(b"\r\n\r\n")
        assert b"chunked" not in head.lower()
        assert b"connection: close" in head.lower()
        assert said.startswith(b": rigctl\n")
        assert said.replace(b": rigctl\n", b"").startswith(chunk("one "))
        assert said.endswith(b"data: [DONE]\n\n")


async def test_readyz_tells_a_drain_on_the_connections_that_are_left(tmp_path: Path) -> None:
    """`/livez` stays 200: the process lives and finishes its answers."""
    async with rig(tmp_path, Engine("standard", short)) as made:
        assert (await made.http.get("127.0.0.1", made.port, "/readyz")).status == 200
        made.change("standard", state="stopped", gate="closed", say="stopped by a person")
        got = await made.http.get("127.0.0.1", made.port, "/readyz")
        assert (got.status, b"standard is off" in got.body) == (503, True)
        assert (await made.http.get("127.0.0.1", made.port, "/livez")).status == 200
        made.change("standard", state="ready", gate="open", say="")
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        await asyncio.sleep(0.1)
        made.proxy.leave("SIGTERM")
        writer.write(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
        found = await reader.read()
        assert found.startswith(b"HTTP/1.1 503")
        assert b"it is leaving: SIGTERM" in found
        writer.close()


async def test_a_response_is_never_left_running_in_the_background(tmp_path: Path) -> None:
    """It would run on without a slot: the key is taken out, and `route explain` says so."""

    async def responds(exchange: Exchange, asked: dict[str, Any]) -> None:
        body = {"id": asked["request_id"], "object": "response", "status": "completed"}
        await exchange.respond(200, json.dumps({**body, "output": []}).encode(), JSON)

    engine = Engine("standard", responds)
    async with rig(tmp_path, engine) as made:
        body = {"model": "qwen", "input": "hi", "background": True}
        assert (await made.ask(body, "/v1/responses")).status == 200
        assert "background" not in engine.asked[0]
        [record] = made.proxy._routes.fresh()
        assert "background" in record.say


async def test_no_request_asks_for_more_choices_than_are_told_apart(tmp_path: Path) -> None:
    """A million choices would be a million answers on one engine: OpenAI's own limit holds."""
    engine = Engine("standard", short)
    async with rig(tmp_path, engine) as made:
        got = await made.ask(say(stream=False, n=1_000_000))
        assert got.status == 400
        assert "at most 128" in json_error(got)
        assert not engine.asked
        assert made.record("standard").in_flight == 0
        assert (await made.ask(say(stream=False, n=2))).status == 200


@pytest.mark.parametrize(
    ("addresses", "here"),
    [
        (["127.0.0.1"], True),
        (["127.0.0.1", "::1"], True),
        (["::ffff:127.0.0.1"], True),
        (["0.0.0.0"], False),
        (["::"], False),
        (["127.0.0.1", "192.168.1.5"], False),
    ],
)
def test_who_reaches_an_address_is_told_by_what_is_bound(addresses: list[str], here: bool) -> None:
    """One open socket is enough."""
    assert only_here(addresses) is here


@pytest.mark.parametrize("local", [True, False])
async def test_an_open_address_serves_nobody_without_a_key(tmp_path: Path, local: bool) -> None:
    """The last key may go, and rig.toml name another host, while it serves on."""
    anna = TableClient("anna", hashlib.sha256(b"key").hexdigest())
    async with rig(tmp_path, Engine("standard", short), clients=(anna,)) as made:
        assert made.proxy._front._local
        made.proxy._front._local = local  # no test listens where other machines reach it
        key = (b"authorization", b"Bearer key")

        async def page(path: str) -> int:
            return (await made.http.get("127.0.0.1", made.port, path)).status

        assert (await made.ask(say(stream=False))).status == 401
        assert (await made.ask(say(stream=False), headers=[key])).status == 200
        made.give(clients=())
        expected = 200 if local else 401
        assert (await made.ask(say(stream=False))).status == expected
        assert (await made.ask(say(stream=False), headers=[key])).status == expected
        assert await page("/v1/models") == expected
        assert await page("/livez") == 200


async def test_uploads_that_rest_do_not_shut_out_what_is_small(tmp_path: Path) -> None:
    """Their announced bodies fill the memory that is set; ordinary requests go on beside them."""
    async with rig(tmp_path, Engine("standard", short), memory_limit=8 * MIB) as made:
        head = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 8388608\r\n\r\n{" % CHAT.encode()
        _, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(head)
        await made.until(lambda: made.proxy._front._reserved == 8 * MIB)
        assert (await made.ask(say(stream=False))).status == 200
        assert (await made.ask(say("x" * (2 * MIB), stream=False))).status == 503
        writer.close()


async def test_a_client_that_leaves_while_its_body_is_unpacked_takes_no_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told of its leaving then: it is asked for when the body is there."""
    unpacking, go = threading.Event(), threading.Event()

    def slowly(*asked: Any) -> bytes:
        unpacking.set()
        go.wait(10)
        return decode_body(*asked)

    monkeypatch.setattr("rigctl.proxy.front.decode_body", slowly)
    engine = Engine("standard", short)
    async with rig(tmp_path, engine) as made:
        noise = random.Random(1).randbytes(400_000).hex()
        packed = gzip.compress(json.dumps(say(noise, stream=False)).encode())
        head = (
            b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
        )
        _, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(head % (CHAT.encode(), len(packed)) + packed)
        await asyncio.to_thread(unpacking.wait, 10)
        writer.transport.abort()
        await made.until(lambda: not made.proxy._server.connections)
        go.set()
        await made.until(lambda: made.proxy._booking.totals["cancelled"] == 1)
        assert not engine.asked
        assert made.record("standard").in_flight == 0
