"""The proxy in this process, in front of engines whose answers a test writes down."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rigctl.adapters.http1 import Exchange, HttpClient, HttpServer
from rigctl.config.paths import find_home
from rigctl.control import link_wire
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import Table, TableClient, TableGroup, TablePolicy
from rigctl.proxy.app import Proxy

Script = Callable[[Exchange, dict[str, Any]], Awaitable[None]]
"""What an engine does with one request, given its body."""
SSE = [(b"content-type", b"text/event-stream; charset=utf-8")]
JSON = [(b"content-type", b"application/json")]
CHAT = "/v1/chat/completions"
PATIENCE = 10.0


def chunk(text: str = "", finish: str | None = None, **more: Any) -> bytes:
    """One chat chunk as SGLang writes it."""
    delta = {"content": text} if text else {}
    row = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "x", "object": "chat.completion.chunk", "choices": [row], **more}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


@dataclass
class Engine:
    """A server that does what its script says; counts what is asked of it."""

    name: str
    script: Script
    window: int = 262_144
    pool: int = 800_000
    slots: int = 6
    asked: list[dict[str, Any]] = field(default_factory=list)
    heads: list[Any] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    counted: int = 0
    count: int | None = None
    """What /tokenize says; None: it answers 404."""
    efforts: tuple[str, ...] = ()
    """Levels that its template takes; empty: all."""
    running: int = 0
    abort_status: int = 200
    deaf: bool = False
    """It answers no question beside requests: as good as dead."""
    hold_closing: asyncio.Event | None = None
    """Until it is set no session's end is taken."""
    closed: list[str] = field(default_factory=list)
    port: int = 0
    server: HttpServer | None = None

    async def start(self) -> None:
        self.server = HttpServer(self._handle)
        self.port = await self.server.listen("127.0.0.1", self.port)

    async def stop(self) -> None:
        """As kill -9 would: every connection breaks."""
        assert self.server is not None
        await self.server.close()

    def _rejects(self, asked: dict[str, Any]) -> bool:
        level = asked.get("reasoning_effort")
        return level is not None and bool(self.efforts) and level not in self.efforts

    async def _handle(self, exchange: Exchange) -> None:
        path = exchange.head.path
        body = await exchange.body()
        if path == "/v1/loads" and self.deaf:
            exchange.abort()
        elif path == "/v1/loads":
            load = {"dp_rank": 0, "num_running_reqs": self.running, "num_waiting_reqs": 0}
            load |= {"num_waiting_uncached_tokens": 0, "timestamp": time.time()}
            await exchange.respond(200, json.dumps({"loads": [load]}).encode(), JSON)
        elif path == "/abort_request":
            self.aborted.append(json.loads(body)["rid"])
            await exchange.respond(self.abort_status, b"")
        elif path == "/close_session":
            if self.hold_closing is not None:
                await self.hold_closing.wait()
            self.closed.append(json.loads(body)["session_id"])
            await exchange.respond(200, b"")
        elif path == "/tokenize" and self.count is None:
            await exchange.respond(404, b"{}", JSON)
        elif path == "/tokenize" and self._rejects(json.loads(body)):
            await exchange.respond(400, b"{}", JSON)
        elif path == "/tokenize":
            self.counted += b"reasoning_effort" not in body  # those are the start's probes
            await exchange.respond(200, json.dumps({"count": self.count}).encode(), JSON)
        else:
            self.heads.append(exchange.head)
            asked = json.loads(body)
            self.asked.append(asked)
            self.running += 1
            try:
                await self.script(exchange, asked)
            finally:
                self.running -= 1


def row(engine: Engine, **more: Any) -> TableGroup:
    """The engine's row in the table."""
    return TableGroup(
        GroupName(engine.name),
        "127.0.0.1",
        engine.port,
        "qwen",
        "ready",
        gate="open",
        run="one",
        window=engine.window,
        pool=engine.pool,
        slots=engine.slots,
        **more,
    )


