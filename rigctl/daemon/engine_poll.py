"""Asks one engine how it is: its processes, its endpoints, its log, its port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rigctl.adapters import proc
from rigctl.adapters.http1.client import HttpClient
from rigctl.adapters.http1.errors import HttpError
from rigctl.adapters.listeners import holder, holds, listener, listening, taken
from rigctl.adapters.process import ProcessLauncher
from rigctl.config.flags import launches_sglang, mask
from rigctl.core.engine_sample import EngineSample
from rigctl.core.engine_states import Draining, Loading, Stopping
from rigctl.core.facts import (
    EngineCounted,
    EngineReady,
    EngineSampled,
    EngineSilent,
    EngineWatched,
    Fact,
    ForeignEngineSeen,
    LogRead,
)
from rigctl.core.ids import GroupName, ProcessIdentity
from rigctl.core.on_engine import count_answers
from rigctl.core.reading import NOT_YET, Missing, Reading
from rigctl.core.state import RigState
from rigctl.daemon.book import Book
from rigctl.daemon.engine_logs import EngineLogs
from rigctl.parse.loads import parse as parse_loads
from rigctl.parse.sample import merge
from rigctl.ports import Clock

METRICS_LIMIT = 4 * 1024 * 1024
PATIENCE = 3.0
"""Seconds an endpoint may take before the poll counts as unanswered (C76)."""
LEAST_SPAN = 0.4
"""Seconds of CPU time less than which tell nothing: the kernel counts in hundredths."""
SCRAPES = 0.9
"""Least seconds between two scrapes of /metrics: each costs the engine's front 14 ms (law 9)."""
LOADS = "/v1/loads?include=core,spec,queues"
FULL_SCAN = 60.0
"""Seconds between two looks at every process of the machine for new members."""
IDLE_LOADS = 10.0
"""Seconds for which `/v1/loads` of an engine without a request still holds."""


@dataclass(frozen=True, slots=True)
class IdleLoads:
    """What an engine told of its load while it had no request: true until it gets one."""

    process: ProcessIdentity | None
    at: float
    text: bytes
    counters: tuple[Reading, ...]

    def holds(self, process: ProcessIdentity | None, now: float) -> bool:
        return process == self.process and now - self.at < IDLE_LOADS


def _idle(sample: EngineSample) -> bool:
    return sample.active == sample.running == sample.queued == sample.waiting_tokens == 0.0


def _counters(sample: EngineSample) -> tuple[Reading, ...]:
    """They tell of a request that came and went between two looks."""
    return sample.decode_tokens, sample.prefill_tokens, sample.cached_tokens


