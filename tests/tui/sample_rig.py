"""A rig of snapshots that implements RigClient: acts really change what it shows next."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import samples
from sample_traffic import ROUTES

from rigctl.core import commands
from rigctl.core.commands import Accepted, Answer, Command, Refused
from rigctl.core.flow import RouteRecord
from rigctl.core.ids import OperationId
from rigctl.core.snapshot import EndpointView, JournalEntry, OperationView, SleepOnIdle, Snapshot


class SampleRig:
    """Shared by all clients of one test, as a daemon would be."""

    def __init__(self, first: Snapshot) -> None:
        self.snapshot = first
        self.sent: list[Command] = []
        self.reachable = True
        self.clients = 0
        self.answer_slowly = False
        self._changed = asyncio.Event()
        self._operation = 100
        self.log_lines = [f"[2026-11-27 20:00:{n:02d}] Decode batch {n}" for n in range(50)]
        self.log_lines[7] = "[2026-11-27 20:00:07] WARNING: pool is nearly full"

    def show(self, snapshot: Snapshot) -> None:
        """Every client gets this one next."""
        self.snapshot = replace(snapshot, seq=self.snapshot.seq + 1)
        self._wake()

    def lose(self) -> None:
        """The daemon goes: connections break."""
        self.reachable = False
        self._wake()

    def come_back(self) -> None:
        """A new daemon, a new epoch."""
        self.reachable = True
        self.snapshot = replace(self.snapshot, epoch=self.snapshot.epoch + "+")
        self._wake()

    def client(self) -> SampleClient:
        """What the panel is given."""
        self.clients += 1
        return SampleClient(self)

    async def wait(self) -> None:
        """Until something changes."""
        await self._changed.wait()

    def carry_out(self, command: Command) -> Answer:
        """Accept it; the operation runs until `finish` says how it ended."""
        self.sent.append(command)
        if self.snapshot.read_only:
            return Refused("your uid 1001 may look, not act", "not-allowed")
        self._operation += 1
        kind = type(command).__name__
        target = getattr(command, "group", None) or ""
        view = OperationView(
            self._operation, _KINDS.get(kind, kind), target, "me", 0.0, "running", "under way"
        )
        self.snapshot = replace(
            self.snapshot,
            operations=(*self.snapshot.operations, view),
            groups=tuple(
                _changed(group, command) if group.name == target else group
                for group in self.snapshot.groups
            ),
            endpoint=_without(self.snapshot.endpoint, command),
        )
        if not self.answer_slowly:
            self.show(self.snapshot)
        return Accepted(OperationId(self._operation), "it will be done")

    def finish(self, state: str, say: str) -> None:
        """The newest operation ends."""
        last = self.snapshot.operations[-1]
        ended = replace(last, state=state, say=say, seconds=7.9)
        self.show(replace(self.snapshot, operations=(*self.snapshot.operations[:-1], ended)))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


_KINDS = {
    "StartGroup": "start",
    "StopGroup": "stop",
    "RestartGroup": "restart",
    "FreeGroup": "free",
    "ReclaimGroup": "reclaim",
    "SetSleepOnIdle": "sleep",
    "SetPowerLimit": "power-limit",
    "EndLeftovers": "leftovers",
    "AbortAnswer": "abort",
    "RestartEndpoint": "restart-endpoint",
}


def _without(endpoint: EndpointView, command: Command) -> EndpointView:
    """An aborted request ends: its session rests."""
    if not isinstance(command, commands.AbortAnswer):
        return endpoint
    sessions = tuple(
        replace(row, request="", state="resting", seconds=0.0, behind="")
        if row.request == command.request
        else row
        for row in endpoint.rows.sessions
    )
    return replace(endpoint, rows=replace(endpoint.rows, sessions=sessions))


def _changed(group: Any, command: Command) -> Any:
    match command:
        case commands.FreeGroup() | commands.StopGroup() | commands.RestartGroup():
            return replace(group, state="draining", seconds=0.0, countdown=180.0)
        case commands.StartGroup() | commands.ReclaimGroup():
            return replace(group, state="starting", seconds=0.0, lease=None)
        case commands.SetSleepOnIdle(_, on):
            return replace(group, sleep=SleepOnIdle(on, group.sleep.running, "on (after restart)"))
        case _:
            return group


class SampleClient:
    """The RigClient protocol over a SampleRig."""

    def __init__(self, rig: SampleRig) -> None:
        self._rig = rig

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """The present one, then each that differs; the end of the daemon is an OSError."""
        last = None
        while True:
            self._check()
            if self._rig.snapshot is not last:
                last = self._rig.snapshot
                yield last
                continue
            await self._rig.wait()

    async def journal(self, after: int = 0) -> AsyncIterator[JournalEntry]:
        """What came after that number."""
        self._check()
        for entry in self._rig.snapshot.journal:
            if entry.seq > after:
                yield entry

    async def log(self, group: str, lines: int, follow: bool, previous: int) -> AsyncIterator[str]:
        """The sample lines; a run before has its own first line."""
        self._check()
        if previous:
            yield f"run {previous} before of {group}"
            return
        sent = 0
        while True:
            for line in self._rig.log_lines[sent:]:
                sent += 1
                yield line
            if not follow:
                return
            await self._rig.wait()

    async def history(self, seconds: float) -> Mapping[str, Any]:
        """Waves."""
        self._check()
        step = max(1.0, seconds / 450)
        count = int(seconds / step)
        end = self._rig.snapshot.wall
        grid = [end - (count - 1 - at) * step for at in range(count)]

        def wave(low: float, high: float, period: float) -> list[float | None]:
            return [
                None
                if 0.40 < at / count < 0.43
                else low + (high - low) * (0.5 + 0.5 * math.sin(when / period))
                for at, when in enumerate(grid)
            ]

        series: dict[str, list[float | None]] = {"rig.watts": wave(400, 2100, 97)}
        for place, card in enumerate(self._rig.snapshot.cards):
            series[f"card.{card.uuid}.watts"] = wave(60, 300, 9 + place)
        for name, high in ((samples.STANDARD, 130), (samples.LONG, 90)):
            series[f"group.{name}.decode"] = wave(0, high, 41)
            series[f"group.{name}.prefill"] = wave(0, high * 7, 67)
            series[f"group.{name}.pool_used"] = wave(100_000, 6000 * high, 300)
        return {"step": step, "end": end, "series": series}

    async def routes(self, limit: int = 50, *, follow: bool = False) -> AsyncIterator[RouteRecord]:
        """Two turns of the first session, and one of another's."""
        self._check()
        for record in ROUTES[-limit:]:
            yield record

    async def send(self, command: Command) -> Answer:
        """Hand it to the rig."""
        self._check()
        return self._rig.carry_out(command)

    async def close(self) -> None:
        """Nothing is held."""

    def _check(self) -> None:
        if not self._rig.reachable:
            raise ConnectionRefusedError("no daemon answers on the socket")
