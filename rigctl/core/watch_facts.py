"""What watching an engine can find out, and the patience with which it is judged."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """All times in seconds. None of them is a property of a particular rig."""

    flat: float = 2.0
    """A decode counter that has not moved for so long is flat."""
    stall_least: float = 10.0
    """A gap of one chunk between answers' tokens is normal; a shorter one is never a stall."""
    stall_chunks: float = 1.5
    """… nor one shorter than so many chunks."""
    slowed_share: float = 0.25
    """Decode per answer under this share of its median is slowed."""
    slowed_chunks: int = 2
    """So many chunks in a row must agree before it is said."""
    hung_chunks: float = 3.0
    """Silence of every counter for so many predicted chunks is a hang."""
    hung_least: float = 15.0
    """… but never a shorter one: kernels are compiled and collectors run."""
    chunk_prior: float = 30.0
    """A chunk's length until this engine has been measured: generous, since busy is not dead."""
    measured_after: int = 3
    """Measurements that there must be before they are believed."""
    measure_least: float = 5.0
    """Chunks in a row make one measurement once they took so long: polls blur shorter ones."""
    unseen_work: float = 300.0
    """An open request that the scheduler does not know may be a client that reads slowly: only
    after so long is it taken for work that hangs."""
    rate_window: float = 5.0
    """Rates are differences over so long."""
    hit_window: float = 300.0
    """The cache hit rate is one over so long."""
    silent_after: float = 5.0
    """Polls unanswered for so long make every figure stale."""
    medians_of: int = 61
    """Undisturbed samples whose median is the normal decode rate of one answer."""
    median_least: int = 5
    """Fewer than this tell no normal."""


@dataclass(frozen=True, slots=True)
class StallBegan:
    """Answers wait while a prompt is read."""

    since: float
    """When their last token came, on the monotonic clock."""
    waiting: float
    """How many answers wait."""
    tokens_left: float | None
    """Prompt tokens still to be read, where the engine tells."""


@dataclass(frozen=True, slots=True)
class StallEnded:
    seconds: float
    """From the last token before to the first one after."""
    tokens: float
    """Prompt tokens read meanwhile."""
    waited: float
    """The most answers that waited at once."""
    why: str = "decode goes on"
    """`decode goes on`, `the answers ended`, `the engine hangs`, `the engine is broken`, …"""


@dataclass(frozen=True, slots=True)
class SlowedBegan:
    """Answers go on, but at a fraction of their usual pace, while a prompt is read."""

    per_answer: float
    """Tokens a second for each answer now."""
    usual: float


@dataclass(frozen=True, slots=True)
class SlowedEnded:
    seconds: float


@dataclass(frozen=True, slots=True)
class HungSeen:
    """There is work, and nothing has moved for far longer than the next chunk should take."""

    silent: float
    expected: float
    """Seconds after which a chunk should have ended."""


@dataclass(frozen=True, slots=True)
class BrokenSeen:
    """Processes without which the engine cannot answer are gone."""

    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recovered:
    """A hung or broken engine works again."""

    was: str
    seconds: float


WatchFact = StallBegan | StallEnded | SlowedBegan | SlowedEnded | HungSeen | BrokenSeen | Recovered
