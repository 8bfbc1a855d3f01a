"""What the end of an attempt means: an answer, an error in the client's words, or another try."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rigctl.core.answer import MOST_CHOICES, Ending, StreamError
from rigctl.core.ask import Endpoint
from rigctl.core.clusters import Refuse, Why
from rigctl.core.evidence import Answered, Evidence, Refused, Reset
from rigctl.core.ids import Mono
from rigctl.core.lengths import answer_room
from rigctl.parse.refusals import Refusal, read_refusal, refusal_of
from rigctl.parse.scrub import without_paths
from rigctl.proxy.admission import Admission
from rigctl.proxy.answers import close_event, decision_fields, end_in_band, say_error
from rigctl.proxy.attempt import Attempt, Ended, How
from rigctl.proxy.board import Board, Record
from rigctl.proxy.booking import Booking
from rigctl.proxy.live import Request

log = logging.getLogger(__name__)

VERDICT = 3.0
"""Seconds to wait for the daemon's word on why a server died."""
TOGETHER = 10.0
"""Seconds within which two losses are of one crash: no server is up again so soon, and on a busy
machine the last socket of a killed one closes seconds after the first."""
QUARANTINE = 600.0
COME_BACK = 5
"""Seconds after which one whose engine answered 503 may ask again."""
POISON = (
    "this very prompt was alone in prefill when its server crashed a moment ago; it is not sent to "
    "another one. Change it, or ask again in ten minutes"
)
BROKEN = "the server that answered was lost in mid-answer; ask again"
_DONE = b"data: [DONE]\n\n"
_CODES = {
    "effort": "unsupported_value",
    "bad_request": "invalid_request",
    "queue_full": "queue_full",
}
_TOLD = (Ending.FAILED, Ending.SUSPICIOUS)
"""Ends that need no further word to the client."""


