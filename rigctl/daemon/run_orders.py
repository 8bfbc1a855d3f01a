"""Carries out what the state decided, and brings back what came of it. Decides nothing."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any, assert_never

from rigctl.adapters import notify
from rigctl.adapters.http1.client import HttpClient
from rigctl.adapters.http1.errors import HttpError
from rigctl.adapters.journal import Journal
from rigctl.adapters.process import ProcessLauncher
from rigctl.config.diff import differences
from rigctl.config.overrides import Override, set_override
from rigctl.config.schema import ConfigError
from rigctl.core.facts import (
    EngineSpawned,
    EngineSpawnFailed,
    Fact,
    NvmlReleased,
    PowerLimitSet,
    TroubleSeen,
)
from rigctl.core.ids import GroupName, OperationId
from rigctl.core.orders import (
    AbortAnswers,
    AbortOrphans,
    CloseAddress,
    EndDaemon,
    EndWorker,
    LimitPower,
    LookNow,
    NoteOverride,
    Order,
    PauseNvml,
    SignalEndpoint,
    SignalMain,
    SignalWhole,
    SpawnEndpoint,
    SpawnEngine,
    TellEndpoint,
    TellPerson,
    WriteJournal,
)
from rigctl.core.snapshot import JournalEntry
from rigctl.core.state import RigState
from rigctl.daemon.book import Book, masked_env
from rigctl.daemon.endpoint_host import EndpointHost
from rigctl.daemon.engine_logs import EngineLogs
from rigctl.daemon.link import LinkHub
from rigctl.ports import Clock, Gpus

log = logging.getLogger(__name__)

SIGTERM = 15


class OrderRunner:
    """One method an order; anything slow becomes a task, so that the loop goes on."""

    def __init__(
        self,
        *,
        book: Book,
        clock: Clock,
        launcher: ProcessLauncher,
        gpus: Gpus,
        http: HttpClient,
        journal: Journal,
        logs: EngineLogs,
        state: Callable[[], RigState],
        post: Callable[[Fact], None],
        note: Callable[[JournalEntry], None],
        look: Callable[[GroupName], None],
        end: Callable[[], None],
        endpoint: EndpointHost,
        links: LinkHub,
    ) -> None:
        self._book = book
        self._clock = clock
        self._launcher = launcher
        self._gpus = gpus
        self._http = http
        self._journal = journal
        self._logs = logs
        self._state = state
        self._post = post
        self._note = note
        self._look = look
        self._end = end
        self._endpoint = endpoint
        self._links = links
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused_until = 0.0

    def carry_out(self, order: Order) -> None:
        """Begin one order. Never raises: what goes wrong comes back as a fact."""
        match order:
            case SpawnEngine():
                self._spawn(order)
            case SignalMain(process=process, number=number):
                self._launcher.end_pids((process,), number)
            case SignalWhole(process=process, number=number):
                self._launcher.signal(process, number)
            case AbortAnswers(group):
                self._task(self._abort(group, {"abort_all": True}))
            case AbortOrphans(group, prefix):
                self._task(self._abort(group, {"rid": prefix}))
            case SpawnEndpoint(token):
                self._endpoint.spawn(token)
            case SignalEndpoint(process=process, number=number):
                self._endpoint.signal(process, number)
            case CloseAddress():
                self._endpoint.close_address()
            case TellEndpoint(pid, message):
                self._links.tell(pid, message)
            case EndWorker(process=process):
                self._launcher.end_pids((process,), SIGTERM)
            case LookNow(group):
                self._look(group)
            case LimitPower():
                self._task(self._limit(order))
            case PauseNvml(operation, seconds):
                self._task(self._pause(operation, seconds))
            case WriteJournal(group=name, kind=kind, say=say, figures=figures):
                self._note(self._journal.write(self._clock.wall(), name, kind, say, figures))
                # Law of the house: a full disk is said, and costs nothing but the disk's copy.
                self._post_trouble("journal", self._journal.trouble)
            case TellPerson():
                self._task(self._tell(order))
            case NoteOverride():
                self._override(order)
            case EndDaemon():
                self._end()
            case _:
                assert_never(order)

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("an order failed", exc_info=task.exception())

    async def close(self) -> None:
        """End what is under way; engines are not touched."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- starting ----------------------------------------------------------------------

    def _spawn(self, order: SpawnEngine) -> None:
        name = order.group
        try:
            fact = self._start(order)
        except ConfigError as error:
            fact = EngineSpawnFailed(name, str(error), final=True)
        except OSError as error:
            # A full disk or a taken port may pass; a program that is not there will not.
            passing = error.errno in (errno.ENOSPC, errno.EADDRINUSE, errno.EAGAIN, errno.ENOMEM)
            fact = EngineSpawnFailed(name, error.strerror or str(error), final=not passing)
        self._post(fact)

    def _start(self, order: SpawnEngine) -> Fact:
        name = order.group
        state = self._state()
        group = state.group(name)
        assert group is not None
        self._book.reload()
        sweep = state.sweep
        present = () if sweep is None else sweep.cards
        found = self._book.found(name, present, None, group.sleep_on_idle)
        self._post(found)
        if found.cards != group.spec.cards:
            # Those that were seen to be free are not those that it would start on.
            why = "its cards in rig.toml have changed; the new ones are looked at first"
            return EngineSpawnFailed(name, why, final=False)
        plan = self._book.plan(name, present, group.sleep_on_idle)
        self._require_port(name)
        self._book.write_keys(name)
        path = self._logs.begin(name)
        process = self._launcher.spawn(plan.argv, plan.env, str(path), order.token)
        self._book.started(name)
        env = masked_env(plan.env)
        changes: tuple[str, ...] = ()
        if group.last_command:
            last = group.last_command, group.last_env
            changes = differences(plan.masked, last[0], env, last[1], ("now", "before"))
        return EngineSpawned(name, process, plan.masked, changes, env)

    def _require_port(self, name: GroupName) -> None:
        """A real server loads for 20 s on a taken port and then hangs with its memory."""
        host, port = self._book.binding(name)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As the engine does: TIME_WAIT is no obstacle, a listener is.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise OSError(
                        error.errno, f"cannot use {host}:{port}: {error.strerror}"
                    ) from error
                raise OSError(
                    errno.EADDRINUSE,
                    f"port {port} is taken by another program; see `ss -ltnp 'sport = {port}'`, "
                    f"or give {name} another port in rig.toml",
                ) from error

    # ---- the rest ----------------------------------------------------------------------

    async def _abort(self, name: GroupName, what: dict[str, Any]) -> None:
        """End requests on an engine: all, or those whose id begins so (it matches by prefix)."""
        host, port = self._book.address(name)
        body = json.dumps(what).encode()
        headers = (
            *self._book.authorization(name),
            (b"content-type", b"application/json"),
        )
        try:
            await self._http.request(
                "POST", host, port, "/abort_request", headers, body, timeout=3.0
            )
        except HttpError as error:
            log.info("%s took no abort: %s", name, error)

    async def _limit(self, order: LimitPower) -> None:
        error = await self._gpus.set_power_limit(order.card, order.watts)
        self._post(PowerLimitSet(order.operation, order.card, order.watts, error))

    async def _pause(self, operation: OperationId, seconds: float) -> None:
        until = self._clock.now() + seconds
        self._paused_until = max(self._paused_until, until)
        await self._gpus.release(self._paused_until - self._clock.now())
        self._post(NvmlReleased(operation, over=False))
        await asyncio.sleep(seconds)
        if until >= self._paused_until:  # a longer pause that was asked for meanwhile goes on
            await self._gpus.release(0)
        self._post(NvmlReleased(operation, over=True))

    async def _tell(self, order: TellPerson) -> None:
        rig = self._book.config.rig
        title = f"{rig.name}: {order.group or 'rig'} {order.event}"
        facts = {"event": order.event, "group": order.group, "say": order.say, "rig": rig.name}
        if rig.on_event:
            problem = await notify.run_on_event(rig.on_event, facts)
            self._post_trouble("on-event", problem)
        await asyncio.to_thread(notify.notify, title, order.say, urgent=True)

    def _override(self, order: NoteOverride) -> None:
        change = Override(
            order.group, "sleep_on_idle", order.sleep_on_idle, self._clock.wall(), order.by
        )
        try:
            set_override(self._book.home.overrides, change)
        except (OSError, ConfigError) as error:
            self._post_trouble("overrides", f"{self._book.home.overrides} not written: {error}")
        else:
            self._post_trouble("overrides", "")

    def _post_trouble(self, kind: str, say: str) -> None:
        standing = {each.id: each.say for each in self._state().troubles}
        if standing.get(kind, "") != say:
            self._post(TroubleSeen(kind, say))
