"""What the HTTP tests share: both event loops, a server, raw clients, and a sink that remembers."""

from __future__ import annotations

import asyncio
import functools
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from rigctl.adapters.http1 import Exchange, HttpServer, Limits, PeerError, ResponseHead

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on asyncio's loop and on uvloop, which the endpoint runs on."""

    @pytest.mark.parametrize("loop", LOOPS)
    @functools.wraps(test)
    def on(loop: str, **given: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(asyncio.wait_for(test(**given), 30))

    del on.__wrapped__  # pytest is to see `loop`
    on.__signature__ = _signature(test)  # type: ignore[attr-defined]
    return on


def _signature(test: Callable[..., Any]) -> Any:
    import inspect

    own = inspect.signature(test)
    loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY, annotation=str)
    named = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own.parameters.values()]
    return own.replace(parameters=[*named, loop])


@asynccontextmanager
async def serving(
    handler: Callable[[Exchange], Awaitable[None]], host: str = "127.0.0.1", **options: Any
) -> AsyncIterator[int]:
    """A server with that handler on a free port; `limits` is a dict, the rest HttpServer's."""
    limits = Limits(**options.pop("limits", {}))
    server = HttpServer(handler, limits, **options)
    port = await server.listen(host, 0)
    try:
        yield port
    finally:
        await server.close()


@asynccontextmanager
async def peer(
    script: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """A raw server that follows a script; its open connections are aborted at the end."""
    writers: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await script(reader, writer)
        except (OSError, EOFError):
            pass  # our end left

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()


async def dial(port: int) -> socket.socket:
    """A connected client socket that blocks nobody."""
    sock = socket.socket()
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except OSError:
        sock.close()
        raise
    return sock


async def ask(port: int, data: bytes) -> bytes:
    """Send these bytes and read until the server closes."""
    loop = asyncio.get_running_loop()
    with await dial(port) as sock:
        await loop.sock_sendall(sock, data)
        return await read_all(sock)


async def read_all(sock: socket.socket) -> bytes:
    """Everything until the server closes."""
    got = bytearray()
    while part := await asyncio.get_running_loop().sock_recv(sock, 65536):
        got += part
    return bytes(got)


async def read_until(sock: socket.socket, mark: bytes) -> bytes:
    """Everything up to and with the mark, perhaps more."""
    got = b""
    while mark not in got:
        part = await asyncio.get_running_loop().sock_recv(sock, 65536)
        assert part, f"the server closed after {got[-200:]!r}"
        got += part
    return got


def reset(sock: socket.socket) -> None:
    """Close with RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class Remembered:
    """A sink that keeps what it was told, and fails on a call after the last one."""

    def __init__(self, *, frames: bool = False) -> None:
        """`frames`: take chunks with their frames, where they come whole."""
        self.frames = frames
        self.framed: list[bytes] = []
        self.heads: list[ResponseHead] = []
        self.body = b""
        self.calls: list[str] = []
        self.done: asyncio.Future[PeerError | None] = asyncio.get_running_loop().create_future()
        self.some = asyncio.Event()

    def _note(self, call: str) -> None:
        assert not self.done.done(), f"{call} after the end"
        self.calls.append(call)

    def head(self, head: ResponseHead) -> None:
        self._note("head")
        self.heads.append(head)
        self.some.set()

    def frame(self, data: bytes) -> bool:
        size, _, rest = data.partition(b"\r\n")
        if not self.frames or len(rest) < 3 or b"%x" % (len(rest) - 2) != size:
            return False
        self._note("frame")
        self.framed.append(data)
        self.body += rest[:-2]
        self.some.set()
        return True

    def data(self, data: bytes) -> None:
        self._note("data")
        self.body += data
        self.some.set()

    def end(self) -> None:
        self._note("end")
        self.done.set_result(None)

    def lost(self, error: PeerError) -> None:
        self._note("lost")
        self.done.set_result(error)
