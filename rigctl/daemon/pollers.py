"""Looks at the world in time and posts what it saw: cards, processes, engines, logs, host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from rigctl.adapters.gpus import GpuWorker
from rigctl.adapters.host import Host
from rigctl.config.schema import ConfigError
from rigctl.core.cards import CardSample
from rigctl.core.energy import Moment
from rigctl.core.engine_states import Draining, Loading, Ready, Spawning, Stage, Stopping, Waiting
from rigctl.core.facts import (
    CardsSampled,
    EndpointRead,
    Fact,
    HostSampled,
    Resumed,
    RigRead,
    TroubleSeen,
)
from rigctl.core.ids import GroupName, Mono
from rigctl.core.on_engine import in_flight
from rigctl.core.pace import pace
from rigctl.core.reading import Missing
from rigctl.core.state import GroupState, RigState
from rigctl.daemon.book import Book
from rigctl.daemon.engine_poll import EnginePoll
from rigctl.ports import Clock

log = logging.getLogger(__name__)

HURRY = 0.05
"""Seconds between looks while somebody waits for processes or cards to be gone."""
BUSY = 0.5
"""Between looks at an engine that starts or drains."""
LOOKED_AT = 1.0
"""While a client looks or work runs: also the least between two scrapes of /metrics (law 9)."""
LINGER = 5.0
"""After a single look: as long as somebody looks."""
HOST = 10.0
PORT = 5.0
"""Between looks at who listens where an engine of ours would."""
FILES = 2.0
"""Between looks at whether rig.toml or the clients' keys were written, with an endpoint."""
HURRY_FOR = 10.0
"""A stage of an end that takes longer is held up by something that hurry does not move."""