class EnginePoll:
    """One look a call; keeps only what the next difference needs."""

    def __init__(
        self,
        *,
        state: Callable[[], RigState],
        post: Callable[[Fact], None],
        clock: Clock,
        book: Book,
        launcher: ProcessLauncher,
        http: HttpClient,
        logs: EngineLogs,
    ) -> None:
        self._state = state
        self._post = post
        self._clock = clock
        self._book = book
        self._launcher = launcher
        self._http = http
        self._logs = logs
        self._cpu: dict[GroupName, tuple[ProcessIdentity, float, dict[int, float]]] = {}
        self._scanned: dict[GroupName, tuple[ProcessIdentity, float]] = {}
        self._titles: dict[GroupName, dict[int, str]] = {}
        """Of the members seen last; a number that is handed out anew has a name of its own."""
        self._listening: dict[GroupName, frozenset[str]] = {}
        self._scraped: dict[GroupName, float] = {}
        self._idle_loads: dict[GroupName, IdleLoads] = {}

    async def processes(self, name: GroupName) -> None:
        """The living members of the engine's session and what they use."""
        group = self._state().group(name)
        process = None if group is None else group.process
        if group is None or process is None:
            return
        now = self._clock.now()
        whole = isinstance(group.engine.state, Stopping | Loading)
        scanned = self._scanned.get(name)
        if whole or scanned is None or scanned[0] != process or now - scanned[1] >= FULL_SCAN:
            self._launcher.members(process)
            self._scanned[name] = (process, now)
        used = proc.usage_of(self._launcher.recorded(process))
        pids = tuple(sorted(used.cpu_seconds, key=lambda pid: (pid != process.pid, pid)))
        if isinstance(group.engine.state, Stopping):
            self._post(EngineWatched(name, process, pids, ()))
            return
        titles = self._titled(name, pids)
        cores, busiest = self._load(name, process, used.cpu_seconds, now, pids, titles)
        self._post(
            EngineWatched(
                name,
                process,
                pids,
                titles,
                cores,
                busiest,
                float(used.resident_bytes),
                sum(used.cpu_seconds.values()),
            )
        )

    def _titled(self, name: GroupName, pids: tuple[int, ...]) -> tuple[str, ...]:
        """A worker names itself a moment after it was forked, so an odd title is asked again."""
        known = self._titles.get(name, {})
        titles = {
            pid: known[pid] if "::" in known.get(pid, "") else proc.title(pid) for pid in pids
        }
        self._titles[name] = titles
        return tuple(titles.values())

    def _load(
        self,
        name: GroupName,
        process: ProcessIdentity,
        used: dict[int, float],
        now: float,
        pids: tuple[int, ...],
        titles: tuple[str, ...],
    ) -> tuple[Reading, Reading]:
        """Cores used by all members, and by the busiest scheduler, since the last look."""
        before = self._cpu.get(name)
        self._cpu[name] = (process, now, used)
        if before is None or before[0] != process or now - before[1] < LEAST_SPAN:
            return NOT_YET, NOT_YET
        seconds = now - before[1]
        gained = {
            pid: (value - before[2][pid]) / seconds
            for pid, value in used.items()
            if pid in before[2]
        }
        schedulers = [
            gained[pid]
            for pid, title in zip(pids, titles, strict=True)
            if "scheduler" in title and pid in gained
        ]
        return sum(gained.values()), max(schedulers, default=NOT_YET)

    async def sample(self, name: GroupName) -> None:
        """Counters and gauges; while it loads only whether it is ready (law 9: never /health)."""
        group = self._state().group(name)
        if group is None:
            return
        book = self._book
        ours = group.process is not None
        host, port = book.address(name) if ours else book.next_address(name)
        if isinstance(group.engine.state, Loading):
            await self._ready(name, group.engine.state.process, host, port)
            return
        headers = self._book.api_authorization(name)
        now = self._clock.now()
        if now - self._scraped.get(name, 0.0) < SCRAPES:
            if isinstance(group.engine.state, Draining):
                await self._count(name, host, port, headers)
            return
        self._scraped[name] = now
        metrics = await self._text(host, port, "/metrics", ())
        kept = self._idle_loads.pop(name, None)
        if metrics is not None and kept is not None and kept.holds(group.process, now):
            sample = self._merged(name, metrics, kept.text)
            if _idle(sample) and _counters(sample) == kept.counters:
                self._idle_loads[name] = kept
                self._post(EngineSampled(sample))
                return
        loads = await self._text(host, port, LOADS, headers)
        if metrics is None and loads is None:
            self._post(EngineSilent(name, f"{host}:{port} does not answer"))
            return
        sample = self._merged(name, metrics, loads)
        if loads is not None and _idle(sample):
            self._idle_loads[name] = IdleLoads(group.process, now, loads, _counters(sample))
        self._post(EngineSampled(sample))

    def _merged(self, name: GroupName, metrics: bytes | None, loads: bytes | None) -> EngineSample:
        now, wall = self._clock.now(), self._clock.wall()
        return merge(name, now, wall, metrics, loads, self._logs.known(name))

    async def _count(
        self, name: GroupName, host: str, port: int, headers: tuple[tuple[bytes, bytes], ...]
    ) -> None:
        """What still runs, without a scrape: somebody waits for the drain."""
        text = await self._text(host, port, LOADS, headers)
        loads = None if text is None else parse_loads(text, self._clock.wall())
        if loads is None:
            return
        count = count_answers(loads.running, loads.queued, loads.waiting_tokens)
        if not isinstance(count, Missing):
            self._post(EngineCounted(name, count))

    async def _ready(self, name: GroupName, process: ProcessIdentity, host: str, port: int) -> None:
        try:
            answer = await self._http.get(host, port, "/ready", timeout=PATIENCE)
        except HttpError:
            return
        if answer.status != 200:
            return
        # On another server's port an engine hears that one's answer, and even says it is ready.
        owner = listener(port)
        if owner is None or owner in self._launcher.members(process):
            self._post(EngineReady(name, process))

    async def _text(
        self, host: str, port: int, path: str, headers: tuple[tuple[bytes, bytes], ...]
    ) -> bytes | None:
        try:
            answer = await self._http.get(
                host, port, path, headers, timeout=PATIENCE, limit=METRICS_LIMIT
            )
        except HttpError:
            return None
        return answer.body if answer.status == 200 else None

    async def log(self, name: GroupName) -> None:
        """New lines of the engine's log."""
        facts, grew, old = self._logs.read(name)
        if facts or grew:
            self._post(LogRead(name, facts, grew, old))

    async def port(self, name: GroupName) -> None:
        """Whether a server that rigctl did not start answers where this group's would."""
        group = self._state().group(name)
        if group is None or group.process is not None:
            return
        host, port = self._book.binding(name)
        known = None if group.foreign is None else group.foreign.pid
        # The kernel's table is long on a busy host, so it is read only where somebody listens.
        inodes = listening(port) if known is not None or taken(host, port) else frozenset()
        if inodes == self._listening.get(name) and (known is None or holds(known, inodes)):
            return  # to find a socket's owner every process is looked into: only for a new one
        self._listening[name] = inodes
        pid = holder(inodes)
        if pid == known:
            return
        argv = () if pid is None else proc.cmdline(pid)
        if pid is not None and not launches_sglang(argv):
            return  # some other program: the start refuses in words
        self._post(ForeignEngineSeen(name, pid, mask(argv), "--sleep-on-idle" in argv))
