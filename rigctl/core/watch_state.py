"""What is remembered of one engine between two looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rigctl.core.chunks import ChunkCosts
from rigctl.core.engine_sample import EngineSample
from rigctl.core.rates import History
from rigctl.core.watch_facts import WatchPolicy


class Doing(Enum):
    """What an engine does with its work; the value is the word clients see."""

    UNKNOWN = "unknown"
    IDLE = "idle"
    DECODING = "decoding"
    PREFILLING = "prefilling"
    SLOWED = "slowed"
    STALLED = "stalled"
    HUNG = "hung"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time in which prompts are read, from the first one waiting to the last."""

    since: float
    last_end: float | None = None
    """When a chunk last ended in this stretch."""
    position: float | None = None
    """Where in its prompt the chunk in work begins; None while only its end will tell."""
    block: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """(position, tokens, seconds) of chunks not yet counted as a measurement."""
    done: float = 0.0
    """Tokens read in this stretch."""
    most: float = 0.0
    """The most that was ever read or waiting in it."""
    decode_at_end: float | None = None
    """The decode counter at the last chunk end."""
    slow_chunks: int = 0
    """Chunks in a row during which answers went on at a fraction of their pace."""
    per_answer: float = 0.0
    """Decode tokens a second for each answer over the last chunk."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall that has been said to begin and not yet to end."""

    since: float
    prefill: float
    """The prefill counter when it began."""
    waiting: float


@dataclass(frozen=True, slots=True)
class Watch:
    """One engine under watch. A new one for every engine start; keep `costs` of the old."""

    policy: WatchPolicy = field(default_factory=WatchPolicy)
    doing: Doing = Doing.UNKNOWN
    since: float = 0.0
    """When it began to do that."""
    sample: EngineSample | None = None
    """The last one answered."""
    decode: float | None = None
    prefill: float | None = None
    cached: float | None = None
    idle: float | None = None
    busy: float | None = None
    """Counters as last known; a poll that lacked them does not make them forgotten."""
    decode_at: float | None = None
    """When a counter of that kind last moved."""
    moved_at: float | None = None
    """When any counter last moved: the age of every figure."""
    progress_at: float = 0.0
    """When the engine last showed life of any kind, or the judging of silence began anew."""
    running_since: float | None = None
    work_since: float | None = None
    stretch: Stretch | None = None
    stall: Stall | None = None
    slowed_since: float | None = None
    missing: tuple[str, ...] = ()
    """Expected processes that are gone."""
    silent_since: float | None = None
    """Since when polls have not been answered."""
    pending: float | None = None
    """`#pending-token` of the last prefill line: stands in where `/v1/loads` cannot tell."""
    history: History = History()
    costs: ChunkCosts = ChunkCosts()


def begin(now: float, policy: WatchPolicy | None = None, costs: ChunkCosts | None = None) -> Watch:
    """A watch over an engine of which nothing has been seen; `costs` from its last life."""
    return Watch(
        policy=policy or WatchPolicy(),
        since=now,
        progress_at=now,
        costs=costs or ChunkCosts(),
    )
