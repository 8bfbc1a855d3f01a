"""Everything around the loop, built in order and taken apart in the reverse."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from rigctl import __version__
from rigctl.adapters import proc
from rigctl.adapters.clock import MonotonicClock, SleepWatch
from rigctl.adapters.gpus import GpuWorker
from rigctl.adapters.host import Host
from rigctl.adapters.http1.client import HttpClient
from rigctl.adapters.journal import Journal
from rigctl.adapters.process import ProcessLauncher
from rigctl.adapters.statefile import StateFile, Unreadable
from rigctl.config.paths import Home
from rigctl.control import wire
from rigctl.core import durable
from rigctl.core.cards import GpuSweep
from rigctl.core.endpoint_states import followed
from rigctl.core.engine_states import Draining
from rigctl.core.facts import (
    CardsSampled,
    DaemonBegan,
    EngineExited,
    EngineSpawned,
    Fact,
    Ticked,
    TroubleSeen,
)
from rigctl.core.ids import GroupName, ProcessIdentity
from rigctl.core.orders import Order
from rigctl.core.redact import redact
from rigctl.core.state import UNREADABLE, GroupState, RigState, fresh_group
from rigctl.core.view import view
from rigctl.daemon.adoption import adopt_group, after_reboot, rebuild, unlisted
from rigctl.daemon.backend import RigBackend
from rigctl.daemon.book import Book
from rigctl.daemon.endpoint_adoption import adopt_endpoint
from rigctl.daemon.endpoint_host import EndpointHost
from rigctl.daemon.engine_logs import EngineLogs
from rigctl.daemon.engine_poll import EnginePoll
from rigctl.daemon.history import History
from rigctl.daemon.link import LinkHub
from rigctl.daemon.loop import Loop
from rigctl.daemon.mailbox import Broadcast
from rigctl.daemon.moment import moment_now
from rigctl.daemon.pollers import Pollers
from rigctl.daemon.record import record
from rigctl.daemon.route_ring import RouteRing
from rigctl.daemon.run_orders import OrderRunner
from rigctl.daemon.server import ControlServer
from rigctl.daemon.simulated import worker_command
from rigctl.daemon.table_keeper import TableKeeper
from rigctl.daemon.watched_holders import Holders

log = logging.getLogger(__name__)

JOURNAL_SHOWN = 12
"""Newest journal entries in a snapshot."""
FIRST_SWEEP = 2.0
"""Seconds the first look at the cards may take before the daemon starts without it."""


class Shell:
    """Holds the parts; owns no state of its own."""

    def __init__(self, home: Home, cardfile: str | None, lifeline: str = "") -> None:
        self._home = home
        self._simulated = cardfile is not None
        self._clock = MonotonicClock()
        self._sleep_watch = SleepWatch()
        self._book = Book(home)
        self._endpoint_spec = self._book.endpoint()
        """As it was when the daemon began."""
        self._file = StateFile(home.state_file, durable.SCHEMA)
        self._journal = Journal(home.journal)
        self._logs = EngineLogs(home.logs)
        self._launcher = ProcessLauncher(self._exited)
        self._gpus = GpuWorker(worker_command(cardfile))
        self._http = HttpClient()
        self._history = History()
        self._routes = RouteRing()
        self._endpoint = EndpointHost(
            home=home,
            launcher=self._launcher,
            spec=lambda: self._loop.state.endpoint.spec,
            post=self._post,
            lifeline=lifeline,
        )
        self._links = LinkHub(
            post=self._post,
            knows=self._endpoint.knows,
            draining=self._drains,
            routes=lambda told: self._routes.put(told.records),
            greeted=self._greeted,
        )
        self._broadcast = Broadcast(self._watchers_changed)
        self._holders = Holders(self._post)
        self._ended_groups: dict[ProcessIdentity, GroupName] = {}
        self._followed: dict[GroupName, ProcessIdentity] = {}
        self._unlisted: dict[str, Any] = {}
        """Records of groups that are no longer in rig.toml: kept, so that they can come back."""
        self._seq = 0
        self._loop: Loop
        self._orders: OrderRunner
        self._pollers: Pollers
        self._server: ControlServer
        self._table: TableKeeper

    # ---- building ----------------------------------------------------------------------

    async def begin(self) -> None:
        """Look at the cards, take up what an earlier daemon left, listen."""
        sweep = await self._first_sweep()
        saved = self._file.load()
        try:
            state = self._first_state(sweep, saved)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            saved = self._file.refuse(f"is not understood ({problem!r})")
            state = self._first_state(sweep, saved)
        self._table = TableKeeper(
            path=self._home.table,
            clock=self._clock,
            hub=self._links,
            state=lambda: self._loop.state,
            watchers=lambda: self._broadcast.watchers,
            post=self._post,
        )
        self._loop = Loop(
            state, self._clock, self._save, self._carry_out, self._publish, self._table.taken
        )
        self._orders = OrderRunner(
            book=self._book,
            clock=self._clock,
            launcher=self._launcher,
            gpus=self._gpus,
            http=self._http,
            journal=self._journal,
            logs=self._logs,
            state=lambda: self._loop.state,
            post=self._post,
            note=self._broadcast.note,
            look=self._look,
            end=self.end,
            endpoint=self._endpoint,
            links=self._links,
        )
        engines = EnginePoll(
            state=lambda: self._loop.state,
            post=self._post,
            clock=self._clock,
            book=self._book,
            launcher=self._launcher,
            http=self._http,
            logs=self._logs,
        )
        self._pollers = Pollers(
            state=lambda: self._loop.state,
            post=self._post,
            clock=self._clock,
            book=self._book,
            gpus=self._gpus,
            engines=engines,
            host=Host(self._home.logs),
            tidy=self._tidy,
            watchers=lambda: self._broadcast.watchers,
            moment=moment_now,
            slept=self._sleep_watch.slept,
            on_look=self._table.looked,
        )
        backend = RigBackend(
            loop=self._loop,
            broadcast=self._broadcast,
            journal=self._journal,
            history=self._history,
            logs=self._logs,
            clock=self._clock,
            holders=self._holders,
            looked=self._pollers.looked,
            read_files=self._pollers.read_files,
            routes=self._routes,
            links=self._links,
        )
        self._server = ControlServer(backend, self._home.socket, redact=redact)
        for group in state.groups:
            self._take_up(group)
        for process in followed(state.endpoint.keeper):
            self._endpoint.adopt(process)
        self._note_unreadable(saved)
        self._note_unlisted()
        self._loop.take(CardsSampled(sweep, moment_now()))
        self._loop.take(DaemonBegan(first=saved == {}, fresh=self._fresh(saved)))
        await self._server.start()

    async def _first_sweep(self) -> GpuSweep:
        """Cards decide which groups can start, so they are waited for, but not for ever."""
        if not any(group.cards for group in self._book.config.groups):
            return await self._gpus.sample()
        deadline = self._clock.now() + FIRST_SWEEP
        sweep = await self._gpus.sample()
        while not sweep.answered and self._clock.now() < deadline:
            await asyncio.sleep(0.05)
            sweep = await self._gpus.sample()
        return sweep

    def _first_state(self, sweep: GpuSweep, saved: dict[str, Any] | Unreadable) -> RigState:
        now, wall = self._clock.now(), self._clock.wall()
        groups = tuple(
            fresh_group(self._book.spec(each, sweep.cards), now)
            for each in self._book.config.groups
        )
        spec = self._book.rig(self._simulated)
        state = RigState(spec, groups, uuid.uuid4().hex[:12], sweep=None, wall=wall)
        if isinstance(saved, Unreadable):
            found = tuple(rebuild(each, self._launcher, self._logs, state, now) for each in groups)
            endpoint = adopt_endpoint(self._endpoint_spec, None, spec.tag, self._launcher, now)
            return replace(state, groups=found, endpoint=endpoint, confirmed=False)
        state = durable.recall_rig(state, saved, now, wall)
        kept = saved.get("groups", {})
        for each in groups:  # all of it is understood before any of it is taken up
            left = kept.get(each.spec.name, {})
            durable.recall_group(each, left, now, wall)
            durable.recall_then(left)
            for fields in (left.get("process"), *left.get("members", ())):
                durable.identity(fields)
        self._unlisted = unlisted(kept, {each.spec.name for each in groups})
        adopted = tuple(
            adopt_group(
                each, kept.get(each.spec.name, {}), self._launcher, self._logs, state, now, wall
            )
            for each in groups
        )
        if saved.get("boot", proc.boot_id()) != proc.boot_id():
            adopted = tuple(after_reboot(each, now) for each in adopted)
        left = saved.get("endpoint")
        endpoint = adopt_endpoint(self._endpoint_spec, left, spec.tag, self._launcher, now)
        return replace(state, groups=adopted, endpoint=endpoint)

    def _take_up(self, group: GroupState) -> None:
        process = group.process
        if process is not None:
            self._ended_groups[process] = group.spec.name
            self._followed[group.spec.name] = process
            self._book.adopted(group.spec.name, proc.cmdline(process.pid))
        if group.lease is not None:
            for holder in (group.lease.holder_process, group.lease.worker):
                if holder is not None:
                    self._holders.watch(group.spec.name, holder)

    def _fresh(self, saved: dict[str, Any] | Unreadable) -> tuple[GroupName, ...]:
        """Groups that rig.toml has and no earlier daemon knew."""
        if isinstance(saved, Unreadable):
            return ()
        known = saved.get("groups", {})
        names = (group.name for group in self._book.config.groups)
        return tuple(name for name in names if name not in known)

    def _note_unlisted(self) -> None:
        for name, left in self._unlisted.items():
            say = (
                f"{name} is no longer in rig.toml, but its engine runs (pid "
                f"{left['process']['pid']}) and is left alone: write the group back, then "
                "`rigctl daemon stop` (the next daemon takes it up), or end it yourself"
            )
            self._post(TroubleSeen(f"unlisted-{name}", say))

    def _note_unreadable(self, saved: dict[str, Any] | Unreadable) -> None:
        if isinstance(saved, Unreadable):
            kept = f"; the bad file is kept as {saved.kept}" if saved.kept else ""
            say = f"{saved.reason}{kept}; engines found by their start token are only watched"
            self._post(TroubleSeen(UNREADABLE, say, "error"))

    # ---- running -----------------------------------------------------------------------

    async def run(self) -> None:
        """Until `end` is called."""
        polling = asyncio.get_running_loop().create_task(self._pollers.run())
        polling.add_done_callback(self._blind)
        try:
            await self._loop.run()
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)

    def _blind(self, polling: asyncio.Task[None]) -> None:
        """Nobody looks any more: better no daemon than one that shows what was."""
        if not polling.cancelled():
            log.error("the pollers have ended", exc_info=polling.exception())
            self.end()

    def end(self) -> None:
        """Let `run` return; engines go on."""
        self._loop.ended.set()
        self._post(Ticked())

    async def close(self) -> None:
        """Take everything apart; what lasts is on disk already."""
        now = self._clock.now()
        self._save(durable.remember(self._loop.state, now))
        self._links.close()
        await self._server.close()
        self._table.close()
        await self._pollers.close()
        await self._orders.close()
        await self._http.close()
        await self._gpus.close()
        self._holders.close()
        self._logs.close()
        self._endpoint.close()
        self._launcher.close()

    def _post(self, fact: Fact) -> None:
        if isinstance(fact, EngineSpawned):
            self._ended_groups[fact.process] = fact.group
            before = self._followed.get(fact.group)
            if before is not None:
                self._launcher.forget(before)
            self._followed[fact.group] = fact.process
        self._loop.post(fact)

    def _carry_out(self, order: Order) -> None:
        self._orders.carry_out(order)

    def _exited(self, process: ProcessIdentity, code: int | None) -> None:
        if self._endpoint.exited(process, code):
            return
        name = self._ended_groups.pop(process, None)
        if name is not None:
            self._post(EngineExited(name, process, code, self._logs.last_words(name)))

    def _drains(self, name: GroupName) -> bool:
        """Whether somebody waits for this group's gate."""
        group = self._loop.state.group(name)
        return group is not None and isinstance(group.engine.state, Draining)

    def _greeted(self, pid: int) -> None:
        self._endpoint.linked(pid, partial(self._links.tell, pid))

    def _look(self, group: GroupName) -> None:
        self._pollers.look(group)

    def _watchers_changed(self, count: int) -> None:
        if count:
            self._pollers.hurry()
        self._table.looked()

    def _tidy(self) -> None:
        """Logs under their cap; what went wrong is a standing trouble."""
        say = self._logs.tidy()
        standing = {each.id: each.say for each in self._loop.state.troubles}
        if standing.get("logs", "") != say:
            self._post(TroubleSeen("logs", say))
        self._table.retry()
        if "state-file" in standing:  # nothing lasting may change for days: try the disk again
            self._save(durable.remember(self._loop.state, self._clock.now()))

    def _publish(self, state: RigState) -> None:
        self._seq += 1
        shown = self._journal.tail(JOURNAL_SHOWN)
        snapshot = view(state, self._clock.now(), shown, __version__, self._seq)
        self._broadcast.publish(wire.encode_snapshot(snapshot))
        record(self._history, snapshot)

    def _save(self, kept: dict[str, Any]) -> None:
        """Write what lasts. A disk that does not take it is a standing trouble, never the end."""
        state = self._loop.state
        whole = {**kept, "boot": proc.boot_id()}
        whole["groups"] = {**self._unlisted, **kept["groups"]}
        for group in state.groups:
            process = group.process
            if process is not None:
                members = [asdict(each) for each in self._launcher.recorded(process)]
                whole["groups"][group.spec.name]["members"] = members
        say = ""
        try:
            self._file.save(whole)
        except OSError as error:
            say = f"state not written: {error.strerror or error}; it is kept in memory"
        standing = {each.id: each.say for each in state.troubles}
        if standing.get("state-file", "") != say:
            self._post(TroubleSeen("state-file", say, "error"))
