"""Requests under way: one record each, from arrival to the last byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from rigctl.adapters.http1 import Exchange
from rigctl.core.ask import Ask
from rigctl.core.clusters import Estimate, Why
from rigctl.core.home import Found, Home
from rigctl.core.ids import GroupName, Mono
from rigctl.parse.opened import Opened

if TYPE_CHECKING:
    from rigctl.proxy.attempt import Attempt


class Request:
    """What is known of one request. Plain fields: it is read by rows, metrics and the log.

    Those with a value here are given one of their own when there is something to say.
    """

    client_id = ""
    """The X-Request-ID that the client gave; echoed."""
    body = b""
    """Decompressed, as the client sent it; kept until the end, to be sent anew if need be."""
    opened: Opened | None = None
    """The body decoded, until it is first sent."""
    query = ""
    state = "queued"
    estimate: Estimate | None = None
    counted: int | None = None
    """Tokens of the prompt by an engine's own count."""
    countable = True
    """False where no engine could count it."""
    found: Found | None = None
    """Its session as it was before, by the last decision."""
    home: Home | None = None
    cluster: GroupName | None = None
    why: Why | None = None
    sent: Mono | None = None
    first_byte: Mono | None = None
    tried: frozenset[GroupName] = frozenset()
    too_long_at: Mapping[GroupName, int] = MappingProxyType({})
    """Clusters that called it too long themselves, with the limit they named."""
    poisonous = False
    """It was alone in prefill when its server crashed."""
    resent = 0
    notes: tuple[str, ...] = ()
    """What was changed of the client's body."""
    commented = False
    """A keep-alive comment went out: the status is fixed at 200."""
    tokens_held = 0
    status = 0
    flags: frozenset[str] = frozenset()
    attempt: Attempt | None = None
    doubtful = False
    """Lost on a kept connection before a byte: the engine may or may not have begun it."""
    ended_by = ""
    """What its client is told where a person ended it before a byte."""
    gone = False
    """Its client has left, or a person ended it."""

    def __init__(self, identity: str, client: str, exchange: Exchange, ask: Ask, now: Mono) -> None:
        self.id = identity
        """24 signs, always: an abort names its request by a prefix."""
        self.client = client
        self.exchange = exchange
        self.ask = ask
        self.arrived = self.since = self.last_comment = now
        """`since` is of `state`."""

    def flag(self, name: str) -> None:
        """Something about it that people should see."""
        self.flags |= {name}

    @property
    def label(self) -> str:
        """The session's short name: also of one that waits, where the session is known."""
        if self.home is not None:
            return self.home.label
        return "" if self.found is None else self.found.label

    def enter(self, state: str, now: Mono) -> None:
        """Begin a state."""
        if state != self.state:
            self.state, self.since = state, now


class Live:
    """All of them, by id."""

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch
        self._number = 0
        self._requests: dict[str, Request] = {}
        self.bodies = 0
        """Bytes of request bodies held."""

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(tuple(self._requests.values()))

    def find(self, identity: str) -> Request | None:
        """By the whole id, or by a beginning that only one has."""
        exact = self._requests.get(identity)
        if exact is not None or len(identity) < 6:
            return exact
        found = [each for key, each in self._requests.items() if key.startswith(identity)]
        return found[0] if len(found) == 1 else None

    def new_id(self) -> str:
        """`rig-<epoch>-<number>`: of one length, so that none is a prefix of another."""
        self._number += 1
        return f"rig-{self._epoch}-{self._number:08x}"

    def add(self, request: Request) -> None:
        """Take one in."""
        self._requests[request.id] = request

    def remove(self, request: Request) -> None:
        """It has ended."""
        self._requests.pop(request.id, None)

    def on(self, cluster: GroupName) -> list[Request]:
        """Those that were sent to a cluster and have not ended."""
        return [each for each in self._requests.values() if each.cluster == cluster]
