"""Finds a request its place: asks the rules, lets it wait its turn, holds the slot it was given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from rigctl.core.clusters import Cluster, Count, Decision, Refuse, Send, Wait, Why
from rigctl.core.homes import Homes
from rigctl.core.ids import GroupName, Mono
from rigctl.core.lengths import Learnt, estimate, held
from rigctl.core.line import Line
from rigctl.core.link_words import Progress
from rigctl.core.routing import route
from rigctl.proxy.accounts import Accounts
from rigctl.proxy.afterwards import Afterwards
from rigctl.proxy.board import Board, Record
from rigctl.proxy.live import Live, Request

OWN_LINE_RETRY = 10
"""Seconds after which a client whose own line is full may ask again."""
NO_LIMIT = 1 << 31
UNHEARD = 2.0
"""Seconds for which the daemon's word on an engine may be from before a request came to it."""


def _capped(cluster: Cluster, said: Mapping[GroupName, int]) -> Cluster:
    """A cluster that has called this request too long has the limit that it named."""
    limit = said.get(cluster.name)
    if limit is None:
        return cluster
    return cluster._replace(window=min(cluster.window or limit, limit))


class Admission:
    """The only place where slots are taken and given back."""

    def __init__(
        self,
        board: Board,
        homes: Homes,
        live: Live,
        accounts: Accounts,
        now: Callable[[], Mono],
        changed: Callable[[Record], None],
    ) -> None:
        """`changed`: a cluster's in-flight count, or those who wait for it, is another one."""
        self.homes = homes
        self.learnt = Learnt()
        self.line = Line()
        self._board = board
        self._live = live
        self._accounts = accounts
        self._now = now
        self._changed = changed
        self._turns: dict[str, asyncio.Future[Send | Refuse]] = {}
        self.afterwards = Afterwards()
        """What no byte waits for."""

    async def place(self, request: Request) -> Send | Refuse | None:
        """Where it goes, its slot taken; or why nowhere. None: its client has left meanwhile."""
        decision = self._decide(request)
        if isinstance(decision, Count):
            await self._count(request, decision)
            if request.gone:
                return None
            decision = self._decide(request)
        if isinstance(decision, Send | Wait) and self._limited(request):
            decision = self._over_limit(request, decision)
        if isinstance(decision, Wait):
            if request.gone:
                return None  # while its last try was judged: nobody would take it off the line
            return await self._wait(request, decision)
        if isinstance(decision, Send):
            self._take(request, decision)
            return decision
        assert isinstance(decision, Refuse)
        return decision

    def _over_limit(self, request: Request, decision: Send | Wait) -> Decision:
        """It waits for its client's own answers; its line has the length of everybody's."""
        say = f"{request.client} has as many requests under way as it may"
        waiting, most = self.line.waiting_of(request.client), self._board.policy.queue_limit
        if waiting >= most:
            say += f", and {waiting} of its own wait already"
            return Refuse(503, "queue_full", OWN_LINE_RETRY, Why("full", say))
        return decision if isinstance(decision, Wait) else Wait((), 0.0, None, Why("queue", say))

    def _limited(self, request: Request) -> bool:
        return request.ask.endpoint.generates and not self.line.may_start(request.client)

    def _decide(self, request: Request) -> Decision:
        self.afterwards.run()
        now, policy, board = self._now(), self._board.policy, self._board
        ask = request.ask
        if ask.previous_response:
            self.afterwards.learn()  # who gave it may be about to be told
        found = self.homes.find(ask, now, policy)
        if found.home is not None and self.afterwards.learn():
            found = self.homes.find(ask, now, policy)  # its last answer has told what it took
        request.found = found
        clusters = board.clusters()
        if request.too_long_at:
            clusters = tuple([_capped(each, request.too_long_at) for each in clusters])
        learnt = found.learnt or self.learnt.value
        if request.sent is not None or request.id in self.line:
            policy = replace(policy, queue_limit=NO_LIMIT)  # it was let in: only newcomers are not
        guess = estimate(ask.size, learnt, policy, request.counted)
        request.estimate = guess
        return route(
            ask,
            guess,
            clusters,
            found,
            policy,
            now,
            waited=now - request.arrived,
            tried=request.tried,
            queue=self.line.ahead(request.id),
            claimed=self.line.claimed(request.id),
            alone_in_prefill=request.poisonous,
            countable=request.countable,
        )

    async def _count(self, request: Request, decision: Count) -> None:
        record = self._board.get(decision.at)
        if record is not None:
            request.counted = await record.upstream.count(request.ask.endpoint, request.body)
        request.countable = request.counted is not None

    # ---- waiting -------------------------------------------------------------------------

    async def _wait(self, request: Request, wait: Wait) -> Send | Refuse | None:
        turn: asyncio.Future[Send | Refuse] = asyncio.get_running_loop().create_future()
        self._turns[request.id] = turn
        self.line.add(request.id, request.label, request.client, request.arrived, wait)
        self._note(request, wait)
        try:
            return await turn
        except asyncio.CancelledError:
            if request.gone:
                return None
            raise
        finally:
            self._turns.pop(request.id, None)
            self.line.leave(request.id)

    def leave(self, request: Request) -> None:
        """Its client has gone: the place in the line is free."""
        turn = self._turns.get(request.id)
        if turn is not None:
            turn.cancel()

    def limit(self, limits: Mapping[str, int | None]) -> None:
        """How many requests each client may have under way."""
        self.line.limits = limits

    def wake(self) -> None:
        """A slot, a cluster or the time has changed: ask again for those who wait, in order."""
        if not self._turns:
            return
        for identity in self.line.order():
            request = self._live.find(identity)
            turn = self._turns.get(identity)
            if request is None or turn is None or turn.done():
                continue
            decision = self._decide(request)
            if isinstance(decision, Count):
                # Counting now would hold up all behind it: the estimate has to do.
                request.countable = False
                decision = self._decide(request)
            if isinstance(decision, Send):
                self.line.leave(identity)
                self._take(request, decision)
                turn.set_result(decision)
            elif isinstance(decision, Refuse):
                self.line.leave(identity)
                turn.set_result(decision)
            elif isinstance(decision, Wait):
                self._note(request, decision)

    def _note(self, request: Request, wait: Wait) -> None:
        request.why = wait.why
        self.line.note(request.id, wait)
        request.enter("queued" if wait.until is None else "held", self._now())

    # ---- slots ---------------------------------------------------------------------------

    def _take(self, request: Request, send: Send) -> None:
        record = self._board.get(send.to)
        assert record is not None
        now = self._now()
        request.cluster = send.to
        request.why = send.why
        guess = request.estimate
        assert guess is not None
        if request.ask.endpoint.generates:
            assert request.found is not None
            policy = self._board.policy
            request.tokens_held = held(guess, request.ask.output, policy)
            record.in_flight += 1
            record.slots_taken += request.ask.choices
            record.held_tokens += request.tokens_held
            home = request.found.home
            if home is not None and not request.found.branch and home.cluster != send.to:
                request.flag("moved")
            cached = request.found.tokens if home is not None and home.cluster == send.to else 0
            record.unread[request.id] = max(0, guess.likely - cached)
            self._accounts.of(request.client).running += 1
            request.home = self.homes.claim(
                request.ask, request.found, send.to, record.row.run, now, guess.likely
            )
            self.line.started(request.label, request.client)
            self.afterwards.add(partial(self._note_taken, request, record, guess.likely))
        record.sent += 1
        record.overflow += send.why.rule == "overflow"

    def _note_taken(self, request: Request, record: Record, tokens: int) -> None:
        """What only the next decision, or the daemon, looks at."""
        if request.home is not None:
            self.homes.record(request.home, request.ask, tokens)
        self._changed(record)

    def first_byte(self, request: Request, record: Record) -> None:
        """Its prompt has been read."""
        record.unread.pop(request.id, None)

    def heard(self, progress: Progress) -> None:
        """The daemon tells of an engine that only decodes: all it was given has been read.

        Of an answer that is not streamed nothing else tells it before its end.
        """
        record = self._board.get(progress.group)
        if record is None or progress.doing != "decoding":
            return
        late = self._now() - UNHEARD
        for request in self._live.on(record.name) if record.unread else ():
            if not request.ask.stream and request.sent is not None and request.sent < late:
                record.unread.pop(request.id, None)

    def release(self, request: Request, record: Record) -> None:
        """Its slot is free again."""
        record.in_flight -= 1
        record.slots_taken -= request.ask.choices
        record.held_tokens -= request.tokens_held
        record.unread.pop(request.id, None)
        self._accounts.of(request.client).running -= 1
        self.line.ended(request.label, request.client)
        if request.home is not None:
            self.homes.ended(request.home)
        if self._turns:
            self._changed(record)
            self.wake()
        else:
            self.afterwards.add_late(partial(self._changed, record))
