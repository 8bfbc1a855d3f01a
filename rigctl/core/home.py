"""A session's home: the cluster that has its prefix cached, and what is remembered of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rigctl.core.ask import Digest
from rigctl.core.ids import GroupName, Mono
from rigctl.core.lengths import Learnt
from rigctl.core.reading import NOT_YET, Reading

MOST_DIGESTS = 64
"""Digests kept of one session's chain, and as many of its turns."""
_FIRST = 4
_LAST = 24
MOST_TIPS = 8
"""Ends of asks kept of one session, with the tokens up to there."""


class Home(NamedTuple):
    """Where a session's prefix lies, as of its last turn."""

    label: str
    """Eight hex signs, the same for every turn of one conversation."""
    cluster: GroupName
    run: str
    """The engine start that has the cache; another one has none of it."""
    tokens: int
    """Of its context: as estimated when it was sent, as counted by the engine since."""
    since: Mono
    seen: Mono
    turns: int = 1
    cached: Reading = NOT_YET
    """Prompt tokens that came from the cache in the last answered turn."""
    cold: str = ""
    """Why its cache is known to be gone; empty: as far as known it is there."""


class Found(NamedTuple):
    """What is known of the session that a request belongs to."""

    home: Home | None = None
    source: str = ""
    """`chain`, `turns`, `opening`, or the name of the header that narrowed it; empty: new."""
    branch: bool = False
    """It only shares a beginning with `home`'s session: it goes there, and is one of its own."""
    tokens: int = 0
    """Tokens of its prefix that lie on `home`'s cluster, as far as known."""
    newer: int = 0
    """Context tokens that other sessions brought to that cluster since: with them beyond its
    pool, the least recently used prefix is gone."""
    learnt: float | None = None
    """Bytes per token of this session."""
    pinned: tuple[GroupName, str] | None = None
    """Cluster and run that gave the response which this one continues (C48)."""
    match: Match | None = None
    """For `Homes.claim`, so that the session is not looked for twice."""

    @property
    def label(self) -> str:
        """The session's label where it is known already; empty for a new one or a branch."""
        return "" if self.home is None or self.branch else self.home.label


class Match(NamedTuple):
    """A session that a request belongs to or branches off."""

    session: Session
    source: str
    place: int
    """Of the last digest in common, in the session's chain."""
    own: bool
    """It is the session's own turn; else it only branches off it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that has left a cluster for good: its engine may forget it."""

    label: str
    cluster: GroupName
    run: str


@dataclass(slots=True)
class Session:
    """One session in the index."""

    home: Home
    key: str = ""
    """The explicit id it came with, hashed; empty: none."""
    opening: Digest = b""
    chain: dict[Digest, int] = field(default_factory=dict)
    """Digest to its place in the chain."""
    turns: dict[Digest, int] = field(default_factory=dict)
    end: int = 0
    """Place of the longest ask's last digest in `chain`."""
    turns_end: int = -1
    tips: list[tuple[int, int]] = field(default_factory=list)
    """(place in the chain, tokens) where asks ended, newest last."""
    learnt: Learnt = Learnt()
    running: int = 0
    """Its requests under way."""

    def shared_tokens(self, place: int) -> int:
        """Tokens of the prefix up to that place: known where an ask ended, else by share."""
        if place >= self.end:
            return self.home.tokens
        known = [tokens for at, tokens in self.tips if at <= place]
        if any(at == place for at, _ in self.tips):
            return max(known)
        # Between two ends by share, and halved: the head weighs more than what follows.
        return max([self.home.tokens * place // max(1, self.end) // 2, *known])


def kept(count: int) -> list[int]:
    """Which places of a chain of that length are remembered: the first few, the last two dozen,
    and between them one in so many, at places that stay the same while the chain grows."""
    stride = 1
    while count > stride * (MOST_DIGESTS - _FIRST - _LAST):
        stride *= 2
    return [
        place
        for place in range(count)
        if place < _FIRST or place >= count - _LAST or place % stride == 0
    ]
