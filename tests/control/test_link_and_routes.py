"""The proxy's link on the daemon's socket, and the decisions that clients ask for."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from served_rig import Loop, until

from rigctl.control import link_wire
from rigctl.control.client import SocketClient
from rigctl.control.wire import WireError
from rigctl.core.facts import EndpointLinked, EndpointRefused, EndpointUnlinked
from rigctl.core.flow import RouteRecord
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import (
    LINK_PROTOCOL,
    AbortRequest,
    Evidence,
    GateState,
    Hello,
    Progress,
    Routes,
    Table,
    TablePolicy,
    ToProxy,
)
from rigctl.daemon.link import LinkHub
from rigctl.daemon.route_ring import KEPT
from rigctl.daemon.server import ControlServer

HELLO = Hello(LINK_PROTOCOL, "0.1.0", os.getpid(), "3f0c11aa", "127.0.0.1:8000")
LONG = GroupName("long")
TABLE = Table("e1", 1, Mono(5.0), (), TablePolicy())


def record(number: int, status: int = 0) -> RouteRecord:
    return RouteRecord(
        *(number, 1.0, f"rig-1-{number:08x}", "ab", "anna", "/v1/chat/completions", "long"),
        *("free", "it had a slot", "", 5, "bytes", 0.0, status),
    )


class Proxy:
    """The other end of a link, by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> Proxy:
        self.reader, self.writer = await asyncio.open_unix_connection(self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def write(self, *lines: bytes) -> None:
        self.writer.write(b"".join(lines))

    async def line(self) -> bytes:
        async with asyncio.timeout(10):
            return await self.reader.readline()

    async def hear(self) -> ToProxy | None:
        return link_wire.decode_to_proxy(await self.line())


@pytest.fixture
async def proxy(loop: Loop, server: ControlServer, tmp_path: Path) -> AsyncIterator[Proxy]:
    """Linked, its table heard."""
    loop.links.tell_all(TABLE)
    async with Proxy(tmp_path / "s") as made:
        made.write(link_wire.encode(HELLO))
        assert await made.hear() == TABLE
        yield made


async def test_what_came_with_the_hello_in_one_packet_is_not_lost(
    loop: Loop, server: ControlServer, tmp_path: Path
) -> None:
    """The connection becomes a link in mid-stream, however the bytes were cut."""
    gate = GateState(LONG, 0, "open", 2)
    evidence = link_wire.encode(Evidence(LONG, "reset", "it broke off"))
    async with Proxy(tmp_path / "s") as made:
        made.write(link_wire.encode(HELLO), link_wire.encode(gate), evidence[:20])
        await until(lambda: loop.said() == [gate])
        made.write(evidence[20:])
        await until(lambda: loop.said() == [gate, Evidence(LONG, "reset", "it broke off")])
        assert loop.facts[0] == EndpointLinked(os.getpid(), HELLO)
        assert loop.greeted == [os.getpid()]
        made.write(b"not json\n" + link_wire.encode(replace(gate, gate="closed")))
        await until(lambda: loop.said()[-1] == replace(gate, gate="closed"))
    await until(lambda: loop.facts[-1] == EndpointUnlinked(os.getpid()))


async def test_words_reach_the_proxy_and_a_second_link_of_it_replaces_the_first(
    loop: Loop, proxy: Proxy, tmp_path: Path
) -> None:
    """A proxy that connects again is told the table anew, and is not taken for gone."""
    loop.links.tell(os.getpid(), AbortRequest("rig-1"))
    assert await proxy.hear() == AbortRequest("rig-1")
    async with Proxy(tmp_path / "s") as again:
        again.write(link_wire.encode(HELLO))
        assert await again.hear() == TABLE
        assert await proxy.line() == b""
        await asyncio.sleep(0.05)
        assert EndpointUnlinked(os.getpid()) not in loop.facts
        loop.links.tell_all(replace(TABLE, seq=2))
        assert await again.hear() == replace(TABLE, seq=2)


async def test_a_proxy_that_does_not_read_gets_the_newest_of_everything(
    loop: Loop, proxy: Proxy
) -> None:
    """Tables and progress are replaced while it is slow: it never has a backlog of them."""
    proxy.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for number in range(2, 3000):
        loop.links.tell_all(replace(TABLE, seq=number, epoch="e" * 400))
        loop.links.tell_all(Progress(LONG, "decoding", float(number)))
    proxy.writer.transport.resume_reading()  # type: ignore[attr-defined]
    heard = [TABLE]
    while not (isinstance(heard[-1], Progress) and heard[-1].tokens_left == 2999.0):
        message = await proxy.hear()
        assert message is not None
        heard.append(message)
    assert len(heard) < 2500
    assert [each.seq for each in heard if isinstance(each, Table)][-1] == 2999


async def test_counts_of_an_open_gate_are_conflated_and_a_drains_are_not(
    loop: Loop, proxy: Proxy
) -> None:
    """A thousand requests a second are no thousand facts; who waits for a drain waits for none."""
    for count in range(200):
        proxy.write(link_wire.encode(GateState(LONG, 0, "open", count)))
    await until(lambda: bool(loop.said()) and loop.said()[-1] == GateState(LONG, 0, "open", 199))
    assert len(loop.said()) <= 4
    loop.draining.add("long")
    before = len(loop.said())
    for count in (3, 2, 1, 0):
        proxy.write(link_wire.encode(GateState(LONG, 1, "finish", count)))
    await until(lambda: len(loop.said()) == before + 4)


async def test_strangers_and_other_protocols_get_a_reason(
    loop: Loop, server: ControlServer, tmp_path: Path
) -> None:
    """The error line says what to do; the connection stays a client's."""
    async with Proxy(tmp_path / "s") as made:
        made.write(json.dumps({"do": "link", "protocol": 99, "rigctl": "9.9"}).encode() + b"\n")
        with pytest.raises(WireError, match=r"the daemon .* is older") as caught:
            await made.hear()
        assert caught.value.code == "version"
        assert [type(each) for each in loop.facts] == [EndpointRefused]
    loop.proxies.clear()
    async with Proxy(tmp_path / "s") as made:
        made.write(link_wire.encode(HELLO))
        with pytest.raises(WireError, match="no proxy that this daemon started") as caught:
            await made.hear()
        assert caught.value.code == "not-allowed"
    loop.proxies.add(os.getpid())
    loop.links.close()
    async with Proxy(tmp_path / "s") as made:
        made.write(link_wire.encode(HELLO))
        with pytest.raises(WireError) as caught:
            await made.hear()
        assert caught.value.code == "busy"


async def test_a_line_without_end_costs_the_link(loop: Loop, proxy: Proxy) -> None:
    """The daemon's memory is not a proxy's to fill."""
    proxy.write(b"x" * (link_wire.LINK_LIMIT + 2))
    assert await proxy.line() == b""
    await until(lambda: loop.facts[-1] == EndpointUnlinked(os.getpid()))


async def test_routes_come_oldest_first_and_are_bounded(
    loop: Loop, proxy: Proxy, client: SocketClient
) -> None:
    """A record's end takes its place; only the newest five hundred are kept."""
    proxy.write(link_wire.encode(Routes((record(1), record(2)))))
    proxy.write(link_wire.encode(Routes((record(1, 200),))))
    await until(lambda: loop.routes.newest(9) == (record(1, 200), record(2)))
    assert [each async for each in client.routes(1)] == [record(2)]
    loop.routes.put([record(number) for number in range(3, KEPT + 10)])
    found = [each.seq async for each in client.routes(1000)]
    assert found == list(range(10, KEPT + 10))
    assert [each async for each in client.routes(0)] == []


async def test_followed_routes_come_as_they_are_made(loop: Loop, client: SocketClient) -> None:
    """First those that are there, then each new one, and its end when it is known."""
    loop.routes.put([record(1)])
    stream = client.routes(5, follow=True)
    assert await anext(stream) == record(1)
    loop.routes.put([record(2)])
    loop.routes.put([record(2, 200)])
    assert [await anext(stream), await anext(stream)] == [record(2), record(2, 200)]


def test_a_hub_without_proxies_hears_and_tells_nobody() -> None:
    """Tables are kept for the first that comes."""
    hub = LinkHub(
        post=[].append,
        knows=lambda _pid: False,
        draining=lambda _name: False,
        routes=lambda _told: None,
        greeted=lambda _pid: None,
    )
    hub.tell(1, AbortRequest("x"))
    hub.tell_all(TABLE)
    assert not hub.any
