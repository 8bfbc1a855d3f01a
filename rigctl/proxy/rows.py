"""What runs here as rows for daemon and panel: who waits, who reads, who is stalled behind whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rigctl.core.answer import Doing
from rigctl.core.clusters import Standing
from rigctl.core.flow import MOST_SESSIONS, ClusterRow, FlowRows, SessionRow
from rigctl.core.home import Home
from rigctl.core.homes import Homes
from rigctl.core.ids import GroupName, Mono
from rigctl.core.line import Line
from rigctl.core.reading import NOT_YET, Missing, Reading, known
from rigctl.proxy.accounts import Accounts
from rigctl.proxy.board import Board, Record
from rigctl.proxy.live import Live, Request
from rigctl.proxy.loops import Loops

STALLED = 2.0
"""Seconds of silence of an answer, while a prompt is read beside it, that are a stall."""
HEAVY = 0.25
"""Share of the largest unread prompt from which another one may be what holds up answers."""
RESTING = 30 * 60.0
"""Seconds for which a session that was here is still shown."""


class Paces:
    """Events a second of each answer, from the difference between two looks."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[Mono, int, Reading]] = {}

    def rate(self, request: Request, progress: int, now: Mono) -> Reading:
        """Events of content a second since the last look."""
        at, seen, rate = self._before.get(request.id, (now, progress, NOT_YET))
        if now - at >= 0.5:
            rate = (progress - seen) / (now - at)
            self._before[request.id] = (now, progress, rate)
        elif request.id not in self._before:
            self._before[request.id] = (now, progress, NOT_YET)
        return rate

    def forget(self, alive: Iterable[str]) -> None:
        """Those that have ended."""
        kept = set(alive)
        for identity in [each for each in self._before if each not in kept]:
            del self._before[identity]


