"""What the proxy itself learns of a cluster, and what it remembers of it."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.clusters import Standing
from rigctl.core.ids import Mono
from rigctl.core.link_words import Progress
from rigctl.core.reading import NOT_YET, Reading


@dataclass(frozen=True, slots=True)
class Refused:
    """A connection was refused: nobody listens there."""

    say: str


@dataclass(frozen=True, slots=True)
class Reset:
    """A connection with a request on it ended without the engine's word, before a byte or after."""

    say: str


@dataclass(frozen=True, slots=True)
class Answered:
    """An engine answered a request with this status: 2xx at its good end."""

    status: int
    queue_full: bool = False
    """A 503 that says that its queue is full: back-pressure, no fault."""
    say: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A client went away; that says nothing of the engine."""


@dataclass(frozen=True, slots=True)
class BytesSeen:
    """Bytes of an answer came."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Requests of ours are there, and none of them got a byte for so long; 0 without requests."""

    seconds: float
    requests: int


@dataclass(frozen=True, slots=True)
class Looked:
    """`/v1/loads` was answered, which wakes no idle card."""

    age: Reading = NOT_YET
    """Seconds since the scheduler published what it says."""
    running: Reading = NOT_YET
    queued: Reading = NOT_YET
    waiting_tokens: Reading = NOT_YET


@dataclass(frozen=True, slots=True)
class Unanswered:
    """`/v1/loads` was not answered in its time."""

    say: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """The daemon passed on what the engine tells of its work."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class Slept:
    """The machine woke from suspend: what was known of its cards is not known any more (C91)."""


Evidence = (
    Refused | Reset | Answered | Cancelled | BytesSeen | Silent | Looked | Unanswered | Told | Slept
)


@dataclass(frozen=True, slots=True)
class StandingPolicy:
    """How patient the judging is; seconds."""

    memory: float = 60.0
    """Within it a second reset is one too many."""
    silence: float = 20.0
    """Without a byte for so long is silent, where nothing explains it."""
    chunk: float = 8.0
    """What a chunk of prompt takes at most: between two of them nothing moves."""
    chunks: float = 3.0
    """So many chunks' time without progress is suspect; three times that is down."""
    looks_suspect: int = 2
    looks_down: int = 6
    """Looks in a row without an answer, and without a byte of any stream."""
    fresh: float = 5.0
    """The daemon's word on an engine's work counts for so long."""

    @property
    def frozen(self) -> float:
        """Seconds without any progress, with work there, that nothing explains."""
        return max(self.silence, self.chunks * self.chunk)


@dataclass(frozen=True, slots=True)
class ClusterWatch:
    """What is remembered of one start of one engine."""

    run: str = ""
    verdict: Standing = Standing.UP
    """Up, Suspect or Down, by the proxy's own evidence."""
    since: Mono = Mono(0.0)
    say: str = ""
    """The evidence for it; empty while it is up."""
    frozen: bool = False
    """The verdict is for want of progress: progress lifts it, a mere answer does not (C07)."""
    untried: bool = False
    """The machine slept since it was last seen well."""
    looks_needed: int = 0
    """Good looks until it is up again."""
    resets: tuple[Mono, ...] = ()
    errors: tuple[Mono, ...] = ()
    """Times of 5xx answers since the last good one."""
    unanswered: int = 0
    """Looks in a row."""
    looked_at: Mono | None = None
    published: float | None = None
    """When the scheduler published the load last looked at."""
    waiting_tokens: float | None = None
    work_since: Mono | None = None
    """Since when it has had work without a break; None: it has none."""
    own_work: bool = False
    engine_work: bool = False
    moved_at: Mono = Mono(0.0)
    """When it last showed progress of any kind, or the judging began anew."""
    progress: Progress | None = None
    progress_at: Mono = Mono(0.0)
    busy_since: Mono | None = None


def watch(run: str, now: Mono, before: ClusterWatch | None = None) -> ClusterWatch:
    """A watch over this start of the engine: another start begins with a clean sheet."""
    if before is not None and before.run == run:
        return before
    return ClusterWatch(run=run, since=now, moved_at=now)
