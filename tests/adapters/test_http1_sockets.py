"""HTTP/1.1 over real sockets: both ends of ours, and raw peers that misbehave."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rigctl.adapters.http1 import (
    AnswerTooLargeError,
    ClientGoneError,
    DisconnectedError,
    Exchange,
    HttpClient,
    HttpServer,
    Limits,
    TimedOutError,
    UnreachableError,
)

Serve = Callable[..., Awaitable[int]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a server with this handler; it is closed at the test's end."""
    servers: list[HttpServer] = []

    async def start(handler: Callable[[Exchange], Awaitable[None]], **limits: float) -> int:
        server = HttpServer(handler, Limits(**limits))  # type: ignore[arg-type]
        servers.append(server)
        return await server.listen("127.0.0.1", 0)

    yield start
    for server in servers:
        await server.close()


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    """A client, closed at the end."""
    it = HttpClient()
    yield it
    await it.close()


async def echo(exchange: Exchange) -> None:
    body = await exchange.body()
    await exchange.respond(
        200, exchange.head.method.encode() + b" " + exchange.head.target + b" " + body
    )


async def raw(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_one_connection_serves_many(serve: Serve, client: HttpClient) -> None:
    """Polling reuses its connection."""
    peers: set[str] = set()

    async def handler(exchange: Exchange) -> None:
        peers.add(exchange.peer)
        await echo(exchange)

    port = await serve(handler)
    for _ in range(5):
        answer = await client.get("127.0.0.1", port, "/metrics?a=b")
        assert (answer.status, answer.body) == (200, b"GET /metrics?a=b ")
    assert len(peers) == 1


async def test_a_kept_connection_that_the_server_closed_is_replaced(
    serve: Serve, client: HttpClient
) -> None:
    """The engine drops idle connections after 5 s; a poll after that goes through unnoticed."""
    port = await serve(echo, idle_seconds=0.05)
    await client.get("127.0.0.1", port, "/")
    await asyncio.sleep(0.15)
    assert (await client.get("127.0.0.1", port, "/again")).body == b"GET /again "


async def test_head_has_no_body(serve: Serve, client: HttpClient) -> None:
    """The length is told, the body does not come, and nobody waits for it."""
    port = await serve(echo)
    answer = await client.request("HEAD", "127.0.0.1", port, "/")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header(b"content-length") == b"7"


async def test_streams_arrive_as_they_are_written(serve: Serve, client: HttpClient) -> None:
    """Each written part is readable before the next is made: nothing is held back."""
    turn = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.start(200, [(b"content-type", b"text/event-stream")])
        await exchange.write(b"data: 1\n\n")
        await turn.wait()
        await exchange.write(b"data: 2\n\n")

    port = await serve(handler)
    async with await client.open("POST", "127.0.0.1", port, "/", body=b"{}") as stream:
        parts = stream.chunks()
        assert await anext(parts) == b"data: 1\n\n"
        turn.set()
        assert [part async for part in parts] == [b"data: 2\n\n"]


async def test_a_slow_reader_slows_the_writer(serve: Serve, client: HttpClient) -> None:
    """Backpressure reaches the handler: an unread stream does not pile up in memory."""
    written = 0
    block = b"x" * 65536

    async def handler(exchange: Exchange) -> None:
        nonlocal written
        await exchange.start(200)
        for _ in range(1000):
            await exchange.write(block)
            written += len(block)

    port = await serve(handler)
    async with await client.open("GET", "127.0.0.1", port, "/") as stream:
        await asyncio.sleep(0.3)
        held = written
        await asyncio.sleep(0.2)
        assert written == held < 1000 * len(block)
        total = 0
        async for part in stream:
            total += len(part)
        assert total == 1000 * len(block)


async def test_a_slow_handler_slows_the_sender(serve: Serve) -> None:
    """A body that nobody reads yet is left in the socket, and arrives whole later."""
    begin = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await begin.wait()
        size = 0
        async for part in exchange.chunks():
            size += len(part)
        await exchange.respond(200, b"%d" % size)

    port = await serve(handler)
    size = 40_000_000
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % size
    )
    writer.write(b"x" * size)
    await asyncio.sleep(0.2)
    assert writer.transport.get_write_buffer_size() > size // 2
    begin.set()
    assert (await asyncio.wait_for(reader.read(), 10)).endswith(b"%d" % size)
    writer.close()
    await writer.wait_closed()


async def test_a_leaving_client_is_noticed(serve: Serve, client: HttpClient) -> None:
    """While a handler waits, a closed client is told by `gone`; writing then raises."""
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def handler(exchange: Exchange) -> None:
        await exchange.start(200)
        await exchange.write(b"a")
        await exchange.gone.wait()
        try:
            await exchange.write(b"b")
        except ClientGoneError as gone:
            seen.set_result(str(gone))
            raise

    port = await serve(handler)
    stream = await client.open("GET", "127.0.0.1", port, "/")
    stream.close()
    assert "closed" in await asyncio.wait_for(seen, 5)


