"""The HTTP face: routes, keys, access log and the HTTP families of the metrics page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from rigctl.adapters.http1 import Exchange
from rigctl.sim.sglang import prompts, replies
from rigctl.sim.sglang.answering import JSON, Answering
from rigctl.sim.sglang.batching import Request
from rigctl.sim.sglang.board import Board
from rigctl.sim.sglang.engine import Engine
from rigctl.sim.sglang.identity import Identity
from rigctl.sim.sglang.logs import Log
from rigctl.sim.sglang.refusals import MESSAGES, RESPONSES, RefusedError
from rigctl.sim.sglang.settings import Settings
from rigctl.sim.sglang.talking import Talking, read_body
from rigctl.sim.sglang.talking import uvicorn as _uvicorn
from rigctl.sim.sglang.wishes import PATHS

_OPEN = ("/health", "/ready", "/metrics")
_ADMIN = [
    "/flush_cache",
    "/abort_request",
    "/pause_generation",
    "/continue_generation",
    "/freeze_gc",
    "/release_memory_occupation",
    "/resume_memory_occupation",
    "/configure_logging",
    "/slow_down",
]
_METRICS = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
HEALTH_SECONDS = 20.0
_Route = tuple[tuple[str, ...], Callable[[Exchange], Awaitable[None]]]
"""The methods a path takes, and who answers."""


@dataclass(slots=True)
class Status:
    """What the server says of itself."""

    up: bool = False
    draining: bool = False
    unhealthy: bool = False
    started: float = field(default_factory=time.time)
    first_request: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the first generation: only then does SGLang handle SIGTERM itself."""


