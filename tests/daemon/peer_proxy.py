"""A proxy reduced to its link: a real process that listens, says hello and keeps its gates.

Over HTTP it answers its pid, `/hold/GROUP` counts an answer in flight there and `/release/GROUP`
ends it. It runs no answer of its own, so a test decides what is in flight.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import uuid
from collections import defaultdict
from pathlib import Path

from rigctl.config.paths import find_home
from rigctl.control import hand_socket, link_wire
from rigctl.control.address import connect
from rigctl.core.flow import ClientRow, FlowRows, RouteRecord
from rigctl.core.ids import GroupName
from rigctl.core.link_words import (
    Aborted,
    AbortRequest,
    Evidence,
    Flow,
    GateState,
    GiveSocket,
    HandOver,
    Hello,
    Leaving,
    Progress,
    Routes,
    Table,
    ToDaemon,
)
from rigctl.sim.lifeline import gone

PROTOCOL = int(os.environ.get("PEER_PROTOCOL", link_wire.LINK_PROTOCOL))


class Peer:
    def __init__(self, home: str | None, sockets: list[socket.socket]) -> None:
        self.home = find_home(home)
        self.sockets = sockets
        self.epoch = uuid.uuid4().hex[:8]
        self.table: Table | None = None
        self.in_flight: dict[str, int] = defaultdict(int)
        self.told: dict[str, GateState] = {}
        self.writer: asyncio.StreamWriter | None = None
        self.servers: list[asyncio.Server] = []
        self.over = asyncio.Event()
        self.heard: list[str] = []

    # ---- clients -----------------------------------------------------------------------

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        body = self.answer(path)
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    def answer(self, path: str) -> bytes:
        word, _, group = path.strip("/").partition("/")
        match word:
            case "hold":
                self.in_flight[group] += 1
            case "release":
                self.in_flight[group] -= 1
            case "table":
                return b"{}" if self.table is None else link_wire.encode(self.table)
            case "heard":
                return json.dumps(self.heard).encode()
            case "evidence":
                self.tell(Evidence(GroupName(group), "reset", "it broke an answer off"))
            case "flow":
                row = ClientRow("anna", requests=7)
                self.tell(Flow(FlowRows(0.0, clients=(row,), off=("no rid on /v1/messages",))))
            case "route":
                record = RouteRecord(
                    *(1, 2.0, "r1", "s1", "-", "chat", group, "free", "it had a slot"),
                    *("", 5, "bytes", 0.0, 200),
                )
                self.tell(Routes((record,)))
            case "noise":
                assert self.writer is not None
                self.writer.write(b'not json\n{"kind":"news","body":{}}\n{"kind":"gate"}\n')
        self.gates()
        return str(os.getpid()).encode()

    # ---- the link ----------------------------------------------------------------------

    def tell(self, message: ToDaemon) -> None:
        if self.writer is not None:
            self.writer.write(link_wire.encode(message))

    def gates(self) -> None:
        for group in () if self.table is None else self.table.groups:
            count = self.in_flight[group.name]
            gate = GateState(group.name, group.drain, group.gate, count)
            if self.told.get(group.name) != gate:
                self.told[group.name] = gate
                self.tell(gate)

    async def link(self) -> None:
        while True:
            try:
                await self.talk()
            except (OSError, link_wire.WireError):
                pass
            await asyncio.sleep(0.1)

    async def talk(self) -> None:
        made = connect(self.home.socket, 1.0)
        made.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=made, limit=link_wire.LINK_LIMIT)
        host, port = self.sockets[0].getsockname()[:2]
        table = ("", 0) if self.table is None else (self.table.epoch, self.table.seq)
        hello = Hello(PROTOCOL, "0.0", os.getpid(), self.epoch, f"{host}:{port}", table)
        writer.write(link_wire.encode(hello))
        self.writer, self.told = writer, {}
        try:
            while line := await reader.readline():
                self.hear(link_wire.decode_to_proxy(line))
        finally:
            self.writer = None
            writer.close()

    def hear(self, message: object) -> None:
        self.heard.append(type(message).__name__)
        match message:
            case Table():
                self.table = message
                self.gates()
            case Progress():
                pass
            case AbortRequest(request):
                found = request in self.in_flight
                self.tell(Aborted(request, found, "ended by a person" if found else ""))
            case HandOver():
                self.leave()
            case GiveSocket(path):
                hand_socket.give(Path(path), self.sockets)

    def leave(self) -> None:
        for server in self.servers:
            server.close()
        self.tell(Leaving(sum(self.in_flight.values())))
        self.finish()

    def finish(self) -> None:
        if any(self.in_flight.values()):
            asyncio.get_running_loop().call_later(0.05, self.finish)
        else:
            self.over.set()

    async def run(self, lifeline: str) -> None:
        for each in self.sockets:
            each.setblocking(False)
            self.servers.append(await asyncio.start_server(self.client, sock=each.dup()))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.leave)
        tasks = [loop.create_task(self.link()), loop.create_task(self.over.wait())]
        if lifeline:
            tasks.append(loop.create_task(gone(lifeline)))
        await asyncio.wait(tasks[1:], return_when=asyncio.FIRST_COMPLETED)
        if self.writer is not None:
            await self.writer.drain()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home")
    parser.add_argument("--listen-fd", type=int, action="append")
    parser.add_argument("--lifeline", default="")
    args = parser.parse_args()
    sockets = [socket.socket(fileno=each) for each in args.listen_fd]

    async def run() -> None:
        await Peer(args.home, sockets).run(args.lifeline)

    asyncio.run(run())


if __name__ == "__main__":
    main()
