"""Writing an answer without waiting: order, backpressure, HTTP/1.0, and a client that is gone."""

from __future__ import annotations

import asyncio

import pytest
from http1_kit import ask, dial, on_both_loops, read_all, read_until, reset, serving

from rigctl.adapters.http1 import ClientGoneError, Exchange

GET = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"


async def three(exchange: Exchange) -> None:
    exchange.begin(200, [(b"x", b"y")])
    for part in (b"a", b"", b"bc"):
        exchange.push(part)
    exchange.complete()
    exchange.complete()


@on_both_loops
async def test_pushed_parts_are_chunks_in_order() -> None:
    """Each push is a chunk; an empty one is none; the end is said once."""
    async with serving(three) as port:
        got = await ask(port, GET)
    assert got.startswith(b"HTTP/1.1 200 OK\r\nx: y\r\n")
    assert got.partition(b"\r\n\r\n")[2] == b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"
    assert got.count(b"transfer-encoding: chunked\r\n") == 1


@pytest.mark.parametrize("status", [204, 304])
@on_both_loops
async def test_an_answer_without_a_body_has_no_frame(status: int) -> None:
    """204 and 304 end with their head, streamed or whole: the next answer begins right there."""

    async def handler(exchange: Exchange) -> None:
        if exchange.head.target == b"/whole":
            await exchange.respond(status)
            return
        exchange.begin(status)
        exchange.push(b"nothing goes out of this")
        exchange.complete()

    async with serving(handler) as port:
        kept = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET /whole HTTP/1.1\r\nhost: a\r\n\r\n"
        got = await ask(port, kept + GET)
    answers = got.split(b"\r\n\r\n")
    assert [head.startswith(b"HTTP/1.1 %d" % status) for head in answers] == [True] * 3 + [False]
    assert answers[-1] == b""
    assert b"transfer-encoding" not in got
    assert b"content-length" not in got


@pytest.mark.case("C53")
@pytest.mark.parametrize("fields", [b"", b"connection: keep-alive\r\n", b"connection: close\r\n"])
@on_both_loops
async def test_an_old_client_gets_its_stream_until_the_end(fields: bytes) -> None:
    """HTTP/1.0, no Host: plain bytes and a close, whether or not it asked to be kept."""
    async with serving(three) as port:
        got = await ask(port, b"POST / HTTP/1.0\r\n" + fields + b"content-length: 2\r\n\r\n{}")
    head, _, body = got.partition(b"\r\n\r\n")
    assert body == b"abc"
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head


@pytest.mark.case("C53")
@on_both_loops
async def test_an_old_client_is_kept_only_if_it_asks() -> None:
    """A whole answer with a length lets HTTP/1.0 ask again, when it said so."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(200, b"ok")

    async with serving(handler) as port:
        asks = b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"
        got = await ask(port, asks + asks + b"GET / HTTP/1.0\r\n\r\n")
        one = await ask(port, b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n")
    assert got.count(b"connection: keep-alive") == 2
    assert got.count(b"HTTP/1.1 200") == 3
    assert one.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in one


@on_both_loops
async def test_misuse_is_an_error_of_ours() -> None:
    """Twice begun, pushed before or after, completed before: each is a bug and says so."""
    seen: list[str] = []

    async def handler(exchange: Exchange) -> None:
        for call in (lambda: exchange.push(b"x"), exchange.complete):
            with pytest.raises(RuntimeError, match="begin"):
                call()
        exchange.begin(200)
        with pytest.raises(RuntimeError, match="begun"):
            exchange.begin(200)
        exchange.complete()
        with pytest.raises(RuntimeError, match="push"):
            exchange.push(b"x")
        seen.append("all")

    async with serving(handler) as port:
        await ask(port, GET)
    assert seen == ["all"]


@on_both_loops
async def test_a_slow_reader_is_told_and_holds_its_source_up() -> None:
    """Past the limit `on_writable(False)`; read away, True; the buffer holds little beyond it."""
    told: list[bool] = []
    stopped, done = asyncio.Event(), asyncio.Event()
    pushed = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal pushed

        def fill() -> None:
            nonlocal pushed
            while exchange.writable and pushed < 30_000_000:
                exchange.push(b"x" * 100_000)
                pushed += 100_000
            if pushed >= 30_000_000:
                done.set()
            else:
                loop.call_soon(lambda: fill() if exchange.writable else None)

        def writable(is_so: bool) -> None:
            told.append(is_so)
            assert exchange.writable == is_so
            if is_so:
                loop.call_soon(fill)
            else:
                stopped.set()

        loop = asyncio.get_running_loop()
        exchange.on_writable = writable
        exchange.begin(200)
        fill()
        await done.wait()

    async with serving(handler) as port:
        with await dial(port) as sock:
            await asyncio.get_running_loop().sock_sendall(sock, GET)
            await stopped.wait()
            await asyncio.sleep(0.2)
            held = pushed
            await asyncio.sleep(0.1)
            assert pushed == held < 10_000_000  # the kernel's buffers, and a little of ours
            assert told[-1] is False
            got = await read_all(sock)
    assert got.endswith(b"0\r\n\r\n")
    assert got.count(b"x") == 30_000_000
    assert True in told


@on_both_loops
async def test_a_gone_client_is_told_at_once_and_pushing_on_does_nothing() -> None:
    """`on_gone` comes from the loss itself; push and complete are silent, write raises."""
    called = asyncio.Event()
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def handler(exchange: Exchange) -> None:
        exchange.on_gone = called.set
        exchange.begin(200)
        exchange.push(b"first")
        await called.wait()
        assert exchange.is_gone
        assert exchange.gone.is_set()
        exchange.push(b"second")
        try:
            await exchange.write(b"third")
        except ClientGoneError:
            exchange.complete()
            outcome.set_result("raised")

    async with serving(handler) as port:
        sock = await dial(port)
        await asyncio.get_running_loop().sock_sendall(sock, GET)
        await read_until(sock, b"first")
        reset(sock)
        assert await outcome == "raised"


@on_both_loops
async def test_a_client_that_goes_after_its_answer_is_no_loss() -> None:
    """`on_gone` speaks of answers that were not whole."""
    called: list[int] = []
    late = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        exchange.on_gone = lambda: called.append(1)
        exchange.begin(200)
        exchange.complete()
        await exchange.gone.wait()  # the handler still books something
        late.set()

    async with serving(handler) as port:
        sock = await dial(port)
        await asyncio.get_running_loop().sock_sendall(sock, GET)
        await read_until(sock, b"0\r\n\r\n")
        reset(sock)
        await late.wait()
    assert called == []
