"""The waiting line: bounded, fair between clients and sessions, first come first served in one.

One rule, without a memory: a request's rank is how many requests of its own session, and then of
its own client, come before it, those under way included. Waiting buys rank: `ROUND` seconds are
worth one place. So whoever comes more than `ROUND × rank` seconds after another never overtakes
it, and each request is first after a finite number of arrivals.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rigctl.core.clusters import Wait
from rigctl.core.ids import GroupName, Mono

_NONE: frozenset[GroupName] = frozenset()
ROUND = 30.0
"""Seconds of waiting that weigh as much as one request less under way."""


@dataclass(frozen=True, slots=True)
class Place:
    """One that waits, for people."""

    request: str
    session: str
    client: str
    place: int
    """From 1."""
    of: int
    age: float
    """Seconds since it came."""
    expected: float
    """Seconds, by the last decision; 0 before there was one."""
    on: tuple[GroupName, ...]
    limited: bool
    """It waits for its own client's limit, not for a cluster."""

    @property
    def say(self) -> str:
        """`place 2 of 5, about 40 s`."""
        say = f"place {self.place} of {self.of}"
        if self.limited:
            return f"{say}, its client has as many under way as it may"
        return f"{say}, about {self.expected:,.0f} s" if self.expected >= 1 else say


@dataclass(slots=True)
class _Waiting:
    request: str
    session: str
    client: str
    since: Mono
    serial: int
    wait: Wait | None = None


