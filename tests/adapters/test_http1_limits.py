"""What a client may not do to the server: dawdle, flood, never read, send too much."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from http1_kit import ask, dial, on_both_loops, read_all, read_until, serving

from rigctl.adapters.http1 import Exchange, RequestError

POST = b"POST /v1/messages HTTP/1.1\r\nhost: a\r\n"


async def size(exchange: Exchange) -> None:
    await exchange.respond(200, b"%d bytes" % len(await exchange.body()))


async def trickle(port: int, head: bytes, part: bytes, pause: float) -> bytes:
    """Send the head, then one part after each pause, until the server answers."""
    loop = asyncio.get_running_loop()
    with await dial(port) as sock:
        await loop.sock_sendall(sock, head)
        answer = loop.create_task(read_all(sock))
        while not answer.done():
            await asyncio.wait([answer], timeout=pause)
            if part and not answer.done():
                try:
                    await loop.sock_sendall(sock, part)
                except OSError:
                    break  # closed on us: what it said is read below
        return await answer


@pytest.mark.parametrize(
    ("limits", "part", "why"),
    [
        ({"body_idle_seconds": 0.1}, b"", b"stopped"),
        ({"body_grace_seconds": 0.1, "body_least_rate": 100_000.0}, b"x", b"slowly"),
    ],
)
@on_both_loops
async def test_a_body_that_trickles(limits: dict[str, Any], part: bytes, why: bytes) -> None:
    """Nothing for a while, or too little on average: 408, with the reason, and the end."""
    async with serving(size, limits=limits) as port:
        head = POST + b"content-length: 1000\r\n\r\nab"
        got = await trickle(port, head, part, 0.02)
    assert got.startswith(b"HTTP/1.1 408 ")
    assert why in got
    assert b"connection: close" in got


@on_both_loops
async def test_a_handler_that_lags_is_not_the_clients_fault() -> None:
    """While we leave the body in the socket its clock stands still."""

    async def handler(exchange: Exchange) -> None:
        await asyncio.sleep(0.4)
        await size(exchange)

    limits = {
        "body_idle_seconds": 0.1,
        "body_grace_seconds": 0.1,
        "body_least_rate": 1e9,
        "buffered": 1000,
    }
    async with serving(handler, limits=limits) as port:
        with await dial(port) as sock:
            head = POST + b"connection: close\r\ncontent-length: 8000000\r\n\r\n"
            sending = asyncio.create_task(
                asyncio.get_running_loop().sock_sendall(sock, head + b"x" * 8_000_000)
            )
            got = await read_all(sock)
            await sending
    assert got.endswith(b"8000000 bytes")


@on_both_loops
async def test_who_waits_for_an_invitation_does_not_trickle() -> None:
    """With Expect: 100-continue the body's time begins when it is asked for."""

    async def handler(exchange: Exchange) -> None:
        await asyncio.sleep(0.3)
        await size(exchange)

    async with serving(handler, limits={"body_idle_seconds": 0.1}) as port:
        with await dial(port) as sock:
            loop = asyncio.get_running_loop()
            head = POST + b"expect: 100-Continue\r\nconnection: close\r\ncontent-length: 2\r\n\r\n"
            await loop.sock_sendall(sock, head)
            assert await read_until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            await loop.sock_sendall(sock, b"{}")
            assert (await read_all(sock)).endswith(b"2 bytes")


@on_both_loops
async def test_a_reader_that_takes_nothing_is_given_up() -> None:
    """An answer that lies ready, untouched, for `stalled_write_seconds` ends in `on_gone`."""
    gone = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        exchange.on_gone = gone.set
        exchange.begin(200)
        while exchange.writable:
            exchange.push(b"x" * 1_000_000)
            await asyncio.sleep(0)
        await gone.wait()

    async with serving(handler, limits={"stalled_write_seconds": 0.2}) as port:
        with await dial(port) as sock:
            await asyncio.get_running_loop().sock_sendall(sock, POST + b"\r\n")
            await gone.wait()