class Judge:
    """Judges one attempt at a time; remembers prompts that seem to crash servers."""

    def __init__(
        self,
        board: Board,
        admission: Admission,
        booking: Booking,
        now: Callable[[], Mono],
        evidence: Callable[[Record, str, str], None],
        linked: Callable[[], bool],
    ) -> None:
        """`evidence` tells the daemon; `linked`: whether there is one."""
        self._board = board
        self._admission = admission
        self._booking = booking
        self._now = now
        self._evidence = evidence
        self._linked = linked
        self._poison: dict[bytes, Mono] = {}
        """Tips of requests that were alone in prefill when their server crashed."""

    def unfit(self, request: Request) -> Refuse | None:
        """Why a request is given to no engine, before it takes a slot, a place or a session."""
        if request.opened is not None and request.opened.fault:
            return Refuse(400, "invalid_request", None, Why("body", request.opened.fault))
        if request.ask.choices > MOST_CHOICES:
            say = f"{request.ask.choices} choices at once: at most {MOST_CHOICES} are answered here"
            return Refuse(400, "too_many_choices", None, Why("body", say))
        if self.poisoned(request):
            return Refuse(400, "prompt_crashed_server", None, Why("crashed", POISON))
        return None

    async def judge(
        self, request: Request, record: Record, attempt: Attempt, ended: Ended
    ) -> str | None:
        """The outcome, or None where it is to be routed again."""
        match ended.how:
            case How.DONE:
                return await self._done(request, record, attempt, ended)
            case How.REFUSED:
                refusal = read_refusal(ended.status, ended.body)
                return await self._engine_refused(request, record, ended.status, refusal)
            case How.ERROR_FIRST:
                return await self._error_first(request, record, attempt)
            case How.UNREACHABLE:
                self._note(record, Refused(ended.say), "refused", ended.say)
                if request.doubtful:
                    await self._suspect(request, record)
                self._again(request, record)
                return None
            case _:
                return await self._lost(request, record, attempt, ended)

    async def _done(
        self, request: Request, record: Record, attempt: Attempt, ended: Ended
    ) -> str | None:
        exchange, reader = request.exchange, attempt.reader
        if not attempt.begun:
            if reader is not None and reader.stream:
                # A stream that ended without one event: nothing was said, nothing is lost.
                return await self._lost(request, record, attempt, ended)
            await self._send_whole(request, ended)
            self._good(record)
            return "complete"
        if reader is None or not reader.stream:
            exchange.complete()
            return "complete"
        return self._end_stream(request, record, attempt)

    async def _send_whole(self, request: Request, ended: Ended) -> None:
        now = self._now()
        request.first_byte = request.first_byte or now
        if request.commented:
            end_in_band(request, "the server gave no stream", "bad_answer", 502)
            return
        kind = next((v for n, v in ended.headers if n == b"content-type"), b"application/json")
        request.status = ended.status
        fields = decision_fields(request, (request.sent or now) - request.arrived)
        await request.exchange.respond(ended.status, ended.body, [(b"content-type", kind), *fields])

    def _end_stream(self, request: Request, record: Record, attempt: Attempt) -> str:
        """The engine has ended a stream: complete it, or say in-band that it is not (C33)."""
        reader, exchange = attempt.reader, request.exchange
        assert reader is not None
        match reader.ended:
            case Ending.COMPLETE | Ending.SUSPICIOUS as how:
                if not reader.done and request.ask.endpoint in (
                    Endpoint.CHAT,
                    Endpoint.COMPLETIONS,
                ):
                    close_event(request)
                    exchange.push(_DONE)
                exchange.complete()
                if how is Ending.SUSPICIOUS:
                    return "truncated"
                self._good(record)
                return "complete"
            case Ending.FAILED:
                error = reader.first_error
                # Its words may quote the prompt: they go to the client, and nowhere else.
                say = "an error inside a stream"
                if error is None or status_of(error) >= 500:
                    self._note(record, Answered(500, say=say), "error", say)
                close_event(request)
                exchange.complete()
                return "failed"
            case _:
                say = "a stream ended without its end"
                self._note(record, Reset(say), "reset", say)
                self._break_off(request, attempt)
                return "truncated"

    def _break_off(self, request: Request, attempt: Attempt) -> None:
        """What was sent stands; the client must not take it for a whole answer."""
        exchange, reader = request.exchange, attempt.reader
        if reader is None or not reader.stream:
            exchange.abort()
            return
        close_event(request)
        end_in_band(request, BROKEN, "server_lost", 502)

    async def _lost(
        self, request: Request, record: Record, attempt: Attempt, ended: Ended
    ) -> str | None:
        reader = attempt.reader
        if attempt.begun and reader is not None and reader.stream and reader.ended in _TOLD:
            # Its last words have gone out: behind them the connection may break as it likes.
            return self._end_stream(request, record, attempt)
        self._note(record, Reset(ended.say), "reset", ended.say)
        if attempt.begun:
            self._break_off(request, attempt)
            return "truncated"
        await self._suspect(request, record)
        self._again(request, record)
        return None

    async def _suspect(self, request: Request, record: Record) -> None:
        """Find out whether this prompt, alone in prefill, may be what killed its server."""
        if not request.ask.endpoint.generates:
            return
        now = self._now()
        # Those that were lost with it may have been judged, and let go, a moment before.
        alone = set(record.unread) == {request.id} and now - record.lost_at > TOGETHER
        record.lost_at = now
        if alone:
            request.poisonous = await self._was_poison(request, record)

    async def _was_poison(self, request: Request, record: Record) -> bool:
        """Whether this prompt, alone in prefill, may have crashed its server.

        A server that was ended from outside is no prompt's doing; the daemon knows, by the exit
        code and the log, a moment after the connection broke. One that still answers has not
        crashed: only a connection broke.
        """
        end = self._now() + VERDICT
        run = record.row.run
        # Also for a client that has left meanwhile: its next try is judged by what is found.
        while self._linked() and self._now() < end:
            row = record.row
            if row.run != run or row.state not in ("ready", "draining"):
                if row.fault:
                    break
                return False
            await asyncio.sleep(0.1)
        else:
            if isinstance(await record.upstream.look(), bytes):
                return False
        tip = request.ask.chain[-1] if request.ask.chain else b""
        if tip:
            self._poison[tip] = self._now()
        return True

    def poisoned(self, request: Request) -> bool:
        """Whether this very prompt seemed to crash a server, a while ago. Counting it is safe."""
        if not request.ask.endpoint.generates:
            return False
        if not self._poison:
            return False
        now = self._now()
        self._poison = {tip: at for tip, at in self._poison.items() if now - at < QUARANTINE}
        return bool(request.ask.chain) and request.ask.chain[-1] in self._poison

    def _again(self, request: Request, record: Record) -> None:
        """Queue it anew, unnoticed: no byte of answer has reached the client."""
        request.tried |= {record.name}
        request.resent += 1
        request.flag("resent")
        record.resent += 1
        self._booking.resent(record)
        request.enter("queued", self._now())

    async def _error_first(self, request: Request, record: Record, attempt: Attempt) -> str | None:
        """A 200 that begins with an error gets the status that it should have had (C34)."""
        error = attempt.reader.first_error if attempt.reader is not None else None
        assert error is not None
        status = status_of(error)
        refusal = refusal_of(status, error.message, error.kind, error.code, {})
        return await self._engine_refused(request, record, status, refusal)

    async def _engine_refused(
        self, request: Request, record: Record, status: int, refusal: Refusal
    ) -> str | None:
        """The engine's own no: another cluster's yes, or the client's error in its dialect."""
        generates = request.ask.endpoint.generates
        if refusal.kind == "too_long" and generates and record.name not in request.too_long_at:
            self._too_long(request, record, refusal)
            return None
        if refusal.kind == "queue_full" and generates:
            self._board.observe(record, Answered(status, queue_full=True))
            if self._elsewhere(request, record):
                request.tried |= {record.name}
                self._booking.resent(record)
                return None
        if refusal.kind == "server" and generates:
            say = f"it answered {status}"
            self._note(record, Answered(status, say=say), "error", say)
            if self._elsewhere(request, record):
                self._again(request, record)
                return None
        if refusal.kind == "auth":
            say = f"{record.name} does not take the key that rig.toml names for it"
            log.error("%s", say)
            if generates:
                self._note(record, Answered(500, say=say), "error", say)
                if self._elsewhere(request, record):
                    self._again(request, record)
                    return None
            status = 502
            refusal = Refusal("server", say, code="engine_key")
        return await self._pass_on(request, status, refusal)

    def _elsewhere(self, request: Request, record: Record) -> bool:
        """Whether another cluster may be asked; else the engine's own words are the answer."""
        return any(
            each.admits and each.name != record.name and each.name not in request.tried
            for each in self._board.clusters()
        )

    def _too_long(self, request: Request, record: Record, refusal: Refusal) -> None:
        """The estimate was too low, and the engine has counted: it is routed by that count."""
        policy = self._board.policy
        limit = refusal.limit or record.row.window or 1
        room = answer_room(request.ask.output, policy)
        counted = refusal.prompt or (refusal.tokens or 0) - room
        request.counted = max(1, counted, limit + 1 - room)
        request.too_long_at = {**request.too_long_at, record.name: limit}
        self._booking.resent(record)

    async def _pass_on(self, request: Request, status: int, refusal: Refusal) -> str:
        # Engines put the status there as a number: that is no word that a client looks for.
        code = "" if refusal.code.isdigit() else refusal.code
        code = code or _CODES.get(refusal.kind, "server_error")
        say = without_paths(refusal.message) or f"`{request.cluster}` answered {status}"
        status = status if status >= 400 else 502  # an engine has no business to redirect anybody
        if request.commented:
            end_in_band(request, say, code, status)
            request.status = 200
        else:
            now = self._now()
            fields = decision_fields(request, (request.sent or now) - request.arrived)
            retry = COME_BACK if status == 503 else None
            request.status = await say_error(
                request.exchange, request.ask.dialect, status, code, say, fields, retry
            )
        return "refused" if status < 500 else "failed"

    def _good(self, record: Record) -> None:
        """It has answered. Where nobody waits for a cluster, that is noted when there is time."""
        observe = self._board.observe
        if len(self._admission.line):
            observe(record, Answered(200))
        else:
            self._admission.afterwards.add_late(lambda: observe(record, Answered(200)))

    def _note(self, record: Record, evidence: Evidence, kind: str, say: str) -> None:
        """An engine failed a request, by no fault of the client's."""
        record.failed += 1
        self._board.observe(record, evidence)
        self._evidence(record, kind, say)
        self._admission.wake()


_STATUSES = {
    "invalidrequesterror": 400,
    "badrequesterror": 400,
    "badrequest": 400,
    "notfounderror": 404,
    "requesttoolarge": 413,
    "ratelimiterror": 429,
    "overloadederror": 503,
}
"""Types of errors that come without a code, as Anthropic's dialect has them."""


def status_of(error: StreamError) -> int:
    """The status that an error inside a stream would have had: 4xx where the client made it."""
    if error.code.isdigit() and 400 <= int(error.code) < 600:
        return int(error.code)
    kind = error.kind.lower().replace("_", "").replace(" ", "")
    return _STATUSES.get(kind, 500)
