"""What an engine can be, what can happen to it, and what the shell may be told to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from rigctl.core.ids import Mono, ProcessIdentity
from rigctl.core.reading import NOT_YET, Reading

# ---- what follows a stop -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThenOff:
    why: str


@dataclass(frozen=True, slots=True)
class ThenStart:
    """A start was asked for while the stop was under way."""

    why: str


@dataclass(frozen=True, slots=True)
class ThenCrash:
    """The engine left by itself: back off or give up once its remains are gone."""

    why: str
    final: bool
    """A fault that a restart cannot mend: bad flag, lost card, driver mismatch."""


After = ThenOff | ThenStart | ThenCrash

# ---- states: each carries exactly the facts that are true in it ----------------------


@dataclass(frozen=True, slots=True)
class Off:
    since: Mono
    why: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A start that waits for its turn (stagger) or for NVML to say its cards are free."""

    since: Mono
    on: str = ""


@dataclass(frozen=True, slots=True)
class Spawning:
    """The spawn is ordered and has not answered. No second one until it has."""

    since: Mono
    abort: After | None = None


@dataclass(frozen=True, slots=True)
class Loading:
    since: Mono
    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class Ready:
    since: Mono
    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class Draining:
    since: Mono
    deadline: Mono
    process: ProcessIdentity
    then: After
    in_flight: Reading = NOT_YET
    quiet: int = 0
    """Polls in a row that saw nothing in flight: two end the drain, one can be a gap (C72)."""
    proxied: Reading = 0.0
    """Answers the endpoint still has there, by its closed gate; Missing until it has answered.
    0 also where there is no endpoint, or none that is linked: then the polls alone decide."""
    ready_since: Mono | None = None
    """When it began to serve: a cancelled drain has not ended that."""


class Stage(Enum):
    """How far an end has come."""

    TERM = "asked to leave"
    KILL = "killed"
    CLEAR = "main process gone, its session not empty"
    RELEASE = "processes gone, cards not free yet"


@dataclass(frozen=True, slots=True)
class Stopping:
    since: Mono
    next_at: Mono
    """When this stage's patience ends."""
    process: ProcessIdentity
    stage: Stage
    then: After
    leftovers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BackingOff:
    since: Mono
    retry_at: Mono
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    since: Mono
    why: str


State = Off | Waiting | Spawning | Loading | Ready | Draining | Stopping | BackingOff | Failed

# ---- events in -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartAsked:
    why: str = "asked"


@dataclass(frozen=True, slots=True)
class StopAsked:
    why: str
    drain: float
    """Seconds that running answers may take; 0 ends the waiting, also one already under way."""
    restart: bool = False


@dataclass(frozen=True, slots=True)
class StopCancelled:
    """The reason for the stop is gone (a reclaim): keep the engine, or bring it back."""

    why: str = "reclaimed"


@dataclass(frozen=True, slots=True)
class GateSeen:
    """Whether this group may start now, judged by the owner of cards and order of starts."""

    clear: bool
    say: str


@dataclass(frozen=True, slots=True)
class Spawned:
    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    why: str
    final: bool = True


@dataclass(frozen=True, slots=True)
class ReadySeen: ...


@dataclass(frozen=True, slots=True)
class InFlight:
    count: Reading


@dataclass(frozen=True, slots=True)
class Proxied:
    """What the endpoint says of a drain; see Draining.proxied."""

    count: Reading


@dataclass(frozen=True, slots=True)
class Exited:
    """The main process is gone."""

    process: ProcessIdentity
    why: str
    """In words, with the engine's own: `exit 137: out of memory …`."""
    final: bool


@dataclass(frozen=True, slots=True)
class MembersSeen:
    """The living pids of the engine's session."""

    process: ProcessIdentity
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CardsSeen:
    """Whether NVML still shows memory of this group's engine on its cards."""

    clear: bool


@dataclass(frozen=True, slots=True)
class Stuck:
    """The start makes no progress of any kind (C61)."""

    why: str


@dataclass(frozen=True, slots=True)
class Hopeless:
    """A start cannot succeed before a person has mended something: a card is lost."""

    why: str


@dataclass(frozen=True, slots=True)
class Tick: ...


Event = (
    StartAsked
    | StopAsked
    | StopCancelled
    | GateSeen
    | Spawned
    | SpawnFailed
    | ReadySeen
    | InFlight
    | Proxied
    | Exited
    | MembersSeen
    | CardsSeen
    | Stuck
    | Hopeless
    | Tick
)

# ---- orders out ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spawn: ...


@dataclass(frozen=True, slots=True)
class SignalLeader:
    """To the main process alone: a serving engine then drains and leaves by itself."""

    process: ProcessIdentity
    number: int


@dataclass(frozen=True, slots=True)
class SignalSession:
    """To every member: a loading engine leaves two of three children behind otherwise."""

    process: ProcessIdentity
    number: int


@dataclass(frozen=True, slots=True)
class AbortRequests:
    """End what still runs on the engine, so that its own drain can finish."""


EngineOrder = Spawn | SignalLeader | SignalSession | AbortRequests

SIGTERM, SIGKILL = 15, 9


@dataclass(frozen=True, slots=True)
class Policy:
    """Patience, in seconds. The group's own file may say otherwise for `grace`."""

    grace: float = 60.0
    """SIGTERM to SIGKILL."""
    clear: float = 3.0
    """Main process gone to the whole session signalled; its children leave by themselves."""
    release: float = 60.0
    """Processes gone to `still 9.0 GiB` (C64); a driver takes seconds."""
    back_off: tuple[float, ...] = (5.0, 20.0, 60.0)
    crash_window: float = 900.0
    crash_limit: int = 3
    """Crashes within the window that end in Failed (C59)."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The state, and the crashes a person has not answered yet with a start."""

    state: State
    crashes: tuple[Mono, ...] = ()


def process_of(state: State) -> ProcessIdentity | None:
    """The process this state is about, where there is one."""
    match state:
        case Loading() | Ready() | Draining() | Stopping():
            return state.process
        case Off() | Waiting() | Spawning() | BackingOff() | Failed():
            return None
        case _:
            assert_never(state)


def deadline_of(state: State) -> Mono | None:
    """When this state changes by time alone."""
    match state:
        case Draining():
            return state.deadline
        case Stopping():
            return state.next_at
        case BackingOff():
            return state.retry_at
        case Off() | Waiting() | Spawning() | Loading() | Ready() | Failed():
            return None
        case _:
            assert_never(state)