class Rig:
    """A running proxy and what a test needs of it."""

    def __init__(self, proxy: Proxy, port: int, engines: tuple[Engine, ...], table: Table) -> None:
        self._proxy = proxy
        self.port = port
        self.engines = engines
        self.table = table
        self.http = HttpClient(keep=0)

    @property
    def proxy(self) -> Proxy:
        """With its bookkeeping done, as everybody who reads it finds it."""
        self._proxy._admission.afterwards.settle()
        return self._proxy

    def give(self, **changes: Any) -> None:
        """A new table, as from the daemon."""
        self.table = replace(self.table, seq=self.table.seq + 1, **changes)
        self.proxy._take(self.table)

    def change(self, name: str, **changes: Any) -> None:
        """One group's row is another one."""
        rows = tuple(
            replace(each, **changes) if each.name == name else each for each in self.table.groups
        )
        self.give(groups=rows)

    async def ask(
        self, body: dict[str, Any] | bytes, path: str = CHAT, headers: Any = (), **more: Any
    ) -> Any:
        """A whole answer."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.http.request(
            "POST", "127.0.0.1", self.port, path, [*JSON, *headers], raw, timeout=PATIENCE, **more
        )

    async def open(self, body: dict[str, Any], path: str = CHAT, headers: Any = ()) -> Any:
        """A stream."""
        raw = json.dumps(body).encode()
        return await self.http.open("POST", "127.0.0.1", self.port, path, [*JSON, *headers], raw)

    def record(self, name: str) -> Any:
        return self.proxy._board.get(GroupName(name))

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait for it; the test's own timeout ends it."""
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110  what is waited for is another object's state
                await asyncio.sleep(0.01)


def say(text: str = "hello", stream: bool = True, **more: Any) -> dict[str, Any]:
    """A chat request."""
    body = {"model": "qwen", "messages": [{"role": "user", "content": text}], "stream": stream}
    return {**body, "max_tokens": 16, **more}


@contextlib.asynccontextmanager
async def rig(
    folder: Path,
    *engines: Engine,
    clients: tuple[TableClient, ...] = (),
    rows: dict[str, dict[str, Any]] | None = None,
    **policy: Any,
) -> AsyncIterator[Rig]:
    """A proxy before these engines; it ends with the block, and leaves nothing behind."""
    for engine in engines:
        await engine.start()
    home = find_home(str(folder))
    home.state.mkdir(parents=True)
    names = tuple(GroupName(engine.name) for engine in engines)
    groups = tuple(row(engine, **(rows or {}).get(engine.name, {})) for engine in engines)
    made = TablePolicy(model="qwen", order=names, **policy)
    table = Table("daemon", 1, Mono(time.monotonic()), groups, made, clients)
    home.table.write_bytes(link_wire.encode(table))
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    port = sock.getsockname()[1]
    proxy = Proxy(home, (sock,))
    running = asyncio.create_task(proxy.run())
    made_rig = Rig(proxy, port, engines, table)
    try:
        await made_rig.until(lambda: proxy._server.sockets)
        yield made_rig
    finally:
        await made_rig.http.close()
        proxy.end()
        await running
        for engine in engines:
            await engine.stop()


async def short(exchange: Exchange, asked: dict[str, Any]) -> None:
    """Two words and a proper end."""
    if asked.get("stream"):
        await stream(exchange, chunk("one "), chunk("two"), chunk(finish="stop"), DONE)
    else:
        await whole(exchange, "one two")


async def stream(exchange: Exchange, *parts: bytes) -> None:
    """These bytes, as a stream that ends well."""
    await exchange.start(200, SSE)
    for part in parts:
        await exchange.write(part)
    await exchange.finish()


async def whole(exchange: Exchange, text: str, **more: Any) -> None:
    """One answer that is not streamed."""
    message = {"role": "assistant", "content": text}
    body = {
        "id": "x",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
        **more,
    }
    await exchange.respond(200, json.dumps(body).encode(), JSON)


def json_error(got: Any) -> str:
    """The words of an OpenAI error body."""
    said: str = json.loads(got.body)["error"]["message"]
    return said
