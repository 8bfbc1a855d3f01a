"""The simulated agents: they ask as real clients do, wait when told to, and speak both dialects."""

from __future__ import annotations

import asyncio
import json

import pytest

from rigctl.adapters.http1 import Exchange, HttpError, HttpServer
from rigctl.sim.agents import Rig, main, turn
from rigctl.sim.asking import (
    HABITS,
    Address,
    Asker,
    Key,
    address_of,
    filler,
    read_keys,
    system_prompt,
    text_of,
)
from rigctl.sim.scenes import SCENES, Session
from rigctl.sim.sglang.prompts import BYTES_PER_TOKEN, cut

NOWHERE = Address("127.0.0.1", 1)
HELLO = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]


def test_each_habit_shows_its_session_in_its_own_place() -> None:
    """Header, metadata, cache key or nothing: what a router finds a session by."""
    for habit in HABITS:
        path, head, body = Asker(NOWHERE, habit, Key("ann", "k-1"), "s-9").request(HELLO, 50)
        fields = dict(head)
        shown = {
            "claude": fields.get(b"x-claude-code-session-id") == b"s-9",
            "user-id": path == "/v1/messages" and "s-9" in body.get("metadata", {"": ""})["user_id"]
            if "metadata" in body
            else False,
            "cache-key": body.get("prompt_cache_key") == "s-9",
            "session-header": fields.get(b"x-session-id") == b"s-9",
            "plain": b"s-9" not in str((head, body)).encode(),
        }
        assert shown[habit], habit
        key = fields.get(b"x-api-key") or fields[b"authorization"]
        assert key in (b"k-1", b"Bearer k-1")
        assert body["max_tokens"] == 50


def test_anthropic_clients_send_the_system_prompt_apart() -> None:
    """`system` is a field of its own there, and no message has that role."""
    _, _, body = Asker(NOWHERE, "claude").request(HELLO, 50)
    assert body["system"] == [{"type": "text", "text": "be brief"}]
    assert [message["role"] for message in body["messages"]] == ["user"]


def test_text_for_the_endpoint_has_as_many_tokens_as_its_mark() -> None:
    """A proxy that counts bytes sees what a tokenizer would; equal names are equal text."""
    text = filler(1_000, "files")
    assert len(text) == 1_000 * BYTES_PER_TOKEN
    assert sum(piece.tokens for piece in cut(text)) == 1_000
    assert filler(50, "files") == text[: 50 * BYTES_PER_TOKEN]
    assert filler(50, "other") != filler(50, "files")
    assert len(system_prompt()) == 14_000


def test_sessions_share_their_opening_at_the_endpoint_only() -> None:
    """The same 14,000 characters stand before every session's own text."""
    session = Session(0, 500)
    rig = Rig((), 1.0, "", Address("127.0.0.1", 1))
    one, two = rig.opening(session, "a"), rig.opening(session, "b")
    assert one[0] == two[0] != one[1]
    assert Rig((1,), 1.0, "").opening(session, "a")[0]["content"] == "read these files tok:500:a"


async def test_retry_after_is_honoured() -> None:
    """Told to come again in a second, an agent comes again in a second, and not before."""
    asked: list[float] = []

    async def answer(exchange: Exchange) -> None:
        await exchange.body()
        asked.append(asyncio.get_running_loop().time())
        if len(asked) == 1:
            await exchange.respond(503, b"{}", [(b"retry-after", b"1")])
            return
        frame = b'data: {"choices":[{"delta":{"content":"yes"}}]}\n\ndata: [DONE]\n\n'
        await exchange.respond(200, frame, [(b"content-type", b"text/event-stream")])

    server = HttpServer(answer)
    port = await server.listen("127.0.0.1", 0)
    asker = Asker(Address("127.0.0.1", port), "plain")
    try:
        assert await turn(asker, HELLO, 5) == "yes"
    finally:
        await asker.close()
        await server.close(0)
    assert asked[1] - asked[0] >= 1.0


def test_frames_of_both_dialects_are_read() -> None:
    """Text from either, nothing from a thought, and an error in a stream is an error."""
    chat = {"choices": [{"delta": {"content": "a"}}]}
    assert text_of(b"data: " + json.dumps(chat).encode()) == "a"
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "b"}}
    assert text_of(b"event: content_block_delta\ndata: " + json.dumps(event).encode()) == "b"
    assert text_of(b": still here") == text_of(b"data: [DONE]") == ""
    with pytest.raises(HttpError):
        text_of(b'data: {"error":{"message":"no"}}')


def test_addresses_and_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """An endpoint with or without /v1, keys a line each, and never a key in a text."""
    assert address_of("http://127.0.0.1:8000/v1/") == Address("127.0.0.1", 8000, "/readyz")
    with pytest.raises(ValueError, match="write http://"):
        address_of("127.0.0.1:8000")
    (key,) = read_keys("# mine\nann rk-secret\n")
    assert (key.client, key.secret) == ("ann", "rk-secret")
    assert "rk-secret" not in repr(key)
    with pytest.raises(ValueError, match="line 1"):
        read_keys("rk-secret\n")
    for wrong in ([], ["1", "--endpoint", "http://127.0.0.1:1"], ["--endpoint", "x"]):
        with pytest.raises(SystemExit) as end:
            main(wrong)
        assert end.value.code == 2
    capsys.readouterr()


def test_the_scenes_of_the_endpoint() -> None:
    """Ten short ones on one beat; one that the standard window cannot hold beside five."""
    burst = SCENES["burst"].sessions
    assert len(burst) == 10
    assert len({session.every for session in burst}) == 1
    sizes = sorted(session.context for session in SCENES["long-context"].sessions)
    assert sizes[-1] > 262_144 > 50_000 > sizes[-2]