class Face:
    """Answers requests."""

    def __init__(
        self,
        identity: Identity,
        engine: Engine,
        board: Board,
        settings: Settings,
        log: Log,
        status: Status,
        command: str,
        timings: replies.Json,
        think_limit: int,
        refresh: Callable[[], None],
        crash: Callable[[], None],
    ) -> None:
        self._identity = identity
        self._engine = engine
        self._board = board
        self._settings = settings
        self._log = log
        self._status = status
        self._command = command
        self._timings = timings
        self._refresh = refresh
        args = identity.args
        self._quiet = tuple(args.get("uvicorn_access_log_exclude_prefixes") or ())
        answering = Answering(engine, board, settings, bool(args.get("enable_cache_report")), crash)
        talking = Talking(identity, engine, answering, log, think_limit, settings.fault)
        self._talking = talking
        both = ("GET", "POST")
        self._routes: dict[str, _Route] = {
            "/v1/models": (("GET",), self._models),
            "/model_info": (("GET",), self._model_info),
            "/get_model_info": (("GET",), self._model_info),
            "/server_info": (("GET",), self._server_info),
            "/get_server_info": (("GET",), self._server_info),
            "/v1/loads": (("GET",), self._loads),
            "/ready": (("GET",), self._ready),
            "/ping": (("GET",), self._ping),
            "/health": (("GET",), self._health),
            "/health_generate": (("GET",), self._health),
            "/": (("GET", "HEAD"), self._hello),
            "/tokenize": (("POST",), talking.tokenize),
            "/v1/tokenize": (("POST",), talking.tokenize),
            f"{MESSAGES}/count_tokens": (("POST",), talking.count_tokens),
            "/v1/embeddings": (("POST",), talking.embeddings),
            "/close_session": (("POST",), talking.close_session),
            "/abort_request": (("POST",), self._abort),
            "/flush_cache": (both, self._flush),
            "/freeze_gc": (both, self._fine),
            "/pause_generation": (("POST",), self._pause),
            "/continue_generation": (("POST",), self._continue),
            **dict.fromkeys(PATHS, (("POST",), self._generate)),
        }
        if args.get("enable_metrics"):
            self._routes["/metrics"] = (("GET",), self._metrics)

    async def __call__(self, exchange: Exchange) -> None:
        """One request: counted, checked, answered, logged."""
        path, method = exchange.head.path, exchange.head.method
        route = self._route(path)
        known = route is not None
        labels = {"endpoint": path, "method": method}
        if known:
            self._board.add("http_requests_total", 1, **labels)
            self._board.add("http_requests_active", 1, **labels)
        logging = asyncio.get_running_loop().create_task(self._access(exchange))
        try:
            await self._answer(exchange, path, method, route)
        finally:
            if known:
                self._board.add("http_requests_active", -1, **labels)
                code = str(exchange.status or 499)
                self._board.add("http_responses_total", 1, **labels, status_code=code)
            if exchange.status:
                await logging
            else:
                logging.cancel()

    async def _access(self, exchange: Exchange) -> None:
        """uvicorn's line, when the answer begins: for a stream that is the first token."""
        await exchange.answered.wait()
        head = exchange.head
        if any(head.path.startswith(prefix) for prefix in self._quiet):
            return
        phrase = HTTPStatus(exchange.status).phrase
        self._log.main(
            f'INFO:     {exchange.peer} - "{head.method} {head.target.decode("latin-1")} '
            f'HTTP/{head.version}" {exchange.status} {phrase}'
        )

    def _route(self, path: str) -> _Route | None:
        """Who answers a path; the two that end in a name, last."""
        found = self._routes.get(path)
        if found is None and path.startswith("/v1/models/"):
            return (("GET",), self._talking.model)
        if found is None and path.startswith(f"{RESPONSES}/"):
            cancel = path.endswith("/cancel")
            return (("POST",) if cancel else ("GET",), self._talking.stored)
        return found

    async def _answer(
        self, exchange: Exchange, path: str, method: str, route: _Route | None
    ) -> None:
        if not self._allowed(exchange, path, method):
            await self._json(exchange, {"error": "Unauthorized"}, 401)
        elif route is None:
            await self._json(exchange, {"detail": "Not Found"}, 404)
        elif method not in route[0]:
            await self._json(exchange, {"detail": "Method Not Allowed"}, 405)
        else:
            await route[1](exchange)

    def _allowed(self, exchange: Exchange, path: str, method: str) -> bool:
        if method == "OPTIONS" or path.startswith(_OPEN):
            return True
        key = self._identity.args.get("api_key")
        if path in _ADMIN:
            key = self._identity.args.get("admin_api_key") or key
        given = exchange.head.header(b"authorization")
        return not key or given == b"Bearer " + str(key).encode()

    async def _json(self, exchange: Exchange, body: object, status: int = 200) -> None:
        await exchange.respond(status, replies.dump(body), [*_uvicorn(), JSON])

    async def _empty(self, exchange: Exchange, ok: bool) -> None:
        await exchange.respond(200 if ok else 503, b"", _uvicorn())

    async def _hello(self, exchange: Exchange) -> None:
        await self._json(exchange, "SGLang is running")

    async def _models(self, exchange: Exchange) -> None:
        await self._json(exchange, replies.models(self._identity, time.time()))

    async def _model_info(self, exchange: Exchange) -> None:
        self._old_name(exchange)
        await self._json(exchange, replies.model_info(self._identity))

    async def _server_info(self, exchange: Exchange) -> None:
        self._old_name(exchange)
        await self._engine.between_batches()
        throughput = self._engine.figures.throughput
        body = replies.server_info(self._identity, self._command, self._timings, throughput)
        await self._json(exchange, body)

    def _old_name(self, exchange: Exchange) -> None:
        path = exchange.head.path
        if path.startswith("/get_"):
            self._log.main(
                f"Endpoint '{path}' is deprecated and will be removed in a future version. "
                f"Please use '{path.replace('get_', '')}' instead."
            )

    async def _loads(self, exchange: Exchange) -> None:
        figures = self._engine.figures
        mean = figures.accepted / figures.verifies if figures.verifies else None
        accepted = mean if self._identity.speculates else None
        self._board.observe("get_loads_duration_seconds", 0.0005)
        body = replies.loads(self._identity, figures.snapshot, accepted)
        query = exchange.head.target.partition(b"?")[2].split(b"&")
        if b"format=prometheus" in query:
            page = replies.loads_page(body).encode()
            await exchange.respond(200, page, [*_uvicorn(), _METRICS])
        else:
            await self._json(exchange, body)

    async def _metrics(self, exchange: Exchange) -> None:
        self._refresh()
        await exchange.respond(200, self._board.text().encode(), [*_uvicorn(), _METRICS])

    async def _ready(self, exchange: Exchange) -> None:
        status = self._status
        ok = status.up and not status.draining and not self._engine.paused
        await self._empty(exchange, ok)

    async def _ping(self, exchange: Exchange) -> None:
        await self._empty(exchange, self._status.up and not self._status.unhealthy)

    async def _health(self, exchange: Exchange) -> None:
        """A generation of one token: on an idle server a forward pass on every card."""
        status = self._status
        if status.draining:
            self._log.main("Health check request received during shutdown. Returning 503.")
        if status.draining or not status.up:
            await self._empty(exchange, False)
            return
        begun = time.monotonic()
        request = None
        if self._engine.batcher.idle:
            rid = f"HEALTH_CHECK_{time.time_ns():x}"
            request = Request(rid, prompts.ids_prompt([0]), 1, 1, begun)
            self._engine.submit(request)
        while time.monotonic() - begun < self._settings.real(HEALTH_SECONDS):
            await asyncio.sleep(self._settings.real(1.0))
            if self._engine.last_result > begun:
                await self._empty(exchange, True)
                return
        status.unhealthy = True
        if request is not None:
            self._engine.drop(request)
        await self._empty(exchange, False)

    async def _abort(self, exchange: Exchange) -> None:
        try:
            body = await read_body(exchange)
        except RefusedError as wrong:
            await self._talking.refuse(exchange, wrong)
            return
        self._engine.abort(str(body.get("rid") or ""), everything=bool(body.get("abort_all")))
        await exchange.respond(200, b"", _uvicorn())

    async def _flush(self, exchange: Exchange) -> None:
        await self._engine.between_batches()
        if not self._engine.batcher.idle:
            say = b"Cache not flushed because there are pending requests.\n"
            await exchange.respond(400, say, _uvicorn())
            return
        self._engine.batcher.pool.flush()
        self._engine.figures.gauges()
        self._log.rank(0, "Cache flushed successfully!")
        say = (
            b"Cache flushed.\nPlease check backend logs for more details. (When there are running "
            b"or waiting requests, the operation will not be performed.)\n"
        )
        await exchange.respond(200, say, _uvicorn())

    async def _fine(self, exchange: Exchange) -> None:
        await exchange.respond(200, b"", _uvicorn())

    async def _pause(self, exchange: Exchange) -> None:
        self._engine.pause(True)
        await self._json(exchange, {"message": "Generation paused successfully.", "status": "ok"})

    async def _continue(self, exchange: Exchange) -> None:
        self._engine.pause(False)
        await self._json(
            exchange, {"message": "Generation continued successfully.", "status": "ok"}
        )

    async def _generate(self, exchange: Exchange) -> None:
        self._status.first_request.set()
        await self._talking.generate(exchange)
