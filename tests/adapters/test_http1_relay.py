"""The asking end by callbacks: what a sink is told, what is kept, and what is never used again."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc

import pytest
from http1_kit import Remembered, on_both_loops, peer, serving

from rigctl.adapters.http1 import (
    BrokenAnswerError,
    DisconnectedError,
    Exchange,
    HttpClient,
    TimedOutError,
    UnreachableError,
)

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
HOST = "127.0.0.1"


async def count_body(exchange: Exchange) -> None:
    size = 0
    async for part in exchange.chunks():
        size += len(part)
    await exchange.respond(200, b"%s %d" % (exchange.peer.encode(), size))


@on_both_loops
async def test_an_answer_is_told_in_order_and_its_connection_used_again() -> None:
    """Head, data, end; the next question goes out on the same connection and says so."""
    client = HttpClient()
    async with serving(count_body) as port:
        answers = []
        for turn in range(3):
            sink = Remembered()
            handle = await client.relay("POST", HOST, port, "/", [], [b"ab", b"", b"c"], sink)
            assert await sink.done is None
            assert sink.calls == ["head", "data", "end"]
            assert handle.reused == (turn > 0)
            handle.abort()  # too late to touch the connection, which is another's now
            answers.append(sink.body)
        assert len(set(answers)) == 1
        assert answers[0].endswith(b" 3")
        await client.close()


@on_both_loops
async def test_a_large_body_is_not_copied() -> None:
    """32 MB in two parts arrive whole, and cost the transport a few buffers, not copies."""
    client = HttpClient()
    parts = [b"a" * 16_000_000, b"b" * 16_000_000]
    async with serving(count_body) as port:
        sink = Remembered()
        tracemalloc.start()
        try:
            await client.relay("POST", HOST, port, "/", [], parts, sink)
            assert await sink.done is None
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert sink.body.endswith(b" 32000000")
        assert peak < 8_000_000
        await client.close()


@on_both_loops
async def test_nobody_there() -> None:
    """A refused connection raises from `relay` itself; the sink hears nothing."""
    with socket.socket() as unused:
        unused.bind((HOST, 0))
        sink = Remembered()
        with pytest.raises(UnreachableError):
            await HttpClient().relay("GET", HOST, unused.getsockname()[1], "/", [], [], sink)
        assert sink.calls == []


@on_both_loops
async def test_a_full_queue_of_connections_times_out() -> None:
    """A listener that takes nobody in ends the wait after `connect_timeout`."""
    with socket.socket() as full:
        full.bind((HOST, 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex((HOST, port))
        with pytest.raises(TimedOutError, match=r"0\.2 s"):
            await HttpClient().relay(
                "GET", HOST, port, "/", [], [], Remembered(), connect_timeout=0.2
            )
        for sock in waiting:
            sock.close()


@on_both_loops
async def test_a_kept_connection_that_dies_unanswered_is_told_as_such() -> None:
    """The caller learns that no answer byte came, and that the connection was a kept one."""

    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with peer(script) as port:
        client = HttpClient()
        first, second = Remembered(), Remembered()
        await client.relay("POST", HOST, port, "/", [], [], first)
        assert await first.done is None
        handle = await client.relay("POST", HOST, port, "/", [], [], second)
        lost = await second.done
        assert handle.reused
        assert isinstance(lost, DisconnectedError)
        assert not lost.answered
        await client.close()


BROKEN = {
    "cut": (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", b"half", DisconnectedError),
    "cut chunk": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"half",
        DisconnectedError,
    ),
    "bad chunk": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nxyz\r\n",
        b"half",
        BrokenAnswerError,
    ),
    "two framings": (
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf",
        b"",
        BrokenAnswerError,
    ),
    "no HTTP": (b"SSH-2.0-x\r\n", b"", BrokenAnswerError),
    "nothing": (b"", b"", DisconnectedError),
}


@pytest.mark.parametrize("kind", BROKEN)
@on_both_loops
async def test_a_torn_answer_ends_in_lost(kind: str) -> None:
    """What came goes on, then `lost`; never `end`."""
    answer, body, error = BROKEN[kind]

    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with peer(script) as port:
        client, sink = HttpClient(), Remembered()
        await client.relay("GET", HOST, port, "/", [], [], sink)
        assert isinstance(await sink.done, error)
        assert sink.body == body
        assert not any(client._idle.values())
        await client.close()


ODD = {
    "chunked twice": (
        b"transfer-encoding: chunked\r\n" * 2 + b"\r\n2\r\nok\r\n0\r\n\r\n",
        b"ok",
        1,
    ),
    "date twice": (b"date: a\r\ndate: b\r\ncontent-length: 2\r\n\r\nok", b"ok", 1),
    "length 0 and a body": (b"content-length: 0\r\n\r\nsurplus", b"", 0),
    "two answers": (b"content-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n", b"ok", 0),
    "half an answer more": (b"content-length: 2\r\n\r\nokHTT", b"ok", 0),
    "until the end": (b"\r\nok", b"ok", 0),
    "closes": (b"connection: close\r\ncontent-length: 2\r\n\r\nok", b"ok", 0),
}


@pytest.mark.case("C50")
@pytest.mark.parametrize("kind", ODD)
@on_both_loops
async def test_odd_answers_are_read_once_and_their_connection_kept_only_when_clean(
    kind: str,
) -> None:
    """One answer a question; surplus bytes belong to nobody and their connection is dropped."""
    rest, body, kept = ODD[kind]

    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + rest)
        if kind == "until the end":
            writer.close()
        else:
            await reader.read()

    async with peer(script) as port:
        client, sink = HttpClient(), Remembered()
        await client.relay("GET", HOST, port, "/", [], [], sink)
        assert await sink.done is None
        assert sink.body == body
        await asyncio.sleep(0.01)
        assert sum(link.usable for links in client._idle.values() for link in links) == kept
        await client.close()


@on_both_loops
async def test_an_aborted_exchange_closes_its_connection_at_once() -> None:
    """The server sees the end, the sink hears no more, the next question has a new connection."""
    gone = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if exchange.head.path == "/next":
            await exchange.respond(200, b"ok")
            return
        exchange.on_gone = gone.set
        await exchange.start(200)
        while True:
            await exchange.write(b"x" * 1000)
            await asyncio.sleep(0)

    async with serving(handler) as port:
        client, sink = HttpClient(), Remembered()
        handle = await client.relay("GET", HOST, port, "/", [], [], sink)
        await sink.some.wait()
        handle.abort()
        heard = len(sink.calls)
        await gone.wait()
        assert len(sink.calls) == heard
        handle.pause()
        handle.resume()
        after = Remembered()
        assert not (await client.relay("GET", HOST, port, "/next", [], [], after)).reused
        assert await after.done is None
        await client.close()


@on_both_loops
async def test_a_sink_may_abort_from_within() -> None:
    """An abort inside a callback is the last call, though the read held more."""

    class Quits(Remembered):
        def data(self, data: bytes) -> None:
            super().data(data)
            handle.abort()
            quitted.set()

    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
        await asyncio.sleep(0.05)
        writer.write(b"ok")
        await reader.read()

    quitted = asyncio.Event()
    async with peer(script) as port:
        client, sink = HttpClient(), Quits()
        handle = await client.relay("GET", HOST, port, "/", [], [], sink)
        await quitted.wait()
        await asyncio.sleep(0.02)
        assert sink.calls == ["head", "data"]
        assert not any(client._idle.values())
        await client.close()


@on_both_loops
async def test_a_paused_answer_stays_in_the_socket() -> None:
    """Paused, a source of 50 MB is held up; resumed, all of it comes."""
    written = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal written
        await exchange.start(200)
        for _ in range(500):
            await exchange.write(b"x" * 100_000)
            written += 100_000

    async with serving(handler) as port:
        client, sink = HttpClient(), Remembered()
        handle = await client.relay("GET", HOST, port, "/", [], [], sink)
        await sink.some.wait()
        handle.pause()
        await asyncio.sleep(0.2)
        held, got = written, len(sink.body)
        await asyncio.sleep(0.1)
        assert (written, len(sink.body)) == (held, got)
        assert held < 50_000_000
        handle.resume()
        assert await sink.done is None
        assert len(sink.body) == 50_000_000
        await client.close()


@on_both_loops
async def test_unused_connections_are_closed_before_the_server_does() -> None:
    """After `keep_seconds` a kept connection is closed by us, and another is made."""
    client = HttpClient(keep_seconds=0.1)
    async with serving(count_body) as port:
        for _ in range(2):
            sink = Remembered()
            handle = await client.relay("GET", HOST, port, "/", [], [], sink)
            await sink.done
            assert not handle.reused
            await asyncio.sleep(0.2)
            assert not any(client._idle.values())
        await client.close()


@on_both_loops
async def test_no_more_connections_are_kept_than_asked() -> None:
    """Ten answers at once leave `keep` connections."""
    client = HttpClient(keep=3)
    async with serving(count_body) as port:
        sinks = [Remembered() for _ in range(10)]
        for sink in sinks:
            await client.relay("GET", HOST, port, "/", [], [], sink)
        await asyncio.gather(*(sink.done for sink in sinks))
        assert [len(links) for links in client._idle.values()] == [3]
        await client.close()


@on_both_loops
async def test_an_early_answer_does_not_leave_half_a_body_on_a_kept_connection() -> None:
    """Answered before the body was out, the connection is dropped."""

    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await asyncio.sleep(5)

    async with peer(script) as port:
        client, sink = HttpClient(), Remembered()
        await client.relay("POST", HOST, port, "/", [], [b"x" * 30_000_000], sink)
        assert await sink.done is None
        assert sink.heads[0].status == 413
        assert not any(client._idle.values())
        await client.close()


@on_both_loops
async def test_head_ends_with_its_head() -> None:
    """The answer to HEAD is whole without the body whose length it names."""
    client = HttpClient()
    async with serving(count_body) as port:
        sink = Remembered()
        await client.relay("HEAD", HOST, port, "/", [], [], sink)
        assert await sink.done is None
        assert sink.calls == ["head", "end"]
        await client.close()


@pytest.mark.case("C44")
@on_both_loops
async def test_environment_proxies_do_not_catch_loopback() -> None:
    """With a dead proxy in every variable, IPv4 and IPv6 loopback are still reached."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            patch.setenv(name, "http://127.0.0.1:1")
        patch.setenv("NO_PROXY", "localhost")
        for host in ("127.0.0.1", "::1"):
            async with serving(count_body, host) as port:
                client, sink = HttpClient(), Remembered()
                await client.relay("POST", host, port, "/", [], [b"x"], sink)
                assert await sink.done is None
                assert sink.heads[0].status == 200
                assert (await client.get(host, port, "/v1/loads")).status == 200
                await client.close()


@on_both_loops
async def test_both_ends_send_at_once() -> None:
    """TCP_NODELAY is set on both ends, read through a duplicate of each descriptor."""
    ends: list[int] = []

    def nodelay(transport: asyncio.Transport) -> int:
        with socket.socket(fileno=socket.dup(transport.get_extra_info("socket").fileno())) as twin:
            return twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    async def handler(exchange: Exchange) -> None:
        ends.append(nodelay(exchange._connection._transport))  # type: ignore[attr-defined]
        await exchange.respond(200, b"ok")

    async with serving(handler) as port:
        client, sink = HttpClient(), Remembered()
        handle = await client.relay("GET", HOST, port, "/", [], [], sink)
        assert handle._link is not None
        ends.append(nodelay(handle._link._transport))
        await sink.done
        await client.close()
    assert len(ends) == 2
    assert all(ends)
