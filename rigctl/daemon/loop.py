"""The one writer: takes facts in order, keeps the state, has the orders carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from rigctl.core.commands import Answer, Command
from rigctl.core.durable import lasting, remember
from rigctl.core.facts import CommandAsked, Fact, Ticked
from rigctl.core.ids import Mono, ProcessIdentity
from rigctl.core.orders import Order
from rigctl.core.reduce import reduce
from rigctl.core.state import RigState, next_wake
from rigctl.ports import Clock

SOON = 0.06
"""Seconds between a change and its snapshot: facts that come together are shown together."""


class Loop:
    """Owns `RigState`. Everyone else reads `state` and posts facts; nobody else writes."""

    def __init__(
        self,
        state: RigState,
        clock: Clock,
        save: Callable[[dict[str, Any]], None],
        carry_out: Callable[[Order], None],
        publish: Callable[[RigState], None],
        route: Callable[[RigState, Fact], None] = lambda _state, _fact: None,
    ) -> None:
        """`save` writes the durable part and never raises; `carry_out` starts what an order asks
        and returns at once; `publish` makes and spreads a snapshot; `route` lets the endpoint know,
        before an order is carried out: nothing more is sent to an engine that is asked to leave."""
        self.state = state
        self._clock = clock
        self._save = save
        self._carry_out = carry_out
        self._publish = publish
        self._route = route
        self._facts: asyncio.Queue[tuple[Fact, asyncio.Future[Answer] | None]] = asyncio.Queue()
        self.kept: dict[str, Any] = {}
        """What was last written."""
        self._key: object = None
        self._dirty_since: Mono | None = None
        self._published = Mono(0.0)
        self.ended = asyncio.Event()

    def post(self, fact: Fact) -> None:
        """Something happened. Called in the loop's own thread only."""
        self._facts.put_nowait((fact, None))

    async def ask(self, command: Command, by: str, holder: ProcessIdentity | None) -> Answer:
        """Put a command to the state and wait for its answer."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        fact = CommandAsked(self.state.next_operation, command, by, holder)
        self._facts.put_nowait((fact, answer))
        return await answer

    async def run(self) -> None:
        """Until `ended` is set."""
        while not self.ended.is_set():
            fact, answer = await self._next()
            if isinstance(fact, CommandAsked):
                # Numbered when its turn comes: two may have been asked before either was taken.
                fact = CommandAsked(self.state.next_operation, fact.command, fact.by, fact.holder)
            self.take(fact, answer)

    def take(self, fact: Fact, answer: asyncio.Future[Answer] | None = None) -> None:
        """One fact, all the way: state, disk, orders, snapshot."""
        now = self._clock.now()
        reduced = reduce(self.state, fact, now, self._clock.wall())
        changed = reduced.state is not self.state
        self.state = reduced.state
        self._remember(now)
        if changed:
            self._route(self.state, fact)
        self._do(reduced.orders)
        if answer is not None and reduced.answer is not None and not answer.done():
            answer.set_result(reduced.answer)
        if (changed and not isinstance(fact, Ticked)) or reduced.orders:
            self._dirty_since = self._dirty_since or now
        if self._dirty_since is not None and now - self._dirty_since >= SOON:
            self._show(now)

    def _do(self, orders: Iterable[Order]) -> None:
        for order in orders:
            self._carry_out(order)

    def _show(self, now: Mono) -> None:
        self._dirty_since = None
        self._published = now
        self._publish(self.state)

    def _remember(self, now: Mono) -> None:
        """Written before an order is carried out, and only where something lasting changed."""
        key = lasting(self.state)
        if key != self._key:
            self._key = key
            self.kept = remember(self.state, now)
            self._save(self.kept)

    async def _next(self) -> tuple[Fact, asyncio.Future[Answer] | None]:
        try:
            async with asyncio.timeout(self._patience()):
                return await self._facts.get()
        except TimeoutError:
            return Ticked(), None

    def _patience(self) -> float | None:
        """Seconds until something is due by time alone; None when nothing is."""
        now = self._clock.now()
        due = [at - now for at in (next_wake(self.state, now),) if at is not None]
        if self._dirty_since is not None:
            due.append(self._dirty_since + SOON - now)
        return max(0.0, min(due)) if due else None