async def test_expect_continue(serve: Serve) -> None:
    """A body is asked for only once a handler wants it."""
    port = await serve(echo)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /a HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    )
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"hi")
    assert (await reader.readuntil(b"POST /a hi")).startswith(b"HTTP/1.1 200 OK\r\n")
    writer.close()
    await writer.wait_closed()


async def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    """Three requests in one packet are served one after the other, the slowest first here."""

    async def handler(exchange: Exchange) -> None:
        await asyncio.sleep(0.1 if exchange.head.target == b"/1" else 0.0)
        await echo(exchange)

    port = await serve(handler)
    one = b"GET /%d HTTP/1.1\r\nhost: a\r\n%s\r\n"
    answer = await raw(port, one % (1, b"") + one % (2, b"") + one % (3, b"connection: close\r\n"))
    places = [answer.index(b"GET /%d" % number) for number in (1, 2, 3)]
    assert places == sorted(places)
    assert answer.count(b"HTTP/1.1 200") == 3


async def test_an_answer_before_the_body_closes(serve: Serve) -> None:
    """A handler that does not wait for the body says so: what still comes is no next request."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(200, b"early")

    port = await serve(handler)
    post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n"
    answer = await raw(port, post)
    assert b"connection: close" in answer
    assert answer.endswith(b"early")


async def test_old_clients(serve: Serve) -> None:
    """HTTP/1.0 gets plain bytes and the end of the connection, never chunks."""

    async def handler(exchange: Exchange) -> None:
        await exchange.start(200)
        await exchange.write(b"one")
        await exchange.write(b"two")

    port = await serve(handler)
    answer = await raw(port, b"GET / HTTP/1.0\r\n\r\n")
    assert b"transfer-encoding" not in answer
    assert answer.endswith(b"\r\n\r\nonetwo")


async def test_refusals_arrive(serve: Serve) -> None:
    """A refused request gets its status even while its body is still being sent."""
    port = await serve(echo, body=1000)
    post = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
    answer = await raw(port, post + b"content-length: 5000000\r\n\r\n" + b"x" * 500_000)
    assert answer.startswith(b"HTTP/1.1 413")
    chunked = post + b"transfer-encoding: chunked\r\n\r\n"
    answer = await raw(port, chunked + (b"400\r\n" + b"x" * 1024 + b"\r\n") * 20 + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413")
    smuggled = (
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    answer = await raw(port, smuggled + b"0\r\n\r\nGET /admin HTTP/1.1\r\nhost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"content-length") == 1


async def test_a_failing_handler(
    serve: Serve, client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the answer a failure is a 500; inside a stream it is a torn connection, not an end."""

    async def handler(exchange: Exchange) -> None:
        if exchange.head.path == "/stream":
            await exchange.start(200)
            await exchange.write(b"half")
        raise KeyError("broken")

    port = await serve(handler)
    assert (await client.get("127.0.0.1", port, "/")).status == 500
    with pytest.raises(DisconnectedError) as torn:
        await client.get("127.0.0.1", port, "/stream")
    assert torn.value.answered
    assert "broken" in caplog.text


async def test_a_head_that_dawdles_is_cut_off(serve: Serve) -> None:
    """A client that never ends its head is answered 408 and closed."""
    port = await serve(echo, head_seconds=0.1)
    assert (await raw(port, b"GET / HTTP/1.1\r\nhost: a\r\n")).startswith(b"HTTP/1.1 408")


async def test_blank_lines_keep_no_connection_open(serve: Serve) -> None:
    """They begin no request, so the wait for one goes on."""
    port = await serve(echo, head_seconds=0.2, idle_seconds=0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(10):
        while not reader.at_eof():
            writer.write(b"\r\n")
            await asyncio.sleep(0.02)
    writer.close()


async def test_client_limits(serve: Serve, client: HttpClient) -> None:
    """Too large, too late, not there: each its own error, in words."""

    async def handler(exchange: Exchange) -> None:
        if exchange.head.path == "/slow":
            await exchange.gone.wait()
        await exchange.start(200)
        await exchange.write(b"x" * 100_000)

    port = await serve(handler)
    with pytest.raises(AnswerTooLargeError, match="50000"):
        await client.get("127.0.0.1", port, "/", limit=50_000)
    with pytest.raises(TimedOutError, match=r"0\.1 s"):
        await client.get("127.0.0.1", port, "/slow", timeout=0.1)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError):
            await client.get("127.0.0.1", unused.getsockname()[1], "/")


async def test_closing_lets_answers_finish(client: HttpClient) -> None:
    """A server that stops accepting still finishes the stream in progress."""
    go = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.start(200)
        await exchange.write(b"a")
        await go.wait()
        await exchange.write(b"b")

    server = HttpServer(handler)
    port = await server.listen("127.0.0.1", 0)
    stream = await client.open("GET", "127.0.0.1", port, "/")
    server.stop_accepting()
    with pytest.raises(UnreachableError):
        await HttpClient().get("127.0.0.1", port, "/")
    go.set()
    assert await stream.body() == b"ab"
    await server.close(1)