class Pollers:
    """One round a look; a source that is slow skips rounds and holds up no other (C76)."""

    def __init__(
        self,
        *,
        state: Callable[[], RigState],
        post: Callable[[Fact], None],
        clock: Clock,
        book: Book,
        gpus: GpuWorker,
        engines: EnginePoll,
        host: Host,
        tidy: Callable[[], None],
        watchers: Callable[[], int],
        moment: Callable[[], Moment],
        slept: Callable[[], float],
        on_look: Callable[[], None],
    ) -> None:
        self._state = state
        self._post = post
        self._clock = clock
        self._book = book
        self._gpus = gpus
        self._engines = engines
        self._host = host
        self._tidy = tidy
        self._watchers = watchers
        self._moment = moment
        self._slept = slept
        self._on_look = on_look
        self._due: dict[str, float] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._active_at = clock.now()
        self._looked_at = Mono(-LINGER)
        self._uuids: tuple[str, ...] | None = None
        self._stages: dict[GroupName, tuple[Stage | None, float]] = {}
        self._again: set[str] = set()
        """Sources that were asked for while a look at them was under way."""

    def look(self, group: GroupName) -> None:
        """Somebody waits: everything about this group is looked at in the next round, at once."""
        for source in ("cards", f"{group}.processes", f"{group}.engine", f"{group}.log"):
            self._due.pop(source, None)
            if source in self._running:
                self._again.add(source)  # what it sees was so before
        self._wake.set()

    def looked(self) -> None:
        """Somebody took one look, and may take another: keep to the live pace for a while."""
        now = self._clock.now()
        if now - self._looked_at >= LINGER:
            self.hurry()
        self._looked_at = now
        self._on_look()

    def hurry(self) -> None:
        """A client came to look."""
        self._due.clear()
        self._wake.set()

    async def run(self) -> None:
        """Rounds for ever."""
        while True:
            self._wake.clear()
            wait = self._round() - self._clock.now()
            try:
                async with asyncio.timeout(max(0.0, wait)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        """End the looks under way."""
        for task in tuple(self._running.values()):
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    # ---- one round ---------------------------------------------------------------------

    def _round(self) -> float:
        """Start the looks that are due; when the next one is."""
        state = self._state()
        now = self._clock.now()
        slept = self._slept()
        if slept:
            self._post(Resumed(slept))
        working, clients = _works(state), self._watchers()
        if now - self._looked_at < LINGER:
            clients += 1
        if working or clients:
            self._active_at = now
        at = pace(
            clients=clients,
            working=working,
            verifying=any(_stage(group) is Stage.RELEASE for group in state.groups),
            idle_seconds=now - self._active_at,
        )
        base = at.engines
        soonest = [
            self._every("cards", at.cards, now, partial(self._cards, at.cheap)),
            self._every("host", HOST, now, self._look_at_host),
        ]
        if state.endpoint.spec is not None:
            soonest.append(self._every("files", FILES, now, self._look_at_files))
        for group in state.groups:
            name = group.spec.name
            processes = _process_pace(group, now - self._since_stage(group, now))
            if processes is not None:
                look = partial(self._engines.processes, name)
                soonest.append(self._every(f"{name}.processes", processes, now, look))
            answers = _answer_pace(group, base)
            if group.process is None:  # also while a server that is not ours answers: it may leave
                look = partial(self._engines.port, name)
                soonest.append(self._every(f"{name}.port", max(base, PORT), now, look))
            if answers is None:
                continue
            look = partial(self._engines.sample, name)
            soonest.append(self._every(f"{name}.engine", answers, now, look))
            look = partial(self._engines.log, name)
            soonest.append(self._every(f"{name}.log", min(answers, 2.0), now, look))
        return min(soonest)

    def _since_stage(self, group: GroupState, now: float) -> float:
        """When its end came to the stage it is in."""
        stage = _stage(group)
        known = self._stages.get(group.spec.name)
        if known is None or known[0] is not stage:
            known = self._stages[group.spec.name] = (stage, now)
        return known[1]

    def _every(
        self,
        source: str,
        seconds: float,
        now: float,
        work: Callable[[], Coroutine[Any, Any, None]],
    ) -> float:
        """Start a look when its time has come and the one before has ended; when it is due next."""
        due = self._due.get(source, 0.0)
        if due > now + seconds:
            due = now + seconds  # the pace has quickened meanwhile
        if now >= due - 0.001:
            due = now + seconds
            if source not in self._running:
                task = asyncio.get_running_loop().create_task(work())
                self._running[source] = task
                task.add_done_callback(lambda done: self._ended(source, done))
        self._due[source] = due
        return due

    def _ended(self, source: str, task: asyncio.Task[None]) -> None:
        self._running.pop(source, None)
        if source in self._again:
            self._again.discard(source)
            self._due.pop(source, None)
            self._wake.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("looking at %s failed", source, exc_info=task.exception())

    async def _cards(self, cheap: bool) -> None:
        sweep = await self._gpus.sample(cheap)
        self._post(CardsSampled(sweep, self._moment()))
        uuids = tuple(card.uuid for card in sweep.cards if not card.lost)
        if sweep.answered and uuids != self._uuids:
            self._uuids = uuids
            self._find(sweep.cards)

    def _find(self, cards: Sequence[CardSample]) -> None:
        """What every group means on these cards, by the file as it is now."""
        for group in self._state().groups:
            pid = None if group.process is None else group.process.pid
            self._post(self._book.found(group.spec.name, cards, pid, group.sleep_on_idle))

    async def _look_at_host(self) -> None:
        self._post(HostSampled(self._host.sample()))
        self._tidy()
        self.read_files()

    async def _look_at_files(self) -> None:
        self.read_files()

    def read_files(self) -> None:
        """Take in what was saved since the last look: a command means the files as they are."""
        if self._book.changed():
            say = ""
            try:
                self._book.reload()
            except ConfigError as error:
                say = f"{error}; the daemon goes on with what it read before"
            state = self._state()
            self._post(TroubleSeen("config", say))
            self._post(TroubleSeen("clients", self._book.clients_fault))
            self._post(RigRead(self._book.rig(state.spec.simulated)))
            self._post(EndpointRead(self._book.endpoint()))
            sweep = state.sweep
            self._find(() if sweep is None else sweep.cards)


def _works(state: RigState) -> bool:
    """Whether anything is under way that a person would want to see a minute later."""
    for group in state.groups:
        if isinstance(group.engine.state, Waiting | Spawning | Loading | Draining | Stopping):
            return True
        count = in_flight(group)
        if not isinstance(count, Missing) and count > 0:
            return True
    return any(operation.running for operation in state.operations)


def _stage(group: GroupState) -> Stage | None:
    engine = group.engine.state
    return engine.stage if isinstance(engine, Stopping) else None


def _process_pace(group: GroupState, in_stage: float) -> float | None:
    """How often its processes are looked at; a missing scheduler must show within two seconds."""
    match group.engine.state:
        case Stopping(stage=Stage.KILL | Stage.CLEAR) if in_stage < HURRY_FOR:
            return HURRY
        case Stopping() | Loading() | Ready() | Draining():
            return LOOKED_AT
        case _:
            return None


def _answer_pace(group: GroupState, base: float) -> float | None:
    match group.engine.state:
        case Loading():
            return BUSY
        case Draining():
            return LOOKED_AT
        case Ready():
            return base
        case _:
            return base if group.foreign is not None and group.foreign.pid is not None else None
