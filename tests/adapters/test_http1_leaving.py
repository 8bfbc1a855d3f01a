"""Clients that leave, and clients that only end their sending side (C31)."""

from __future__ import annotations

import asyncio
import socket

import pytest
from http1_kit import dial, on_both_loops, read_all, read_until, reset, serving

from rigctl.adapters.http1 import Exchange

POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"
NOTICED = 1.0
"""Seconds within which a client that left is to be seen gone (C31)."""


class Handler:
    """Answers when told to; notes what it hears of its client."""

    def __init__(self, streams: bool) -> None:
        self.streams = streams
        self.came = asyncio.Event()
        self.gone = asyncio.Event()
        self.go = asyncio.Event()
        self.half_closed = 0

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.body()
        exchange.on_gone = self.gone.set

        def half_closed() -> None:
            self.half_closed += 1
            exchange.push(b": still there?\n\n")

        exchange.on_half_close = half_closed
        if self.streams:
            exchange.begin(200, [(b"content-type", b"text/event-stream")])
            exchange.push(b"data: 1\n\n")
        self.came.set()
        await self.go.wait()
        if not self.streams:
            exchange.begin(200)
        exchange.push(b"data: 2\n\n")
        exchange.complete()


def leave(sock: socket.socket, how: str) -> None:
    if how == "reset":
        reset(sock)
    else:
        sock.close()


@pytest.mark.case("C31")
@pytest.mark.parametrize("streams", [False, True], ids=["before the head", "mid-stream"])
@pytest.mark.parametrize("how", ["close", "reset"])
@on_both_loops
async def test_a_client_that_left_is_seen_gone(streams: bool, how: str) -> None:
    """FIN by close() and RST both reach `on_gone` within a second, though nothing was due."""
    handler = Handler(streams)
    async with serving(handler, half_close=True) as port:
        sock = await dial(port)
        await asyncio.get_running_loop().sock_sendall(sock, POST)
        if streams:
            await read_until(sock, b"data: 1")
        await handler.came.wait()
        leave(sock, how)
        await asyncio.wait_for(handler.gone.wait(), NOTICED)
        handler.go.set()


@pytest.mark.case("C31")
@pytest.mark.parametrize("streams", [False, True], ids=["before the head", "mid-stream"])
@on_both_loops
async def test_a_half_closed_client_gets_its_answer(streams: bool) -> None:
    """After shutdown(SHUT_WR) the answer comes whole; a probe is an interim 100 or our comment."""
    handler = Handler(streams)
    async with serving(handler, half_close=True) as port:
        with await dial(port) as sock:
            await asyncio.get_running_loop().sock_sendall(sock, POST)
            await handler.came.wait()
            sock.shutdown(socket.SHUT_WR)
            await asyncio.sleep(0.6)  # two looks at the socket
            assert not handler.gone.is_set()
            handler.go.set()
            got = await read_all(sock)
    assert got.endswith(b"data: 2\n\n\r\n0\r\n\r\n")
    if streams:
        assert handler.half_closed == 1
        assert b": still there?" in got
    else:
        assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert not handler.gone.is_set()


@pytest.mark.case("C31")
@on_both_loops
async def test_a_half_closed_client_that_leaves_later_is_seen_gone() -> None:
    """It waits half-closed, its probe unread, and then closes: gone."""
    handler = Handler(False)
    async with serving(handler, half_close=True) as port:
        sock = await dial(port)
        await asyncio.get_running_loop().sock_sendall(sock, POST)
        await handler.came.wait()
        sock.shutdown(socket.SHUT_WR)
        await asyncio.sleep(0.1)
        assert not handler.gone.is_set()
        sock.close()
        await asyncio.wait_for(handler.gone.wait(), NOTICED)
        handler.go.set()


@pytest.mark.case("C31")
@pytest.mark.parametrize("streams", [False, True], ids=["before the head", "mid-stream"])
@pytest.mark.parametrize(
    ("options", "request_"),
    [
        ({"half_close": True}, POST.replace(b"1.1", b"1.0")),
        ({}, POST),
    ],
    ids=["HTTP/1.0", "a server like uvicorn"],
)
@on_both_loops
async def test_where_fin_means_gone(
    streams: bool, options: dict[str, bool], request_: bytes
) -> None:
    """HTTP/1.0 knows no interim answer to probe with; the simulated engine is as uvicorn is."""
    handler = Handler(streams)
    async with serving(handler, **options) as port:
        with await dial(port) as sock:
            await asyncio.get_running_loop().sock_sendall(sock, request_)
            await handler.came.wait()
            sock.shutdown(socket.SHUT_WR)
            await asyncio.wait_for(handler.gone.wait(), NOTICED)
            handler.go.set()
            assert b"100 Continue" not in await read_all(sock)


@pytest.mark.case("C31")
@on_both_loops
async def test_fin_inside_a_request_is_the_end() -> None:
    """A body that can never be whole is not waited for."""
    handler = Handler(False)
    async with serving(handler, half_close=True) as port:
        with await dial(port) as sock:
            await asyncio.get_running_loop().sock_sendall(sock, POST[:-1])
            sock.shutdown(socket.SHUT_WR)
            assert await read_all(sock) == b""
    assert not handler.came.is_set()


@on_both_loops
async def test_pipelined_requests_before_a_half_close_are_all_answered() -> None:
    """Two requests and FIN in one go: two answers, then the end."""

    async def handler(exchange: Exchange) -> None:
        await asyncio.sleep(0.05)
        await exchange.respond(200, exchange.head.target)

    async with serving(handler, half_close=True) as port:
        with await dial(port) as sock:
            one = b"GET /%d HTTP/1.1\r\nhost: a\r\n\r\n"
            await asyncio.get_running_loop().sock_sendall(sock, one % 1 + one % 2)
            sock.shutdown(socket.SHUT_WR)
            got = await read_all(sock)
    assert got.index(b"/1") < got.index(b"/2")


@on_both_loops
async def test_a_leaving_client_with_a_pipelined_request_is_still_noticed() -> None:
    """A request that waits its turn does not make the server deaf."""
    handler = Handler(False)
    async with serving(handler, half_close=True) as port:
        sock = await dial(port)
        await asyncio.get_running_loop().sock_sendall(sock, POST + POST)
        await handler.came.wait()
        sock.close()
        await asyncio.wait_for(handler.gone.wait(), NOTICED)
        handler.go.set()
