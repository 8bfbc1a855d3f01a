"""Both ends joined as a relay joins them: exact bytes, bounded buffers, clean framing."""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from http1_kit import ask, dial, on_both_loops, peer, read_until, serving

from rigctl.adapters.http1 import Exchange, Headers, HttpClient, PeerError, ResponseHead

GET = b"GET / HTTP/1.1\r\nhost: other\r\nte: trailers\r\nconnection: close, te\r\n\r\n"


def named(headers: Headers, name: bytes) -> Headers:
    """What goes on is named, as the endpoint does: nothing of a connection is among it."""
    return tuple(pair for pair in headers if pair[0] == name)[:1]


class Joint:
    """A sink that writes into an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def head(self, head: ResponseHead) -> None:
        self._exchange.begin(head.status, named(head.headers, b"date"))

    def frame(self, data: bytes) -> bool:
        return False

    def data(self, data: bytes) -> None:
        self._exchange.push(data)

    def end(self) -> None:
        self._exchange.complete()
        self.done.set_result(None)

    def lost(self, error: PeerError) -> None:
        self._exchange.abort()
        self.done.set_result(None)


@asynccontextmanager
async def relaying_to(upstream: int) -> AsyncIterator[int]:
    """A relay in front of that port."""
    client = HttpClient()

    async def handler(exchange: Exchange) -> None:
        joint = Joint(exchange)
        head = exchange.head
        fields = named(head.headers, b"accept")
        handle = await client.relay(
            head.method, "127.0.0.1", upstream, "/", fields, [await exchange.body()], joint
        )
        exchange.on_writable = lambda has_room: handle.resume() if has_room else handle.pause()

        def gone() -> None:
            handle.abort()
            joint.done.cancel()

        exchange.on_gone = gone
        await joint.done

    async with serving(handler, half_close=True) as port:
        yield port
    await client.close()


@on_both_loops
async def test_twelve_slow_readers_hold_their_sources_up() -> None:
    """Twelve unread answers of 20 MB cost a few buffers; read at last, each is exact."""
    block = bytes(range(256)) * 400

    async def source(exchange: Exchange) -> None:
        await exchange.start(200)
        for _ in range(200):
            await exchange.write(block)

    async with serving(source) as upstream, relaying_to(upstream) as port:
        loop = asyncio.get_running_loop()
        socks = [await dial(port) for _ in range(12)]
        tracemalloc.start()
        try:
            for sock in socks:
                await loop.sock_sendall(sock, GET)
            await asyncio.sleep(0.5)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # Both servers' buffers and one read each are in this process: well under the 245 MB.
        assert held < 12 * 2_500_000
        for sock in socks:
            assert await digest(sock) == hashlib.sha256(block * 200).digest()
            sock.close()


async def digest(sock: object) -> bytes:
    """SHA-256 of a chunked answer's body, its frames taken away by hand."""
    loop = asyncio.get_running_loop()
    got = bytearray()
    while part := await loop.sock_recv(sock, 1 << 20):  # type: ignore[arg-type]
        got += part
    body = got.partition(b"\r\n\r\n")[2]
    made = hashlib.sha256()
    place = 0
    while True:
        end = body.index(b"\r\n", place)
        size = int(body[place:end], 16)
        if not size:
            return made.digest()
        made.update(body[end + 2 : end + 2 + size])
        place = end + 2 + size + 2


@pytest.mark.case("C50")
@on_both_loops
async def test_odd_framing_upstream_is_clean_framing_here() -> None:
    """Twice chunked, twice dated, kept alive: the client gets one framing, ours, and one Date."""
    asked: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"
            b"Date: a\r\nDate: b\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n"
            b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
        )
        await reader.read()

    async with peer(script) as upstream, relaying_to(upstream) as port:
        got = await ask(port, GET)
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"date: a",
        b"transfer-encoding: chunked",
        b"connection: close",
    ]
    assert body == b"3\r\nabc\r\n0\r\n\r\n"
    assert asked == [b"GET / HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % upstream]


@pytest.mark.case("C50")
@on_both_loops
async def test_a_torn_answer_is_torn_here_too() -> None:
    """What breaks off upstream never ends well for the client."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n")
        writer.close()

    async with peer(script) as upstream, relaying_to(upstream) as port:
        with await dial(port) as sock:
            await asyncio.get_running_loop().sock_sendall(sock, GET)
            with pytest.raises((AssertionError, ConnectionResetError)):
                await read_until(sock, b"0\r\n\r\n")


@pytest.mark.case("C31")
@on_both_loops
async def test_a_client_that_leaves_ends_the_question_upstream() -> None:
    """Before any answer byte: the server's connection is closed within a second."""
    asked, left = asyncio.Event(), asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        try:
            await reader.read()
        except ConnectionResetError:
            pass  # broken off, as it should be
        left.set()

    async with peer(script) as upstream, relaying_to(upstream) as port:
        sock = await dial(port)
        await asyncio.get_running_loop().sock_sendall(sock, GET)
        await asked.wait()
        sock.close()
        await asyncio.wait_for(left.wait(), 1)
