"""Taking connections in: IPv4 and IPv6, and a change of servers that loses nobody."""

from __future__ import annotations

import asyncio
import socket

import pytest
from http1_kit import ask, dial, on_both_loops, read_all, read_until, serving

from rigctl.adapters.http1 import Exchange, HttpClient, HttpServer

GET = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"


def answering(name: bytes) -> HttpServer:
    async def handler(exchange: Exchange) -> None:
        await exchange.respond(200, name)

    return HttpServer(handler)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
@on_both_loops
async def test_loopback_by_any_name(host: str) -> None:
    """Listening and dialling work for both families and for the name."""
    peers: list[str] = []

    async def handler(exchange: Exchange) -> None:
        peers.append(exchange.peer)
        await exchange.respond(200, b"ok")

    async with serving(handler, host) as port:
        client = HttpClient()
        assert (await client.get(host, port, "/")).body == b"ok"
        if host == "::1":
            assert peers[0].startswith("[::1]:")
        await client.close()


@on_both_loops
async def test_a_taken_port_is_an_error() -> None:
    """Who asks for a port that is taken is told, not given another."""
    first, second = answering(b"a"), answering(b"b")
    port = await first.listen("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        await second.listen("127.0.0.1", port)
    await second.close()
    await first.close()


@on_both_loops
async def test_a_change_of_servers_loses_nobody() -> None:
    """Clients come all the while: each is answered by the old one or by its successor."""
    old, new = answering(b"old"), answering(b"new")
    port = await old.listen("127.0.0.1", 0)
    answers: list[bytes] = []

    async def come() -> None:
        answers.append((await ask(port, GET)).rpartition(b"\r\n\r\n")[2])

    clients = [asyncio.create_task(come()) for _ in range(40)]
    await asyncio.sleep(0.002)
    inherited = old.sockets[0].dup()
    old.stop_accepting(patience=5)
    clients += [asyncio.create_task(come()) for _ in range(40)]
    await asyncio.sleep(0.01)
    await new.adopt(inherited)
    clients += [asyncio.create_task(come()) for _ in range(40)]
    await asyncio.gather(*clients)
    assert len(answers) == 120
    assert set(answers) <= {b"old", b"new"}
    assert answers.count(b"new") >= 40
    await old.close(1)
    await new.close(1)


@on_both_loops
async def test_a_question_on_its_way_is_answered_after_the_stop() -> None:
    """Taken in, not yet asked: with patience the question is heard, answered, and is the last."""
    server = answering(b"ok")
    port = await server.listen("127.0.0.1", 0)
    with await dial(port) as fresh, await dial(port) as kept:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(kept, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await read_until(kept, b"ok")
        await asyncio.sleep(0.01)
        server.stop_accepting(patience=5)
        for sock in (fresh, kept):
            await loop.sock_sendall(sock, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            got = await read_all(sock)
            assert got.endswith(b"ok")
            assert b"connection: close" in got
        with pytest.raises(ConnectionRefusedError):
            await dial(port)
    await server.close(1)


@on_both_loops
async def test_without_patience_unused_connections_close_at_once() -> None:
    """As uvicorn leaves: who asks nothing is closed, who was asking gets its answer."""
    go = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await go.wait()
        await exchange.respond(200, b"late")

    server = HttpServer(handler)
    port = await server.listen("127.0.0.1", 0)
    with await dial(port) as idle, await dial(port) as asking:
        await asyncio.get_running_loop().sock_sendall(asking, GET)
        await asyncio.sleep(0.02)
        server.stop_accepting()
        assert await read_all(idle) == b""
        go.set()
        assert (await read_all(asking)).endswith(b"late")
    await server.close(1)


@on_both_loops
async def test_patience_ends() -> None:
    """A connection that asks nothing is closed when its time is over."""
    server = answering(b"ok")
    server.limits = type(server.limits)(idle_seconds=0.2)
    port = await server.listen("127.0.0.1", 0)
    with await dial(port) as sock:
        assert isinstance(sock, socket.socket)
        await asyncio.sleep(0.01)
        server.stop_accepting(patience=0.05)
        assert await read_all(sock) == b""
    await server.close(1)