class Line:
    """Who waits, in what order they are asked again."""

    def __init__(self, limits: Mapping[str, int | None] | None = None) -> None:
        self.limits: Mapping[str, int | None] = limits or {}
        """Requests that a client may have under way; None or absent: as many as it likes."""
        self._waiting: dict[str, _Waiting] = {}
        self._sessions: Counter[str] = Counter()
        self._clients: Counter[str] = Counter()
        self._serial = 0
        self._ranks: tuple[list[_Waiting], dict[str, int]] | None = None
        """The order and each one's place in it, until somebody comes or goes."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request: object) -> bool:
        return request in self._waiting

    # ---- what happens ------------------------------------------------------------------

    def add(
        self, request: str, session: str, client: str, since: Mono, wait: Wait | None = None
    ) -> None:
        """It waits from now on; `since`: when it came, which it keeps when it is queued again.
        `session` is empty for a new one. Adding one twice changes its words only."""
        known = self._waiting.get(request)
        if known is not None:
            known.wait = wait or known.wait
            return
        self._serial += 1
        self._ranks = None
        self._waiting[request] = _Waiting(
            request, session or f"new {request}", client, since, self._serial, wait
        )

    def note(self, request: str, wait: Wait) -> None:
        """What the last decision said of it."""
        entry = self._waiting.get(request)
        if entry is not None:
            entry.wait = wait

    def leave(self, request: str) -> bool:
        """It was sent, refused, or its client went. Whether it had waited."""
        if self._waiting.pop(request, None) is None:
            return False
        self._ranks = None
        return True

    def started(self, session: str, client: str) -> None:
        """One of theirs is under way, whether it had waited or not."""
        self._ranks = None
        self._clients[client] += 1
        if session:
            self._sessions[session] += 1

    def ended(self, session: str, client: str) -> None:
        """It ended, however."""
        self._ranks = None
        for counter, name in ((self._clients, client), (self._sessions, session)):
            if counter[name] > 1:
                counter[name] -= 1
            else:
                del counter[name]

    # ---- what follows ------------------------------------------------------------------

    def may_start(self, client: str) -> bool:
        """Whether the client's limit allows one more; one over it waits its turn."""
        limit = self.limits.get(client)
        return limit is None or self._clients[client] < limit

    def order(self) -> tuple[str, ...]:
        """The requests to try, the next one first; of a client no more than its limit allows.

        The hour does not matter to it: everybody ages alike.
        """
        left = {
            client: limit - self._clients[client]
            for client, limit in self.limits.items()
            if limit is not None
        }
        order: list[str] = []
        for entry in self._ranked()[0]:
            if entry.client in left:
                if left[entry.client] <= 0:
                    continue
                left[entry.client] -= 1
            order.append(entry.request)
        return tuple(order)

    def ahead(self, request: str) -> int:
        """How many are before it; for one that does not wait, all.

        Those that wait for their own client's limit hold up nobody else, and are not counted.
        """
        if not self._waiting:
            return 0
        ranked, places = self._ranked()
        before = places.get(request, len(ranked))
        if not self.limits:
            return before
        return sum(self.may_start(each.client) for each in ranked[:before])

    def waiting_of(self, client: str) -> int:
        """How many of a client's requests wait, for whatever."""
        return sum(each.client == client for each in self._waiting.values())

    def claimed(self, request: str) -> frozenset[GroupName]:
        """Clusters that one before it waits for: room there is that one's, however small this
        one is. So a large request is not kept waiting by a stream of small ones."""
        if not self._waiting:
            return _NONE
        ranked, places = self._ranked()
        before = ranked[: places.get(request, len(ranked))]
        return frozenset(
            name
            for each in before
            if each.wait is not None and self.may_start(each.client)
            for name in each.wait.claims
        )

    def place(self, request: str) -> int | None:
        """Its place from 1; None where it does not wait."""
        return self._ranked()[1][request] + 1 if request in self._waiting else None

    def places(self, now: Mono) -> tuple[Place, ...]:
        """All that wait, the next one first."""
        allowed = frozenset(self.order())
        return tuple(
            Place(
                request=entry.request,
                session="" if entry.session.startswith("new ") else entry.session,
                client=entry.client,
                place=place,
                of=len(self._waiting),
                age=max(0.0, now - entry.since),
                expected=0.0 if entry.wait is None else entry.wait.expected,
                on=() if entry.wait is None else entry.wait.on,
                limited=entry.request not in allowed,
            )
            for place, entry in enumerate(self._ranked()[0], 1)
        )

    def waits_for(self, cluster: GroupName) -> int:
        """How many may go to that cluster next."""
        return sum(
            1
            for entry in self._waiting.values()
            if entry.wait is not None and cluster in entry.wait.on
        )

    def oldest(self, now: Mono) -> float:
        """Seconds that the longest wait has lasted; 0 in an empty line."""
        return max((max(0.0, now - each.since) for each in self._waiting.values()), default=0.0)

    # ---- inside ------------------------------------------------------------------------

    def _ranked(self) -> tuple[list[_Waiting], dict[str, int]]:
        if self._ranks is not None:
            return self._ranks
        by_session: dict[str, list[_Waiting]] = defaultdict(list)
        for entry in sorted(self._waiting.values(), key=lambda each: (each.since, each.serial)):
            by_session[entry.session].append(entry)
        by_client: dict[str, list[tuple[float, Mono, int, _Waiting]]] = defaultdict(list)
        for session, entries in by_session.items():
            for rank, entry in enumerate(entries, self._sessions[session]):
                key = rank + entry.since / ROUND
                by_client[entry.client].append((key, entry.since, entry.serial, entry))
        ranked: list[tuple[float, Mono, str, int, _Waiting]] = []
        for client, keyed in by_client.items():
            keyed.sort(key=lambda each: each[:3])
            before, tie = float("-inf"), Mono(0.0)
            for rank, (_, since, _serial, entry) in enumerate(keyed, self._clients[client]):
                # Inside one client its own order stands: age overtakes in it by the session's
                # rank alone, and the client's rank counts against other clients.
                weight = rank + since / ROUND
                if weight > before:
                    before, tie = weight, since
                ranked.append((before, tie, client, rank, entry))
        ranked.sort(key=lambda each: each[:4])
        order = [each[4] for each in ranked]
        self._ranks = order, {each.request: at for at, each in enumerate(order)}
        return self._ranks
