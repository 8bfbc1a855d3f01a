"""Books what a request did: metrics, the client's sums, the session's home, the route log."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from rigctl.core.answer import Usage
from rigctl.core.ask import Endpoint
from rigctl.core.clusters import Refuse
from rigctl.core.flow import RouteRecord
from rigctl.core.homes import MOST_SESSIONS
from rigctl.core.ids import Mono, Wall
from rigctl.core.lengths import learn
from rigctl.core.reading import NOT_YET, Reading
from rigctl.core.repeats import says_the_same
from rigctl.core.said import all_thought
from rigctl.parse.answers import AnswerReader
from rigctl.proxy.accounts import Accounts
from rigctl.proxy.admission import Admission
from rigctl.proxy.board import Board, Record
from rigctl.proxy.live import Request
from rigctl.proxy.metrics import Metrics
from rigctl.proxy.route_log import RouteLog

log = logging.getLogger(__name__)

UNCACHED = 2_000
"""Prompt tokens not cached from which a first byte tells how fast prompts are read."""
EVENTS = 16
"""Events of an answer from which it tells how many tokens the engine puts into one."""
_NOTHING: frozenset[str] = frozenset()
_OF_ANSWERS = frozenset({"all-thought", "repeats"})


class Booking:
    """Called where something ends."""

    def __init__(
        self,
        metrics: Metrics,
        accounts: Accounts,
        admission: Admission,
        board: Board,
        routes: RouteLog,
        wall: Callable[[], Wall],
    ) -> None:
        self._metrics = metrics
        self._accounts = accounts
        self._admission = admission
        self._board = board
        self._routes = routes
        self._wall = wall
        self._flagged: OrderedDict[str, frozenset[str]] = OrderedDict()
        self.totals: dict[str, float] = dict.fromkeys(
            ("requests", "complete", "truncated", "failed", "refused", "cancelled", "resent"), 0.0
        )

    def flagged(self, session: str) -> frozenset[str]:
        """What a session's last answer is flagged for."""
        return self._flagged.get(session, _NOTHING)

    def sent(self, request: Request, waited: float) -> None:
        """It was given to an engine."""
        why, cluster = request.why, request.cluster or ""
        rule = "" if why is None else why.rule
        self._metrics.routed.labels(cluster, rule).inc()
        self._metrics.queue_wait.labels(rule).observe(waited)

    def resent(self, record: Record) -> None:
        """Another place is looked for."""
        self._metrics.resent.labels(record.name).inc()
        self.totals["resent"] += 1

    def refused(self, request: Request, refusal: Refuse) -> None:
        """The rules said no."""
        self._metrics.refused.labels(refusal.code).inc()

    def aborted(self, record: Record) -> None:
        """The engine is told to end it."""
        self._metrics.aborts.labels(record.name).inc()

    def taught(self, request: Request, now: Mono) -> None:
        """What the next turn of its conversation goes by, of what its answer told."""
        attempt = request.attempt
        if attempt is None or attempt.reader is None:
            return
        ask, homes, record = request.ask, self._admission.homes, self._board.get(request.cluster)
        if ask.endpoint is Endpoint.RESPONSES and record is not None:
            homes.gave(attempt.rid, record.name, record.row.run)
        usage = attempt.reader.usage
        if usage is None or usage.prompt is None:
            return
        self._admission.learnt = learn(self._admission.learnt, ask.size, usage.prompt)
        if request.home is not None:
            homes.taught(request.home, ask.size, usage.prompt)
            cached: Reading = NOT_YET if usage.cached is None else float(usage.cached)
            context = usage.prompt + (usage.completion or 0)
            request.home = homes.answered(request.home, float(usage.prompt), cached, context, now)
        if record is not None:
            _note_prefill(request, record, usage)

    def ended(self, request: Request, outcome: str, now: Mono) -> None:
        """A request has come to its end, whatever it was."""
        cluster = request.cluster or ""
        endpoint = request.ask.endpoint.value
        self._metrics.requests.labels(endpoint, cluster, outcome).inc()
        self.totals["requests"] += 1
        self.totals[outcome] += 1
        if request.ask.endpoint.generates:
            account = self._accounts.of(request.client)
            account.requests += 1
            account.failed += outcome in ("failed", "truncated")
            account.cancelled += outcome == "cancelled"
        if outcome == "cancelled":
            self._metrics.cancelled.labels(cluster).inc()
            request.status = request.status or 499
        if cluster:
            self._metrics.request_seconds.labels(cluster).observe(now - request.arrived)
            if request.first_byte is not None:
                waited = request.first_byte - request.arrived
                self._metrics.first_byte.labels(cluster).observe(waited)
        attempt = request.attempt
        if attempt is not None and attempt.reader is not None:
            self._answered(request, attempt.reader, cluster, outcome)
            self._flag(request)
        self._log(request, outcome, now)

    def _flag(self, request: Request) -> None:
        """Its session shows until its next answer what was odd about this one."""
        session, flags = request.label, request.flags & _OF_ANSWERS
        self._flagged.pop(session, None)
        if session and flags:
            self._flagged[session] = flags
            if len(self._flagged) > MOST_SESSIONS:
                self._flagged.popitem(last=False)

    # ---- answers -------------------------------------------------------------------------

    def _answered(self, request: Request, reader: AnswerReader, cluster: str, outcome: str) -> None:
        self._metrics.relayed.labels("out").inc(reader.carried)
        usage = reader.usage
        if outcome in ("complete", "truncated", "failed"):
            self._accounts.count(request.client, usage)
        if usage is not None:
            self._count(usage, cluster)
            record = self._board.get(request.cluster)
            if record is not None and usage.completion and reader.progress >= EVENTS:
                record.wrote(usage.completion, reader.progress)
        elif outcome == "complete":
            self._metrics.uncounted.labels(cluster).inc()
        for said in reader.choices.values():
            if all_thought(said):
                request.flag("all-thought")
            if says_the_same(said):
                request.flag("repeats")
        if "all-thought" in request.flags:
            self._metrics.all_thought.labels(cluster).inc()
        if "repeats" in request.flags:
            self._metrics.repeats.labels(cluster).inc()

    def _count(self, usage: Usage, cluster: str) -> None:
        for kind, tokens in (
            ("prompt", usage.prompt),
            ("cached", usage.cached),
            ("output", usage.completion),
            ("thinking", usage.reasoning),
        ):
            if tokens:
                self._metrics.tokens.labels(cluster, kind).inc(tokens)

    # ---- the log -------------------------------------------------------------------------

    def _log(self, request: Request, outcome: str, now: Mono) -> None:
        why = request.why
        waited = (request.sent if request.sent is not None else now) - request.arrived
        record = RouteRecord(
            seq=0,
            wall=self._wall(),
            request=request.id,
            session=request.label,
            client=request.client,
            endpoint=request.ask.endpoint.value,
            cluster=request.cluster or "",
            rule="" if why is None else why.rule,
            say="" if why is None else _with_notes(why.say, request.notes),
            source="" if why is None else why.source,
            tokens=0 if why is None else why.tokens,
            how="" if why is None else why.how,
            waited=waited,
            status=request.status,
        )
        if request.ask.endpoint.generates or outcome != "complete":
            self._routes.add(record)
        flags = f" {','.join(sorted(request.flags))}" if request.flags else ""
        log.info(
            "%s %s %s %s %s %s %s ~%d tok, waited %.3f s, took %.3f s%s",
            request.id,
            request.client,
            record.endpoint,
            record.cluster or "-",
            record.rule or "-",
            request.status,
            outcome,
            record.tokens,
            waited,
            now - request.arrived,
            flags,
        )


def _note_prefill(request: Request, record: Record, usage: Usage) -> None:
    """What reading this prompt took, where nothing else ran there that could disturb it."""
    first, sent = request.first_byte, request.sent
    if first is None or sent is None or usage.cached is None:
        return
    uncached = (usage.prompt or 0) - usage.cached
    if uncached >= UNCACHED and record.in_flight <= 1:
        record.read(uncached, first - sent)


def _with_notes(say: str, notes: tuple[str, ...]) -> str:
    return f"{say}; {'; '.join(notes)}" if notes else say
