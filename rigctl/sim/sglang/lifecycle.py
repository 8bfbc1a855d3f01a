"""From launch to the end: load, listen, warm up, serve; drain on SIGTERM, die when a child did."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rigctl.adapters.http1 import HttpClient, HttpServer, PeerError
from rigctl.sim.sglang import startup
from rigctl.sim.sglang.batching import Batcher
from rigctl.sim.sglang.board import Board
from rigctl.sim.sglang.children import Children
from rigctl.sim.sglang.engine import Engine
from rigctl.sim.sglang.identity import Identity
from rigctl.sim.sglang.link import WorldLink
from rigctl.sim.sglang.logs import Log
from rigctl.sim.sglang.pool import KvPool
from rigctl.sim.sglang.server import Face, Status
from rigctl.sim.sglang.settings import Settings
from rigctl.sim.world import Duty

TICK = 5.0
"""Seconds between two looks of SGLang's SIGTERM watchdog, and of its drain."""
DIAGNOSTICS = 5.0
"""Seconds it sleeps before crash diagnostics, the HTTP side with it."""
WARM_UP_LIMIT = 600.0
"""Seconds its warm-up waits for the first answer."""
LEAVE = 1.5
"""Seconds uvicorn needs to leave once nothing runs."""


def dead_before_loading(log: Log, say: str) -> None:
    """Flags that contradict the model: a traceback and nothing else."""
    pid = os.getpid()
    log.main(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")
    log.bare("Traceback (most recent call last):")
    log.bare('  File "launch_server.py", line 84, in <module>')
    log.bare("    run_server(server_args)")
    log.bare(say)


class Life:
    """One engine's life. `run` gives its exit code, unless it kills itself as SGLang does."""

    def __init__(
        self, identity: Identity, settings: Settings, log: Log, argv: Sequence[str]
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._log = log
        self._command = shlex.join(argv)
        sleeps = bool(identity.args.get("sleep_on_idle"))
        self._children = Children(identity.ranks, settings, sleeps)
        self._link = WorldLink(settings.world, lambda: self._children.schedulers)
        self._status = Status()
        self._serving = False
        self._asked_to_leave = asyncio.Event()
        self._interrupted = asyncio.Event()
        self._port = int(identity.args["port"])
        self._key = identity.args.get("api_key")

    async def run(self) -> int:
        """Live until a signal, a dead child or the end of the world."""
        settings = self._settings
        if settings.ignore_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        tasks: set[asyncio.Task[Any]] = set()
        loop = asyncio.get_running_loop()
        try:
            reader = await self._link.connect()
        except OSError as missing:
            self._log.bare(f"no simulated world at {settings.world}: {missing}")
            return 1
        if reader is not None:
            tasks.add(loop.create_task(self._live_with_the_world(reader)))
        await asyncio.sleep(settings.real(settings.load_seconds * startup.IMPORTS))
        startup.show_arguments(self._identity, self._log)
        self._children.start()
        self._link.duty(Duty.LOADING)
        period = min(1.0, settings.real(1.0))
        tasks.add(loop.create_task(self._children.watch(period, self._child_died)))
        loading = startup.Loading(
            self._identity, settings, self._log, self._link.memory, self._children.name
        )
        try:
            await loading.run()
        except startup.SchedulerFailedError:
            await asyncio.sleep(settings.real(0.5))
            self._die_loading()
        engine, face = self._build(loading)
        server = HttpServer(face)
        if not await self._listen(server):
            await self._on_a_taken_port()
        tasks.add(loop.create_task(engine.run()))
        tasks.add(loop.create_task(self._warm_up()))
        tasks.add(loop.create_task(self._mind_sigterm()))
        loop.add_signal_handler(signal.SIGINT, self._interrupted.set)
        await self._serve_until_asked(engine)
        await self._leave(server)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return 0

    def _build(self, loading: startup.Loading) -> tuple[Engine, Face]:
        identity, settings = self._identity, self._settings
        board = Board(identity.name, identity.ranks, self._children.schedulers)
        self._constants(board, loading)
        engine = Engine(
            Batcher(identity.batch_limits, KvPool(identity.pool)),
            identity.speed,
            settings,
            board,
            self._log,
            self._children.step,
            self._link.duty,
            bool(identity.args.get("sleep_on_idle")),
            "cpu graph" if identity.on_cpu else "cuda graph",
            identity.speculates,
        )
        think = os.environ.get("SGLANG_MAX_THINK_TOKENS", "")
        limit = int(think) if think.isdigit() and identity.args.get("enable_strict_thinking") else 0

        def refresh() -> None:
            cpu = time.process_time()
            board.set("process_cpu_seconds_total", cpu, component="tokenizer")
            board.set("scheduler_process_cpu_seconds_total", self._scheduler_cpu())

        face = Face(
            identity,
            engine,
            board,
            settings,
            self._log,
            self._status,
            self._command,
            loading.timings,
            limit,
            refresh,
            self._raise_in_scheduler,
        )
        return engine, face

    def _scheduler_cpu(self) -> float:
        try:
            with open(f"/proc/{self._children.schedulers[0]}/stat", encoding="ascii") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _constants(self, board: Board, loading: startup.Loading) -> None:
        identity = self._identity
        board.set("max_total_num_tokens", identity.pool)
        board.set("num_pages", identity.pool)
        board.set("page_size", identity.args["page_size"])
        board.set("context_len", identity.context)
        board.set("kv_available_tokens", identity.pool)
        board.set("fwd_occupancy", float("nan"))
        board.set("new_token_ratio", 0.7)
        if identity.mamba_total:
            board.set("mamba_available_tokens", identity.mamba_total)
        if not identity.on_cpu:
            board.set("weight_memory_usage_gb", 7.62)
            board.set("kv_cache_memory_usage_gb", 9.1)
            board.set("startup_available_gpu_memory_gb", 23.1)
        for phase in ("load_weight", "kv_cache_allocation", "scheduler_e2e", "tokenizer_e2e"):
            board.set("startup_time_seconds", loading.timings[phase], phase=phase)

    async def _listen(self, server: HttpServer) -> bool:
        log, host = self._log, str(self._identity.args["host"])
        log.main(f"INFO:     Started server process [{os.getpid()}]")
        log.main("INFO:     Waiting for application startup.")
        log.main("INFO:     Application startup complete.")
        try:
            self._port = await server.listen(host, self._port)
        except OSError as taken:
            log.main(
                f"ERROR:    [Errno {taken.errno}] error while attempting to bind on address "
                f"('{host}', {self._port}): address already in use"
            )
            log.main("INFO:     Waiting for application shutdown.")
            return False
        log.main(f"INFO:     Uvicorn running on http://{host}:{self._port} (Press CTRL+C to quit)")
        return True

    async def _ask_ourselves(self) -> bool:
        """The warm-up: by address, so that on a taken port somebody else is asked."""
        client = HttpClient()
        auth = [(b"authorization", b"Bearer " + self._key.encode())] if self._key else []
        host = str(self._identity.args["host"]).replace("0.0.0.0", "127.0.0.1")
        prompt = b'{"text":"The capital city of France is","sampling_params":{"max_new_tokens":8}}'
        try:
            known = await client.get(host, self._port, "/model_info", auth, WARM_UP_LIMIT)
            if known.status != 200:
                return False
            if not self._identity.args.get("skip_server_warmup"):
                await client.request("POST", host, self._port, "/generate", auth, prompt, None)
            self._status.first_request.set()
            self._status.up = True
            await client.request("POST", host, self._port, "/freeze_gc", auth, b"", None)
        except PeerError as problem:
            self._log.main(f"Initialization failed. warmup error: {problem}")
            return False
        finally:
            await client.close()
        self._log.main("The server is fired up and ready to roll!")
        return True

    async def _on_a_taken_port(self) -> None:
        """It serves nothing and never ends; it keeps its memory until the port's holder answers."""
        if not await self._ask_ourselves():
            await asyncio.Event().wait()
        pid = os.getpid()
        self._status.draining = True
        self._log.main("INFO:     Application shutdown complete.")
        self._log.main(
            f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}"
        )
        self._children.kill()
        await asyncio.Event().wait()

    async def _warm_up(self) -> None:
        """Ask ourselves, as SGLang does: the ready line comes after the first answer."""
        await asyncio.sleep(self._settings.real(self._settings.load_seconds * startup.WARM_UP))
        if not await self._ask_ourselves():
            self._children.kill()
            os._exit(1)
        self._serving = True
        if self._settings.crash_after is not None:
            await asyncio.sleep(self._settings.real(self._settings.crash_after))
            self._raise_in_scheduler()

    async def _mind_sigterm(self) -> None:
        """SGLang handles SIGTERM only once its first request has come; before, it just dies."""
        await self._status.first_request.wait()
        if not self._settings.ignore_sigterm:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self) -> None:
        self._log.main(
            "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
        )
        self._status.draining = True
        self._asked_to_leave.set()

    async def _serve_until_asked(self, engine: Engine) -> None:
        loop = asyncio.get_running_loop()
        interrupted = loop.create_task(self._interrupted.wait())
        ticks = loop.create_task(self._ticks(engine))
        await asyncio.wait([interrupted, ticks], return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        ticks.cancel()

    async def _ticks(self, engine: Engine) -> None:
        """The watchdog looks every 5 s, then drains without limit, looking every 5 s again."""
        tick = self._settings.real(TICK)
        await self._status.first_request.wait()
        while not self._asked_to_leave.is_set():  # noqa: ASYNC110 -- SGLang itself only ticks
            await asyncio.sleep(tick)
        while True:
            rids = list(engine.answers)
            self._log.main(
                f"Gracefully exiting... Remaining number of requests {len(rids)}. Remaining "
                f"requests remaining_rids={rids!r}."
            )
            if not rids:
                return
            await asyncio.sleep(tick)

    async def _leave(self, server: HttpServer) -> None:
        self._serving = False
        log, pid = self._log, os.getpid()
        self._status.draining = True
        self._children.quit()
        late = await self._children.gone(min(15.0, self._settings.real(15.0)))
        if late:
            log.main(
                "Schedulers still alive 15s after ShutdownReq, killing them before they "
                f"released: {late}"
            )
        log.main(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")
        self._children.kill()
        log.main("INFO:     Shutting down")
        log.main("INFO:     Waiting for background tasks to complete. (CTRL+C to force quit)")
        await server.close(self._settings.real(LEAVE))
        log.main("INFO:     Waiting for application shutdown.")
        log.main("INFO:     Application shutdown complete.")
        log.main(f"INFO:     Finished server process [{pid}]")
        log.main(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")

    def _child_died(self, number: int, pid: int, code: int) -> None:
        """SGLang's subprocess watchdog: the server follows its dead child."""
        if self._status.draining:
            return
        log = self._log
        ranks = self._identity.ranks
        if not self._serving:
            if number < ranks:
                log.main(
                    f"Rank {number} scheduler died during initialization (exit code: {code}). If "
                    "exit code is -9 (SIGKILL), a common cause is the OS OOM killer."
                )
            self._die_loading()
        name = f"scheduler_{number}" if number < ranks else "detokenizer"
        log.main(
            f"Subprocess {name} (pid={pid}) crashed with exit code {code}. Triggering SIGQUIT for "
            "cleanup..."
        )
        log.main("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        log.main("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
        time.sleep(self._settings.real(DIAGNOSTICS))  # the real one blocks its HTTP side too
        if ranks == 1:
            log.main("No live scheduler processes found; skipping py-spy and CUDA coredump.")
        self._kill_everything()

    def _raise_in_scheduler(self) -> None:
        self._log.rank(0, "Scheduler hit an exception: Traceback (most recent call last):")
        self._log.bare('  File "scheduler.py", line 6370, in run_scheduler_process')
        self._log.bare("    scheduler.event_loop_overlap()")
        self._log.bare(
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
        )
        os.kill(self._children.schedulers[0], signal.SIGKILL)

    def _die_loading(self) -> None:
        self._log.main("Received sigquit from a child process. It usually means the child failed.")
        self._kill_everything()

    def _kill_everything(self) -> None:
        pid = os.getpid()
        self._log.main(
            f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}"
        )
        self._children.kill()
        os.kill(pid, signal.SIGKILL)

    async def _live_with_the_world(self, reader: asyncio.StreamReader) -> None:
        """The simulated cards are gone: so is this engine, whoever started it."""
        await self._link.listen(reader, self._obey)
        self._children.kill()
        os._exit(1)

    def _obey(self, row: Mapping[str, Any]) -> None:
        if row.get("do") == "leftover":
            self._children.escape()
        elif row.get("do") == "crash":
            self._raise_in_scheduler()
