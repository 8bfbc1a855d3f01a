"""The daemon's side as the control server sees it, for the socket's tests."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rig_views import rig

from rigctl.control import wire
from rigctl.core.commands import Accepted, Answer, Command, FreeGroup, StopDaemon
from rigctl.core.facts import EndpointSaid, Fact
from rigctl.core.ids import GroupName, OperationId
from rigctl.core.link_words import ToDaemon
from rigctl.core.snapshot import JournalEntry
from rigctl.daemon.link import LinkConnection, LinkHub
from rigctl.daemon.mailbox import Broadcast
from rigctl.daemon.route_ring import RouteRing

FREE = FreeGroup(GroupName("long"), "training")


async def until(true: Callable[[], bool]) -> None:
    """Wait until the condition holds; TimeoutError when it never does."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - the server tells no test when it is done
            await asyncio.sleep(0.01)


class Loop:
    """The daemon's side as the server sees it; what it was asked is kept."""

    def __init__(self, logs: Path) -> None:
        self.version = "0.1.0"
        self.epoch = "5f2a"
        self.watchers: list[int] = []
        self.broadcast = Broadcast(self.watchers.append)
        self.asked: list[tuple[Command, int]] = []
        self.entries: list[JournalEntry] = []
        self.logs = logs
        self.routes = RouteRing()
        self.facts: list[Fact] = []
        self.proxies = {os.getpid()}
        self.draining: set[str] = set()
        self.greeted: list[int] = []
        self.links = LinkHub(
            post=self.facts.append,
            knows=self.proxies.__contains__,
            draining=self.draining.__contains__,
            routes=lambda told: self.routes.put(told.records),
            greeted=self.greeted.append,
        )

    def looked(self) -> None:
        """A single look needs no hurry here."""

    async def command(self, command: Command, uid: int) -> Answer:
        self.asked.append((command, uid))
        if isinstance(command, StopDaemon):
            raise RuntimeError("a fault of ours")
        return Accepted(OperationId(len(self.asked)), "drains first")

    def journal(self, after: int, limit: int) -> Sequence[JournalEntry]:
        return [entry for entry in self.entries if entry.seq > after][-limit:]

    def history(self, seconds: float) -> Mapping[str, Any]:
        return {"step": 2.0, "end": 1.0, "series": {"rig.watts": [412.0, None]}}

    def log_path(self, group: str, previous: int) -> Path | None:
        number = f".{previous}" if previous else ""
        return self.logs / f"{group}{number}.log" if group == "long" else None

    def open_link(self, line: bytes, pid: int) -> LinkConnection:
        return self.links.open(line, pid)

    def said(self) -> list[ToDaemon]:
        """What proxies said and was passed on."""
        return [each.message for each in self.facts if isinstance(each, EndpointSaid)]

    def publish(self, seq: int) -> None:
        self.broadcast.publish(wire.encode_snapshot(dataclasses.replace(rig(), seq=seq)))

    def note(self, seq: int) -> None:
        entry = JournalEntry(seq, 1.0, "long", "stall", f"event {seq}")
        self.entries.append(entry)
        self.broadcast.note(entry)
