"""The clusters as the rules see them, and what the rules can decide."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rigctl.core.ids import GroupName, Mono
from rigctl.core.reading import NOT_YET, Reading

_ADMITTING = frozenset({"up", "busy", "slowed", "suspect"})


class Standing(Enum):
    """How a cluster stands with new work."""

    UP = "up"
    BUSY = "busy"
    """A prompt is being read: answers wait, and it is well."""
    SLOWED = "slowed"
    SUSPECT = "suspect"
    """Something is wrong and not proven: no new session goes there while another can take it."""
    DOWN = "down"
    STARTING = "starting"
    DRAINING = "draining"
    """Nothing new goes there; it ends."""
    LENT = "lent"
    OFF = "off"

    def __init__(self, word: str) -> None:
        self.admits = word in _ADMITTING
        """Whether new work may be sent there at all."""

    # Asked for every request: Enum's own hash is a Python function.
    __hash__ = object.__hash__


class Cluster(NamedTuple):
    """One engine at this moment: its limits, its load by the proxy's own count, its standing."""

    name: GroupName
    standing: Standing
    say: str = ""
    """Why it stands so: `lent to “training”`, `no answer on 127.0.0.1:30001`."""
    eta: Reading = NOT_YET
    """Seconds until it is ready, while it starts."""
    window: int = 0
    """Tokens of prompt and answer together; 0: not told yet."""
    pool: int = 0
    """Tokens its KV pool holds; one request can never be longer. 0: not told yet."""
    slots: int = 1
    in_flight: int = 0
    """Answers of ours under way there, one a choice. Gauges lag; this does not."""
    held_tokens: int = 0
    """Context tokens of those requests, as estimated: what the pool must hold at once."""
    prefill_left: Reading = NOT_YET
    """Prompt tokens still to be read there, by the engine's word or our own sum."""
    prefill_rate: Reading = NOT_YET
    """Prompt tokens a second, measured on this cluster and no other."""
    answer_seconds: Reading = NOT_YET
    """What an answer took lately, from slot taken to slot free."""
    run: str = ""
    """Names this start of the engine: another one has an empty cache."""
    untried: bool = False
    """The machine slept since it was last seen well: nothing is sent until a look passes (C91)."""

    @property
    def admits(self) -> bool:
        """Whether anything may be sent there now."""
        return self.standing.admits and not self.untried

    @property
    def limit(self) -> int:
        """The most tokens one request may have; 0 where nothing is known."""
        if self.window > 0 and self.pool > 0:
            return min(self.window, self.pool)
        return max(self.window, self.pool, 0)

    @property
    def free_slots(self) -> int:
        return max(0, self.slots - self.in_flight)


@dataclass(frozen=True, slots=True)
class RoutePolicy:
    """The owner's choices, from `[proxy]` in rig.toml; times in seconds, sizes in tokens."""

    order: tuple[GroupName, ...] = ()
    """Preference for a new session: the unstretched cluster first, as the file lists them."""
    reserve_slots: int = 1
    """Slots of every cluster but the first that overflow leaves free for what only fits there."""
    reserve_share: float = 0.5
    """Share 0..1 of such a cluster's pool that overflow may not fill."""
    picture_tokens: int = 1_300
    """A picture counts so, whatever its bytes (C30)."""
    default_output: int = 4_096
    """Tokens of answer counted where the client names none."""
    bytes_per_token: float = 3.0
    """Until this rig has learnt its own: low, so that estimates are high."""
    near: float = 0.15
    """Within this share of a limit the engine's own /tokenize is asked."""
    prefill_prior: float = 1_000.0
    """Prompt tokens a second assumed of a cluster that has not been measured; said as assumed."""
    answer_prior: float = 20.0
    """Seconds of an answer assumed likewise."""
    queue_limit: int = 64
    hold: float = 120.0
    """How long a request waits for a cluster that starts, or for a slot after all are lost."""
    off_answer: int = 503
    """What a too-long request gets while only a cluster that is off could take it: 503, or 400 so
    that agents compact (C28)."""
    session_rule: str = "chain"
    """`chain`, or `opening`: the first 4,000 characters alone."""
    home_ttl: float = 6 * 3600.0
    """A session that was silent for so long has no home any more."""


class Estimate(NamedTuple):
    """How long a prompt is, as far as is known."""

    low: int
    high: int
    """Certainly not more: bytes, or the engine's own count."""
    likely: int
    how: str
    """`bytes`, `learnt`, `counted`, `ids`."""


class Why(NamedTuple):
    """The explanation that goes with every decision, into headers, log and panel."""

    rule: str
    """A stable word: `length`, `home`, `free`, `overflow`, `queue`, `only`, `retry`, `too-long`,
    `off`, `starting`, `full`, `moved`, `side`, `pinned`, `crashed`, `body`."""
    say: str
    """One sentence with its figures."""
    source: str = ""
    """Which session source matched: `chain`, `turns`, `opening`, a header's name; empty: new."""
    tokens: int = 0
    """Estimated tokens of the prompt."""
    how: str = ""
    """How that estimate was made."""


@dataclass(frozen=True, slots=True)
class Send:
    to: GroupName
    why: Why


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can take it now; it is asked again when something changes."""

    on: tuple[GroupName, ...]
    expected: float
    """Seconds, by what is known; the shortest of `on`."""
    until: Mono | None
    """When patience ends (a cluster that starts); None: as long as the queue allows."""
    why: Why
    claims: tuple[GroupName, ...] = ()
    """Those of `on` whose next room is its own: nobody behind it is sent there before."""


@dataclass(frozen=True, slots=True)
class Count:
    """Too near a limit to guess: ask this cluster's /tokenize, then route again."""

    at: GroupName
    why: Why


@dataclass(frozen=True, slots=True)
class Refuse:
    status: int
    code: str
    """`context_length_exceeded`, `cluster_off`, `queue_full`, `no_cluster` …"""
    retry_after: int | None
    """Whole seconds from 1 to 60, never a date (C41). None: trying again does not help, and with a
    5xx the client is told so (`x-should-retry: false`)."""
    why: Why
    limit: int = 0
    """Tokens that work now, for a request that is too long; 0: not about length."""
    needed: int = 0
    """Tokens of prompt and answer it would take, as far as is known."""


Decision = Send | Wait | Count | Refuse
