"""Carries one request through its attempts, and books how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from rigctl.adapters.http1 import (
    ClientGoneError,
    Headers,
    HttpClient,
    PeerError,
)
from rigctl.core.answer import Ending
from rigctl.core.clusters import Refuse, Send
from rigctl.core.ids import Mono
from rigctl.parse.rewrite import Rewritten, Wishes, rewrite
from rigctl.proxy.admission import Admission
from rigctl.proxy.answers import (
    UNBUFFERED,
    close_event,
    decision_fields,
    end_in_band,
    refuse,
    say_error,
)
from rigctl.proxy.attempt import Attempt, Ended, How
from rigctl.proxy.board import Board, Record
from rigctl.proxy.booking import Booking
from rigctl.proxy.judging import Judge
from rigctl.proxy.keep_alive import probe
from rigctl.proxy.letting_go import let_go
from rigctl.proxy.live import Request
from rigctl.proxy.own_pages import served_model

log = logging.getLogger(__name__)

_PASSED = frozenset(
    {b"accept", b"user-agent", b"anthropic-version", b"anthropic-beta", b"traceparent"}
)
"""Headers of a client that an engine gets: none that steers one."""
MOST_EFFORTS = 4_096
ENDED = "ended by a person at the rig (`rigctl abort`)"
CUT = "the endpoint was ended before this answer was; ask again"
NO_RETRY = ((b"x-should-retry", b"false"),)
"""The SDKs ask again by themselves after a 409: what a person has ended stays ended."""


class Serving:
    """The loop around attempts."""

    def __init__(
        self,
        board: Board,
        admission: Admission,
        booking: Booking,
        judge: Judge,
        http: HttpClient,
        now: Callable[[], Mono],
    ) -> None:
        self._board = board
        self._admission = admission
        self._booking = booking
        self._judge = judge
        self._http = http
        self._now = now
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept_efforts: OrderedDict[tuple[str, str], Mapping[str, str]] = OrderedDict()

    async def serve(self, request: Request) -> None:
        """One request to its end. Never raises but for the end of the process."""
        request.exchange.on_gone = lambda: self.left(request)
        request.exchange.on_half_close = lambda: probe(request, self._now())
        outcome = "failed"
        if request.exchange.is_gone:
            self.left(request)  # while its body was unpacked: nobody was there to be told
        try:
            outcome = await self._carry(request)
            if request.ended_by and not request.exchange.status:
                request.status = await say_error(
                    request.exchange,
                    request.ask.dialect,
                    409,
                    "aborted",
                    request.ended_by,
                    NO_RETRY,
                )
        except ClientGoneError:
            outcome = "cancelled"
        except asyncio.CancelledError:
            self.left(request)
            outcome = "cancelled"
            raise
        finally:
            request.exchange.on_gone = None
            request.exchange.on_writable = None
            request.exchange.on_half_close = None
            now = self._now()
            afterwards = self._admission.afterwards
            afterwards.add_lesson(lambda: self._booking.taught(request, now))
            afterwards.add_late(lambda: self._booking.ended(request, outcome, now))

    def left(self, request: Request) -> None:
        """The client has gone, or a person ended it."""
        if request.gone:
            return
        request.gone = True
        self._admission.leave(request)
        if request.attempt is not None:
            request.attempt.leave()

    async def cut(self, request: Request) -> None:
        """This process ends: who has no byte yet may come again at once, the others are told."""
        if not request.exchange.status:
            exchange, dialect = request.exchange, request.ask.dialect
            request.status = await say_error(exchange, dialect, 503, "restarting", CUT, (), 1)
        self.end(request, CUT, "restarting", 503)

    def end(
        self, request: Request, say: str = ENDED, code: str = "aborted", status: int = 409
    ) -> None:
        """A person ends it: its client is told so, and the work on the engine is ended."""
        exchange = request.exchange
        if exchange.status and not exchange.finished:
            attempt = request.attempt
            reader = None if attempt is None else attempt.reader
            if attempt is None or not attempt.begun or (reader is not None and reader.stream):
                close_event(request)
                end_in_band(request, say, code, status)
            else:
                exchange.abort()
        elif not exchange.status:
            request.ended_by = say
        self.left(request)

    async def close(self) -> None:
        """Let aborts under way come to their end."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=5.0)

    # ---- attempts ------------------------------------------------------------------------

    async def _carry(self, request: Request) -> str:
        """The outcome, in metrics' words."""
        refusal = self._judge.unfit(request)
        if refusal is not None:
            return await self._refused(request, refusal)
        again = False
        while True:
            if not again:
                decision = await self._admission.place(request)
                if decision is None or request.gone:
                    self._give_back(request, decision)
                    return "cancelled"
                if isinstance(decision, Refuse):
                    return await self._refused(request, decision)
                assert isinstance(decision, Send)
            record = self._board.get(request.cluster)
            assert record is not None
            try:
                attempt, ended = await self._attempt(request, record)
            except Exception:
                self._give_back(request, decision)
                raise
            again = ended.reused and not request.gone
            if again:
                request.doubtful = True
                continue  # the engine had just closed a kept connection: the same place, a new one
            if ended.how is How.LEFT:
                self._part(request, record, attempt)
                reader = attempt.reader
                had_all = reader is not None and reader.ended is Ending.COMPLETE
                # It has all of the answer and does not wait for `[DONE]`: no leaving (C33).
                return "complete" if attempt.begun and had_all else "cancelled"
            try:
                outcome = await self._judge.judge(request, record, attempt, ended)
            finally:  # also where its client has gone just now
                if request.ask.endpoint.generates:
                    if ended.how is How.DONE:  # a refusal tells nothing of how long answers take
                        record.took(self._now() - attempt.taken)
                    self._admission.release(request, record)
            if outcome is not None:
                return outcome
            request.cluster = None
            request.attempt = None

    def _give_back(self, request: Request, decision: Send | Refuse | None) -> None:
        """It left in the very moment in which its place was found."""
        record = self._board.get(request.cluster)
        sent = isinstance(decision, Send) and request.ask.endpoint.generates
        if sent and record is not None:
            self._admission.release(request, record)

    async def _refused(self, request: Request, refusal: Refuse) -> str:
        request.why = refusal.why
        self._booking.refused(request, refusal)
        request.status = await refuse(request, refusal, self._now() - request.arrived)
        return "refused"

    async def _attempt(self, request: Request, record: Record) -> tuple[Attempt, Ended]:
        now = self._now()
        ask = request.ask
        rid = f"{request.id}-{request.resent & 15:x}"
        rewritten = rewrite(
            ask.endpoint, request.opened or request.body, self._wishes(request, record, rid)
        )
        request.opened = None  # decoded text is larger than the body: not kept while it runs
        known_rid = rewritten.rid or (rid if record.header_rid else "")
        if ask.choices > 1:
            known_rid = ""  # the engine throws it away and gives each choice an id of its own
        attempt = Attempt(request, record.name, known_rid, rewritten.added_usage, now)
        attempt.on_first_byte = partial(self._admission.first_byte, request, record)
        request.attempt = attempt
        request.sent = now
        request.notes = rewritten.notes
        request.enter("prefilling", now)
        await self._send(request, record, attempt, rewritten, rid)
        if request.gone:
            attempt.leave()
        return attempt, await attempt.ended

    async def _send(
        self, request: Request, record: Record, attempt: Attempt, rewritten: Rewritten, rid: str
    ) -> None:
        """Give it to the engine; what the engine need not wait for is done while it works."""
        upstream = record.upstream
        path = request.ask.endpoint.value + request.query
        where = ("POST", upstream.host, upstream.port, path)
        what = (self._fields(request, record, rid), rewritten.parts, attempt)
        attempt.handle = self._http.relay_kept(*where, *what)
        waited = attempt.taken - request.arrived
        fields = decision_fields(request, waited)
        attempt.prepare((*fields, *UNBUFFERED) if request.ask.stream else fields)
        self._admission.afterwards.add_late(partial(self._booking.sent, request, waited))
        if attempt.handle is None:
            try:
                attempt.handle = await self._http.relay(*where, *what)
            except PeerError as error:
                attempt.fail(How.UNREACHABLE, str(error))

    def _wishes(self, request: Request, record: Record, rid: str) -> Wishes:
        row, policy = record.row, self._board.table.policy
        served = served_model(self._board.table)
        session = request.label if row.session_radix and request.label else None
        return Wishes(
            rid=rid,
            session_id=session,
            model=row.model if served != row.model or request.ask.model != served else None,
            think_cap=row.think_budget,
            thinking=request.ask.thinking,
            budgets=row.strict_thinking,
            effort=self._efforts(request, record),
            priorities=policy.priorities,
            normalize=policy.normalize_prompt,
        )

    def _efforts(self, request: Request, record: Record) -> Mapping[str, str]:
        """A session's first translation of a level stays: another one would cost it its cache."""
        level, label = request.ask.effort, request.label
        if not level or not label or not record.probed:
            return record.efforts
        kept = self._kept_efforts.setdefault((label, level), record.efforts)
        self._kept_efforts.move_to_end((label, level))
        while len(self._kept_efforts) > MOST_EFFORTS:
            self._kept_efforts.popitem(last=False)
        return kept

    def _fields(self, request: Request, record: Record, rid: str) -> Headers:
        given = request.exchange.head.headers
        fields = [pair for pair in given if pair[0] in _PASSED]
        fields.append((b"content-type", b"application/json"))
        fields.append((b"x-request-id", (request.client_id or request.id).encode()))
        if record.header_rid:
            fields.append((b"x-override-rid", rid.encode()))
        return (*fields, *record.upstream.fields)

    # ---- parting -------------------------------------------------------------------------

    def _part(self, request: Request, record: Record, attempt: Attempt) -> None:
        """The client has left: end the work on the engine, then let the slot go."""
        if not request.ask.endpoint.generates:
            attempt.drop()
            return
        self._booking.aborted(record)
        self._spawn(self._let_go(request, record, attempt))

    async def _let_go(self, request: Request, record: Record, attempt: Attempt) -> None:
        try:
            if attempt.over.is_set() or attempt.handle is None:
                attempt.drop()
            else:
                mine = request.ask.choices
                await let_go(attempt, record, lambda: record.slots_taken - mine)
        finally:
            self._admission.release(request, record)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
