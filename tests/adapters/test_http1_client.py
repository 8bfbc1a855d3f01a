"""The asking end of HTTP/1.1 against raw servers that misbehave."""

from __future__ import annotations

import asyncio

import pytest

from rigctl.adapters.http1 import BrokenAnswerError, DisconnectedError, HttpClient


async def test_a_close_that_races_the_next_poll_is_retried_once() -> None:
    """A server that takes the second question and closes unanswered gets it on a new line."""
    asked: list[int] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(1)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await reader.readuntil(b"\r\n\r\n")
        asked.append(2)
        writer.close()

    server = await asyncio.start_server(peer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = HttpClient()
    async with server:
        assert (await client.get("127.0.0.1", port, "/")).body == b"ok"
        assert (await client.get("127.0.0.1", port, "/")).body == b"ok"
        assert asked == [1, 2, 1]
        with pytest.raises(DisconnectedError):
            await client.request("POST", "127.0.0.1", port, "/", body=b"x")
        await client.close()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na", b"a"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", DisconnectedError),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel", DisconnectedError),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", DisconnectedError),
        (b"", DisconnectedError),
        (b"garbage\r\n\r\n", BrokenAnswerError),
    ],
)
async def test_odd_servers(answer: bytes, outcome: bytes | type[Exception]) -> None:
    """An answer is whole or an error: a torn body is never taken for one."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(peer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = HttpClient()
        if isinstance(outcome, bytes):
            assert (await client.get("127.0.0.1", port, "/")).body == outcome
        else:
            with pytest.raises(outcome):
                await client.get("127.0.0.1", port, "/")
        await client.close()
