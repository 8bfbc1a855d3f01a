"""What the proxy's process can be, what can happen to it, and what the shell may be told to do."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.ids import Mono, ProcessIdentity

# ---- phases --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Absent:
    since: Mono
    why: str


@dataclass(frozen=True, slots=True)
class Serving:
    since: Mono
    process: ProcessIdentity
    linked: bool = False
    moved: Mono = Mono(0.0)
    """Since when it is linked, or is not."""
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class Spawning:
    """The spawn is ordered and has not answered."""

    since: Mono
    before: Serving | None = None
    """Who serves meanwhile."""
    abort: bool = False
    """It is not wanted any more: what comes of it is ended."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The process lives and has not said hello."""

    since: Mono
    process: ProcessIdentity
    until: Mono
    before: Serving | None = None


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


Phase = Absent | Spawning | Opening | Serving | BackingOff | Failed


@dataclass(frozen=True, slots=True)
class Leaver:
    """A proxy that was asked to leave and finishes what it has."""

    process: ProcessIdentity
    since: Mono
    kill_at: Mono


@dataclass(frozen=True, slots=True)
class Keeper:
    phase: Phase
    leavers: tuple[Leaver, ...] = ()
    crashes: tuple[Mono, ...] = ()
    """Ends nobody asked for, within the window."""


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds."""

    drain: float = 180.0
    """What a leaving proxy's answers may take."""
    leave: float = 15.0
    """More than that, until it is killed."""
    open: float = 30.0
    """From spawn to hello."""
    pauses: tuple[float, ...] = (0.0, 1.0, 5.0, 20.0, 60.0)
    """Before the next try: a first crash costs nobody a connection."""
    window: float = 900.0
    limit: int = 6
    """Crashes within the window that end in Failed."""


# ---- events in, orders out -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """rig.toml asks for an endpoint (read anew: what had failed gets another chance)."""


@dataclass(frozen=True, slots=True)
class Unwanted:
    why: str


@dataclass(frozen=True, slots=True)
class RestartAsked: ...


@dataclass(frozen=True, slots=True)
class Spawned:
    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    why: str
    final: bool


@dataclass(frozen=True, slots=True)
class Linked:
    """It said hello: it accepts clients."""

    pid: int


@dataclass(frozen=True, slots=True)
class Unlinked:
    pid: int


@dataclass(frozen=True, slots=True)
class Exited:
    process: ProcessIdentity
    why: str


@dataclass(frozen=True, slots=True)
class Tick: ...


Event = Wanted | Unwanted | RestartAsked | Spawned | SpawnFailed | Linked | Unlinked | Exited | Tick


@dataclass(frozen=True, slots=True)
class Spawn: ...


@dataclass(frozen=True, slots=True)
class HandOver:
    """Its successor serves: it accepts nobody any more, finishes and leaves."""

    process: ProcessIdentity
    linked: bool


@dataclass(frozen=True, slots=True)
class Terminate:
    """It drains and leaves by itself."""

    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class Kill:
    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class ReleaseSocket: ...


KeeperOrder = Spawn | HandOver | Terminate | Kill | ReleaseSocket


def serving(phase: Phase) -> Serving | None:
    """Who serves clients now, also while a successor is being started."""
    match phase:
        case Serving():
            return phase
        case Spawning() | Opening():
            return phase.before
        case _:
            return None


def followed(keeper: Keeper) -> tuple[ProcessIdentity, ...]:
    """Every process of ours that may live."""
    found = [each.process for each in keeper.leavers]
    if isinstance(keeper.phase, Opening):
        found.append(keeper.phase.process)
    current = serving(keeper.phase)
    return tuple(found) if current is None else (*found, current.process)


def deadline_of(keeper: Keeper) -> Mono | None:
    """When this changes by time alone."""
    due = [each.kill_at for each in keeper.leavers]
    match keeper.phase:
        case Opening(until=until):
            due.append(until)
        case BackingOff(retry_at=retry_at):
            due.append(retry_at)
        case _:
            pass
    return min(due, default=None)