class Rows:
    """Makes `FlowRows`; keeps nothing but paces and the stalls it has counted."""

    def __init__(
        self,
        board: Board,
        live: Live,
        homes: Callable[[], Homes],
        line: Callable[[], Line],
        accounts: Accounts,
        totals: Callable[[], dict[str, float]],
        connections: Callable[[], int],
        stalled: Callable[[GroupName, float], None],
        owner: Callable[[str], str],
        flagged: Callable[[str], frozenset[str]],
    ) -> None:
        """`stalled` hears, by cluster, of seconds that answers stood still since the last look.
        `owner`: the client of a session that was here, empty where that is not known.
        `flagged`: what its last answer is flagged for."""
        self._board = board
        self._live = live
        self._homes = homes
        self._line = line
        self._accounts = accounts
        self._totals = totals
        self._connections = connections
        self._stalled = stalled
        self._owner = owner
        self._flagged = flagged
        self._paces = Paces()
        self._loops = Loops()
        self._at: Mono | None = None

    def make(self, now: Mono) -> FlowRows:
        """Everything as of now."""
        requests = [each for each in self._live if each.ask.endpoint.generates]
        culprits = {record.name: self._culprit(record, requests) for record in self._board}
        places = {each.request: each.say for each in self._line().places(now)}
        rows: list[SessionRow] = []
        behind: dict[GroupName, list[str]] = {}
        for request in sorted(requests, key=lambda each: (each.cluster is None, each.arrived)):
            row = self._row(request, culprits, places, now)
            if row.state == "stalled" and request.cluster is not None:
                behind.setdefault(request.cluster, []).append(row.session or row.request)
            rows.append(row)
        busy = {request.label for request in requests}
        homes = self._homes()
        resting = [
            home for home in homes.all() if home.label not in busy and now - home.seen <= RESTING
        ]
        room = max(0, MOST_SESSIONS - len(rows))
        more = max(0, len(rows) + len(resting) - MOST_SESSIONS)
        rows += [self._resting(home, now) for home in resting[:room]]
        waiting = [each for each in requests if each.cluster is None]
        self._count_stalls(behind, now)
        self._paces.forget(each.id for each in requests)
        self._loops.forget(each.id for each in requests)
        return FlowRows(
            at=now,
            sessions=tuple(rows[:MOST_SESSIONS]),
            more_sessions=more,
            clients=self._accounts.rows(self._board.table.clients),
            clusters=tuple(
                self._cluster(record, homes, culprits, behind, now) for record in self._board
            ),
            queued=len(waiting),
            oldest_wait=max((now - each.arrived for each in waiting), default=0.0),
            connections=self._connections(),
            off=self._off(),
            totals=dict(self._totals()),
        )

    # ---- one request ---------------------------------------------------------------------

    def _row(
        self,
        request: Request,
        culprits: dict[GroupName, Request | None],
        places: dict[str, str],
        now: Mono,
    ) -> SessionRow:
        attempt = request.attempt
        reader = None if attempt is None else attempt.reader
        progress = 0 if reader is None else reader.progress
        culprit = None if request.cluster is None else culprits.get(request.cluster)
        state, since, behind = request.state, request.since, ""
        say = self._waiting(request, places)
        if attempt is not None and attempt.begun and reader is not None:
            state = "thinking" if reader.doing is Doing.THINKING else "answering"
            request.enter(state, now)
            since = request.since
            silent = now - attempt.last
            if silent >= STALLED and culprit is not None and culprit is not request:
                behind = culprit.label or culprit.id
                state, since = "stalled", Mono(attempt.last)
                say = f"stalled {silent:.0f} s behind {behind}"
        elif request.cluster is not None and culprit is not None and culprit is not request:
            behind = culprit.label or culprit.id
            say = f"waits behind {behind}"
        prompt = request.estimate.likely if request.estimate is not None else 0
        record = self._board.get(request.cluster)
        each = 1.0 if record is None else known(record.event_tokens, 1.0)
        context: Reading = float(prompt + round(progress * each)) if prompt else NOT_YET
        rate = NOT_YET if reader is None else self._paces.rate(request, progress, now)
        home = request.home
        flags = request.flags | {"repeats"} if self._loops.look(request, now) else request.flags
        first = request.first_byte
        until = request.sent if request.sent is not None else now
        return SessionRow(
            request=request.id,
            session=request.label,
            client=request.client,
            cluster=request.cluster or "",
            state=state,
            seconds=max(0.0, now - since),
            say=say,
            behind=behind,
            context=context,
            cached=NOT_YET if home is None else home.cached,
            produced=round(progress * each),
            rate=rate if isinstance(rate, Missing) else rate * each,
            waited=until - request.arrived,
            first_byte=NOT_YET if first is None else first - request.arrived,
            pool_share=self._share(request.cluster, context),
            rule="" if request.why is None else request.why.rule,
            turn=1 if home is None else home.turns,
            flags=tuple(sorted(flags)),
            endpoint=request.ask.endpoint.value,
        )

    @staticmethod
    def _waiting(request: Request, places: dict[str, str]) -> str:
        if request.cluster is not None or request.id not in places:
            return ""
        why = "" if request.why is None else f": {request.why.say}"
        return places[request.id] + why

    def _resting(self, home: Home, now: Mono) -> SessionRow:
        return SessionRow(
            request="",
            session=home.label,
            client=self._owner(home.label),
            cluster=home.cluster,
            state="resting",
            seconds=max(0.0, now - home.seen),
            say=home.cold,
            context=float(home.tokens),
            cached=home.cached,
            pool_share=self._share(home.cluster, float(home.tokens)),
            turn=home.turns,
            flags=tuple(sorted(self._flagged(home.label))),
        )

    def _share(self, cluster: GroupName | None, tokens: Reading) -> Reading:
        record = self._board.get(cluster)
        if record is None or not record.row.pool or not isinstance(tokens, float):
            return NOT_YET
        return tokens / record.row.pool

    # ---- one cluster ---------------------------------------------------------------------

    def _culprit(self, record: Record, requests: list[Request]) -> Request | None:
        """The request whose prompt is being read there, and holds up the others: the oldest
        without a byte, but none that is small beside another one."""
        unread = record.unread
        least = max(unread.values(), default=0) * HEAVY
        heavy = [each for each in requests if unread.get(each.id, -1) >= least]
        if not heavy:
            return None
        return min(heavy, key=lambda each: each.sent if each.sent is not None else each.arrived)

    def _cluster(
        self,
        record: Record,
        homes: Homes,
        culprits: dict[GroupName, Request | None],
        behind: dict[GroupName, list[str]],
        now: Mono,
    ) -> ClusterRow:
        word, since, say = self._board.standing(record)
        stalled = tuple(behind.get(record.name, ()))
        culprit = culprits.get(record.name)
        gate = self._board.gate(record, 0)
        return ClusterRow(
            cluster=record.name,
            standing=word.value,
            seconds=0.0 if since is None else max(0.0, now - since),
            say=say,
            gate=gate.gate,
            in_flight=record.in_flight,
            slots=record.slots,
            waiting=self._line().waits_for(record.name),
            homes=homes.count(record.name),
            sent=record.sent,
            overflow=record.overflow,
            failed=record.failed,
            resent=record.resent,
            culprit="" if culprit is None or not stalled else culprit.label or culprit.id,
            waiting_behind=stalled,
        )

    def _count_stalls(self, behind: dict[GroupName, list[str]], now: Mono) -> None:
        if self._at is not None:
            for cluster, stalled in behind.items():
                self._stalled(cluster, (now - self._at) * len(stalled))
        self._at = now

    def _off(self) -> tuple[str, ...]:
        """What an engine's endpoint cannot do here, said once."""
        found: list[str] = []
        served = False
        for record in self._board:
            word, _, _ = self._board.standing(record)
            if word in (Standing.OFF, Standing.LENT, Standing.STARTING):
                continue
            served = True
            name = record.name
            if record.upstream.no_abort:
                found.append(
                    f"{name}: a request whose client leaves is ended by closing its connection "
                    f"alone: {record.upstream.no_abort}; `admin_key` of its group in rig.toml must "
                    "be the engine's --admin-api-key"
                )
            if not record.header_rid:
                found.append(
                    f"{name}: a /v1/messages request whose client leaves is ended by closing its "
                    "connection alone: SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1 is not set"
                )
            if not record.row.session_radix:
                found.append(
                    f"{name}: sessions are not told apart in its cache: it runs without "
                    "--enable-session-radix-cache"
                )
            if not record.row.strict_thinking:
                found.append(
                    f"{name}: clients' thinking budgets have no effect: it runs without "
                    "--enable-strict-thinking"
                )
        if served:
            found.append(
                "/v1/messages: session ids and thinking budgets are not passed on, nor "
                "thinking budgets on /v1/responses: this engine takes none there"
            )
        return tuple(found)
