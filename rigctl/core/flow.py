"""What the proxy tells of its traffic: rows that travel to the daemon and into every snapshot.

No prompt text and no key is in them. Seconds are as of the moment they were made (`FlowRows.at`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rigctl.core.reading import NOT_YET, Reading

MOST_SESSIONS = 64
"""Rows in one message; those that run come before those that only have a home."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A request under way, or a session that was here lately and whose prefix is cached."""

    request: str
    """The request's id, what `abort` takes; empty while the session rests."""
    session: str
    """Short stable label, eight signs; the same for every turn of one conversation."""
    client: str
    """Whose key it came with; `-` without keys."""
    cluster: str
    """Empty while it waits for one."""
    state: str
    """queued, held, prefilling, thinking, answering, stalled, resting."""
    seconds: float
    """In this state."""
    say: str = ""
    """`place 2 of 5, about 40 s`, `stalled 41 s behind a1b2c3d4`."""
    behind: str = ""
    """The session whose prompt is being read while this one waits; empty: none."""
    context: Reading = NOT_YET
    """Tokens: prompt and answer so far."""
    cached: Reading = NOT_YET
    """Prompt tokens served from cache in the last turn."""
    produced: int = 0
    """Tokens of answer so far, by its events and what the engine puts into one."""
    rate: Reading = NOT_YET
    """Tokens a second over the last few."""
    waited: float = 0.0
    """Seconds from arrival to being sent to an engine."""
    first_byte: Reading = NOT_YET
    """Seconds from arrival to the first byte of answer."""
    pool_share: Reading = NOT_YET
    """Share 0..1 of its cluster's pool."""
    rule: str = ""
    turn: int = 1
    flags: tuple[str, ...] = ()
    """`all-thought`, `repeats`, `resent`, `moved`."""
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class ClientRow:
    """Sums of one client since the proxy's start."""

    client: str
    running: int = 0
    limit: int | None = None
    requests: int = 0
    failed: int = 0
    cancelled: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    uncounted: int = 0
    """Answers whose engine told no usage: their tokens are in no sum (C46)."""


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One cluster by the proxy's own count and judgement."""

    cluster: str
    standing: str
    """core.clusters.Standing in words."""
    seconds: float = 0.0
    say: str = ""
    """The evidence."""
    gate: str = "open"
    """open, finish, closed: as the proxy has it."""
    in_flight: int = 0
    slots: int = 0
    waiting: int = 0
    """Queued requests whose next place is here."""
    homes: int = 0
    """Sessions whose home it is."""
    sent: int = 0
    overflow: int = 0
    """Of those, sent here because the first choice was full."""
    failed: int = 0
    resent: int = 0
    """Requests it lost before a byte and that another attempt answered."""
    culprit: str = ""
    """The session whose prompt is being read now and makes others wait; empty: none."""
    waiting_behind: tuple[str, ...] = ()
    """The sessions that wait for it."""


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """One decision, for `rigctl route explain`."""

    seq: int
    wall: float
    request: str
    session: str
    client: str
    endpoint: str
    cluster: str
    """Empty where it was refused."""
    rule: str
    say: str
    source: str
    tokens: int
    how: str
    waited: float
    status: int
    """What the client got; 0 while it runs."""


@dataclass(frozen=True, slots=True)
class FlowRows:
    """The proxy's whole view, once a second while a client looks or work runs."""

    at: float
    """CLOCK_MONOTONIC of this host."""
    sessions: tuple[SessionRow, ...] = ()
    more_sessions: int = 0
    """Left out of `sessions`."""
    clients: tuple[ClientRow, ...] = ()
    clusters: tuple[ClusterRow, ...] = ()
    queued: int = 0
    oldest_wait: float = 0.0
    connections: int = 0
    off: tuple[str, ...] = ()
    """What an engine's endpoint cannot do here and is therefore off, one sentence each."""
    totals: dict[str, float] = field(default_factory=dict)
    """Sums since its start by name: requests, failed, cancelled, resent, refused …"""