@on_both_loops
async def test_a_slow_reader_is_not_given_up() -> None:
    """Taking a little now and then is reading; the whole answer arrives, also a closing one."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(200, b"x" * 12_000_000)

    limits = {"stalled_write_seconds": 0.5, "idle_seconds": 0.5}
    async with serving(handler, limits=limits) as port:
        with await dial(port) as sock:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(sock, POST + b"connection: close\r\n\r\n")
            got = 0
            for _ in range(8):
                await asyncio.sleep(0.15)
                got += len(await loop.sock_recv(sock, 500_000))
            got += len(await read_all(sock))
    assert got > 12_000_000


@on_both_loops
async def test_one_client_too_many_is_told_so() -> None:
    """Over the cap: 503 and a close, at once; when one leaves, there is room."""
    async with serving(size, limits={"connections": 3}) as port:
        held = [await dial(port) for _ in range(3)]
        await asyncio.sleep(0.05)
        with await dial(port) as more:
            got = await read_all(more)
        assert got.startswith(b"HTTP/1.1 503 ")
        assert b"3 clients" in got
        assert b"connection: close" in got
        for sock in held:
            sock.close()
        await asyncio.sleep(0.05)
        assert (await ask(port, POST + b"connection: close\r\n\r\n")).startswith(b"HTTP/1.1 200")


@on_both_loops
async def test_refusals_speak_the_servers_words() -> None:
    """Whoever refuses, parser or handler, the body is in the shape that `word` gives."""

    def word(status: int, say: str, target: bytes) -> tuple[bytes, bytes]:
        return b"application/json", b'{"error": "%d %s"}' % (status, target)

    async def handler(exchange: Exchange) -> None:
        raise RequestError(415, "no")

    async with serving(handler, word=word, limits={"body": 10}) as port:
        over = await ask(port, POST + b"content-length: 11\r\n\r\n")
        refused = await ask(port, POST + b"connection: close\r\n\r\n")
        rubbish = await ask(port, b"\x16\x03\x01")
    assert over.endswith(b'{"error": "413 /v1/messages"}')
    assert b"content-type: application/json" in over
    assert refused.endswith(b'{"error": "415 /v1/messages"}')
    assert rubbish.endswith(b'{"error": "400 "}')


@pytest.mark.case("C42")
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("length", [1_309_298, 32_000_000, 64 * 1024 * 1024])
@on_both_loops
async def test_big_bodies_pass(length: int, chunked: bool) -> None:
    """A long agent turn, pictures, and the limit itself: read whole, with and without length."""
    async with serving(size) as port:
        with await dial(port) as sock:
            loop = asyncio.get_running_loop()
            fields = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % length
            await loop.sock_sendall(sock, POST + b"connection: close\r\n" + fields + b"\r\n\r\n")
            if chunked:
                await loop.sock_sendall(sock, b"%x;kind=picture\r\n" % length)
            await loop.sock_sendall(sock, bytes(length))
            if chunked:
                await loop.sock_sendall(sock, b"\r\n0\r\n\r\n")
            assert (await read_all(sock)).endswith(b"\r\n\r\n%d bytes" % length)


@pytest.mark.case("C42")
@pytest.mark.parametrize("chunked", [False, True])
@on_both_loops
async def test_200_megabytes_are_refused_while_they_come(chunked: bool) -> None:
    """413 once the length is known or passed; a client that sends all first still reads it."""
    async with serving(size) as port:
        with await dial(port) as sock:
            loop = asyncio.get_running_loop()
            length = 200_000_000
            fields = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % length
            await loop.sock_sendall(sock, POST + fields + b"\r\n\r\n")
            block = bytes(1_000_000)
            for _ in range(200):
                await loop.sock_sendall(sock, b"f4240\r\n" + block + b"\r\n" if chunked else block)
            got = await read_all(sock)
    assert got.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in got


@pytest.mark.case("C42")
@on_both_loops
async def test_less_than_announced_is_no_request() -> None:
    """A client that promised more than it sent gets no answer to half a prompt."""
    served: list[bytes] = []

    async def handler(exchange: Exchange) -> None:
        served.append(await exchange.body())

    async with serving(handler, half_close=True) as port:
        with await dial(port) as sock:
            await asyncio.get_running_loop().sock_sendall(
                sock, POST + b"content-length: 10\r\n\r\n{}"
            )
            sock.shutdown(socket.SHUT_WR)
            assert await read_all(sock) == b""
    assert served == []


@on_both_loops
async def test_a_body_that_turns_to_rubbish_is_refused_not_dropped() -> None:
    """A chunk of no size inside a body: 400, whoever was reading it."""
    async with serving(size) as port:
        got = await ask(port, POST + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\nxyz\r\n")
    assert got.startswith(b"HTTP/1.1 400 ")


@on_both_loops
async def test_endless_frames_around_no_body_are_cut_off() -> None:
    """A chunk extension or a trailer line without end is bounded like a head."""
    async with serving(size, limits={"head": 10_000}) as port:
        chunked = POST + b"transfer-encoding: chunked\r\n\r\n"
        for endless in (b"2;x=", b"2\r\nab\r\n0\r\nx: "):
            got = await trickle(port, chunked + endless, b"y" * 2_000, 0.01)
            assert got.startswith(b"HTTP/1.1 431 ")
