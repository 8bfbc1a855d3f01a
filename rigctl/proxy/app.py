"""The proxy's parts, put together; its ticks; its end."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path

from rigctl import __version__
from rigctl.adapters.clock import MonotonicClock, SleepWatch
from rigctl.adapters.http1 import HttpClient, HttpServer, Limits
from rigctl.config.paths import Home
from rigctl.control import hand_socket
from rigctl.core.evidence import Slept
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import (
    LINK_PROTOCOL,
    Aborted,
    AbortRequest,
    Evidence,
    Flow,
    GiveSocket,
    HandOver,
    Hello,
    Leaving,
    Progress,
    Routes,
    Table,
    ToProxy,
)
from rigctl.proxy.accounts import Accounts
from rigctl.proxy.admission import Admission
from rigctl.proxy.answers import refusal_words
from rigctl.proxy.board import Board, Record
from rigctl.proxy.booking import Booking
from rigctl.proxy.clients import only_here
from rigctl.proxy.front import Front
from rigctl.proxy.homes_file import HomesFile
from rigctl.proxy.judging import Judge
from rigctl.proxy.keep_alive import comment
from rigctl.proxy.link import Link
from rigctl.proxy.live import Live
from rigctl.proxy.log_keeper import LogKeeper
from rigctl.proxy.metrics import Gauges, GaugesOfCluster, Metrics
from rigctl.proxy.route_log import RouteLog
from rigctl.proxy.rows import Rows
from rigctl.proxy.serving import Serving
from rigctl.proxy.session_ends import SessionEnds
from rigctl.proxy.table_file import read_table
from rigctl.proxy.watcher import Watcher

log = logging.getLogger(__name__)

TICK = 0.5
FLOW = 1.0
KEPT_CONNECTIONS = 32
LEAVE_PATIENCE = 1.0
"""Seconds in which a client that was just taken in may still ask."""


class Proxy:
    """One endpoint."""

    def __init__(self, home: Home, sockets: tuple[socket.socket, ...]) -> None:
        self._home = home
        self._sockets = sockets
        self._clock = MonotonicClock()
        self._sleep_watch = SleepWatch()
        self.epoch = os.urandom(4).hex()
        self._http = HttpClient(keep=KEPT_CONNECTIONS)
        self._live = Live(self.epoch)
        self._accounts = Accounts()
        self._routes = RouteLog()
        self._homes_file = HomesFile(home.homes)
        now = self._clock.now
        self._board = Board(self._http, now)
        homes = self._homes_file.load(now())
        self._metrics = Metrics(self._gauges, lambda: self._admission.afterwards.settle())
        self._admission = Admission(
            self._board, homes, self._live, self._accounts, now, self._gate_changed
        )
        self._booking = Booking(
            self._metrics,
            self._accounts,
            self._admission,
            self._board,
            self._routes,
            self._clock.wall,
        )
        judge = Judge(
            self._board,
            self._admission,
            self._booking,
            now,
            self._evidence,
            lambda: self._link.up,
        )
        self._serving = Serving(
            self._board,
            self._admission,
            self._booking,
            judge,
            self._http,
            now,
        )
        self._front = Front(
            self._live,
            self._metrics,
            now,
            lambda: self._board.table,
            self._serving.serve,
            self._not_ready,
            # By what is bound, not by what rig.toml says now: that may have been edited since.
            only_here(sock.getsockname()[0] for sock in sockets),
        )
        self._watcher = Watcher(self._board, self._admission, self._last_byte)
        self._link = Link(home.socket, self._hello, self._hear, self._linked)
        self._rows = Rows(
            self._board,
            self._live,
            lambda: self._admission.homes,
            lambda: self._admission.line,
            self._accounts,
            lambda: self._booking.totals,
            lambda: len(self._server.connections),
            self._stalled,
            self._routes.owner,
            self._booking.flagged,
        )
        self._ends = SessionEnds(self._board)
        self._log_keeper = LogKeeper(home.logs, lambda: self._link.up)
        self._server = HttpServer(self._front, self._limits(), half_close=True, word=refusal_words)
        self._board.restarted = self._restarted
        self._leaving = ""
        self._over = asyncio.Event()
        self._flowed = Mono(0.0)
        self._flow_due = True

    # ---- life ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until told to leave, and what runs has ended."""
        table = read_table(self._home.table)
        if table is not None:
            self._take(table)
        for sock in self._sockets:
            await self._server.adopt(sock)
        log.info("serving on %s, epoch %s", self._address(), self.epoch)
        tasks = [
            asyncio.create_task(each, name=name)
            for each, name in (
                (self._link.run(), "link"),
                (self._watcher.run(), "watcher"),
                (self._tick(), "tick"),
            )
        ]
        for task in tasks:
            task.add_done_callback(self._broke)
        try:
            await self._over.wait()
        finally:
            for task in tasks:
                task.remove_done_callback(self._broke)
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._ends.stop()
            for request in self._live:
                await self._serving.cut(request)
            await self._server.close(grace=0.5)
            await self._serving.close()
            self._admission.afterwards.settle()
            self._homes_file.save(self._admission.homes, last=True)
            await self._http.close()

    def _broke(self, task: asyncio.Task[None]) -> None:
        """A part that runs for ever has ended: better a new process than half of one."""
        if not task.cancelled():
            log.error("%s has ended", task.get_name(), exc_info=task.exception())
            self._over.set()

    def end(self) -> None:
        """Now, whatever runs."""
        self._over.set()

    def leave(self, why: str) -> None:
        """Take nothing new, let answers finish up to the limit, then end."""
        if self._leaving:
            self._over.set()  # asked twice: now
            return
        self._leaving = why
        running = len(self._live)
        log.info("leaving (%s): %d requests run", why, running)
        self._link.tell(Leaving(running))
        self._server.stop_accepting(patience=LEAVE_PATIENCE)
        drain = self._board.table.policy.drain
        asyncio.get_running_loop().call_later(drain, self._over.set)
        self._maybe_over()

    def _maybe_over(self) -> None:
        if self._leaving and not len(self._live) and not self._server.connections:
            self._over.set()

    async def _tick(self) -> None:
        saved = Mono(0.0)
        while True:
            await asyncio.sleep(TICK)
            now = self._clock.now()
            if self._sleep_watch.slept():
                for record in self._board:
                    self._board.observe(record, Slept())
                self._watcher.look()
            for request in self._live:
                comment(request, self._board.table.policy, now)
            self._admission.wake()
            self._maybe_over()
            if now - saved >= 1.0:
                saved = now
                self._homes_file.save(self._admission.homes)
                self._ends.tell(self._admission.homes.expired(now, self._board.policy))
            self._tell_flow(now)
            self._log_keeper.look(now)

    # ---- the daemon ----------------------------------------------------------------------

    def _hello(self) -> Hello:
        table = self._board.table
        return Hello(
            LINK_PROTOCOL,
            __version__,
            os.getpid(),
            self.epoch,
            self._address(),
            (table.epoch, table.seq),
        )

    def _linked(self) -> None:
        for record in self._board:
            record.told = None
        self._routes.again()
        self._flow_due = True

    def _hear(self, message: ToProxy) -> None:
        match message:
            case Table():
                self._take(message)
            case Progress():
                self._board.hear(message)
                self._admission.heard(message)
            case AbortRequest(identity):
                self._abort(identity)
            case HandOver():
                self.leave("a successor has the socket")
            case GiveSocket(path):
                self._give(Path(path))

    def _take(self, table: Table) -> None:
        if not self._board.take(table):
            return
        self._server.limits = self._limits()
        self._admission.limit({client.name: client.running for client in table.clients})
        for record in self._board:
            self._gate_changed(record)
        self._admission.wake()

    def _restarted(self, record: Record) -> None:
        """Another engine than before: what the last one had cached is gone."""
        why = f"{record.name} was started anew: its cache is empty"
        self._admission.homes.lost(record.name, record.row.run, why)

    def _gate_changed(self, record: Record) -> None:
        state = self._board.gate(record, self._admission.line.waits_for(record.name))
        if state != record.told and self._link.up:
            record.told = state
            self._link.tell(state)
        self._flow_due = True

    def _evidence(self, record: Record, kind: str, say: str) -> None:
        self._link.tell(Evidence(record.name, kind, say))

    def _abort(self, identity: str) -> None:
        request = self._live.find(identity)
        if request is None:
            self._link.tell(Aborted(identity, False, "no such request runs"))
            return
        self._serving.end(request)
        who = request.client if request.client.strip("-") else "its client"
        self._link.tell(Aborted(identity, True, f"{who} was told"))

    def _give(self, path: Path) -> None:
        try:
            hand_socket.give(path, self._server.sockets)
        except OSError as error:
            log.warning("the listening sockets were not given: %s", error)

    def _tell_flow(self, now: Mono) -> None:
        wanted = self._board.table.watched or len(self._live) > 0 or self._flow_due
        if not wanted or now - self._flowed < FLOW:
            return
        self._flowed = now
        self._flow_due = False
        self._admission.afterwards.settle()
        rows = self._rows.make(now)
        if self._link.up:
            self._link.tell(Flow(rows))
            records = self._routes.fresh()
            if records:
                self._link.tell(Routes(records))

    # ---- words ---------------------------------------------------------------------------

    def _address(self) -> str:
        names = []
        for sock in self._sockets:
            host, port = sock.getsockname()[:2]
            names.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return ", ".join(names)

    def _limits(self) -> Limits:
        return Limits(body=self._board.table.policy.body_limit)

    def _not_ready(self) -> str:
        if self._leaving:
            return f"it is leaving: {self._leaving}"
        clusters = self._board.clusters()
        if any(each.standing.admits for each in clusters):
            return ""
        said = "; ".join(f"{each.name} is {each.standing.value}" for each in clusters)
        return said or "no cluster is known yet: no daemon has told of any"

    def _last_byte(self, record: Record) -> float | None:
        now = self._clock.now()
        attempts = [each.attempt for each in self._live.on(record.name) if each.attempt]
        return min((now - each.last for each in attempts), default=None)

    def _stalled(self, cluster: GroupName, seconds: float) -> None:
        self._metrics.stall_seconds.labels(cluster).inc(seconds)

    def _gauges(self) -> Gauges:
        homes = self._admission.homes
        return Gauges(
            clusters=tuple(
                GaugesOfCluster(
                    record.name,
                    record.in_flight,
                    record.slots,
                    homes.count(record.name),
                    self._board.standing(record)[0],
                    record.row.gate == "open",
                )
                for record in self._board
            ),
            queued=sum(each.cluster is None for each in self._live),
            connections=len(self._server.connections),
            bodies_bytes=self._live.bodies,
            link_up=self._link.up,
        )
