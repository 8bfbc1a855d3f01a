"""What has happened, in the past tense. The only way anything reaches `RigState`."""

from __future__ import annotations

from dataclasses import dataclass, field

from rigctl.core.cards import GpuSweep
from rigctl.core.commands import Command
from rigctl.core.energy import Moment
from rigctl.core.engine_sample import EngineSample
from rigctl.core.ids import CardId, GroupName, OperationId, ProcessIdentity
from rigctl.core.link_words import Hello, ToDaemon
from rigctl.core.log_facts import LogFact
from rigctl.core.reading import NOT_YET, Reading
from rigctl.core.snapshot import HostView
from rigctl.core.spec import EndpointSpec, GroupSpec, RigSpec


@dataclass(frozen=True, slots=True)
class CommandAsked:
    operation: OperationId
    command: Command
    by: str
    """The asking user's name."""
    holder: ProcessIdentity | None = None
    """`holder_pid` or `pid` of the command, identified by the shell."""


@dataclass(frozen=True, slots=True)
class CardsSampled:
    sweep: GpuSweep
    moment: Moment
    """When it was, by the clocks that energy is booked with."""


@dataclass(frozen=True, slots=True)
class EngineSampled:
    sample: EngineSample


@dataclass(frozen=True, slots=True)
class EngineCounted:
    """While it drains: what runs and waits by `/v1/loads`, which costs the engine little."""

    group: GroupName
    in_flight: Reading


@dataclass(frozen=True, slots=True)
class EngineSilent:
    """A poll was not answered."""

    group: GroupName
    why: str


@dataclass(frozen=True, slots=True)
class LogRead:
    """New lines of an engine's log, parsed."""

    group: GroupName
    facts: tuple[LogFact, ...]
    grew: int
    """Bytes the log grew by: progress, even where no line was understood (C62)."""
    old: bool = False
    """Read again on adoption: what it says was told by an earlier daemon."""


@dataclass(frozen=True, slots=True)
class EngineSpawned:
    group: GroupName
    process: ProcessIdentity
    command: tuple[str, ...]
    """As started, secrets masked."""
    changes: tuple[str, ...]
    """How it differs from the last start, one line each."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables set on top of the daemon's own, secrets masked."""


@dataclass(frozen=True, slots=True)
class EngineSpawnFailed:
    group: GroupName
    why: str
    final: bool


@dataclass(frozen=True, slots=True)
class EngineReady:
    """`/ready` said yes."""

    group: GroupName
    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class EngineExited:
    group: GroupName
    process: ProcessIdentity
    code: int | None
    """None for an adopted engine: only its parent learns the code."""
    tail: tuple[str, ...]
    """The last lines of its log, redacted."""


@dataclass(frozen=True, slots=True)
class EngineWatched:
    """The engine's processes, looked at once a second."""

    group: GroupName
    process: ProcessIdentity
    pids: tuple[int, ...]
    """Living members of its session."""
    titles: tuple[str, ...]
    """Their process titles, as `sglang::scheduler_TP0`."""
    cpu_cores: Reading = NOT_YET
    """Cores used by all of them together."""
    scheduler_cpu: Reading = NOT_YET
    """Share of a core used by the busiest scheduler."""
    memory: Reading = NOT_YET
    """Bytes resident, all of them."""
    cpu_seconds: Reading = NOT_YET
    """CPU time of all living members since each started."""


@dataclass(frozen=True, slots=True)
class ForeignEngineSeen:
    """A server we did not start answers on the group's port; `pid` None: it has gone."""

    group: GroupName
    pid: int | None
    command: tuple[str, ...] = ()
    """Its command line, secrets masked."""
    sleep_on_idle: bool = False


@dataclass(frozen=True, slots=True)
class HolderGone:
    """The `rigctl lend` process or its command has ended."""

    group: GroupName
    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class PowerLimitSet:
    """The driver's answer for one card; `error` empty when it took the limit."""

    operation: OperationId
    card: CardId
    watts: float
    error: str


@dataclass(frozen=True, slots=True)
class GroupFound:
    """What the owner's file means on the cards that are there now."""

    group: GroupName
    cards: tuple[CardId, ...]
    missing: tuple[str, ...]
    """Why a start could not have all its cards, one sentence each; empty when it could."""
    command: tuple[str, ...]
    """The command line a start would use, secrets masked."""
    differs: tuple[str, ...]
    """What the running command line has otherwise, one line each."""
    spec: GroupSpec | None = None
    """All the file says of it now."""


@dataclass(frozen=True, slots=True)
class RigRead:
    """The owner's file was read again: its `[rig]` as it is now."""

    spec: RigSpec


@dataclass(frozen=True, slots=True)
class HostSampled:
    host: HostView


@dataclass(frozen=True, slots=True)
class Resumed:
    """The machine slept: CLOCK_BOOTTIME ran ahead of CLOCK_MONOTONIC by this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TroubleSeen:
    """A fault of the shell's own (full disk, unreadable state); an empty `say` ends it."""

    id: str
    say: str
    level: str = "warning"


@dataclass(frozen=True, slots=True)
class NvmlReleased:
    operation: OperationId
    over: bool
    """False: handles are closed now; True: the pause has ended."""


@dataclass(frozen=True, slots=True)
class DaemonBegan:
    """The shell is complete: engines that still live are adopted, the cards were looked at."""

    first: bool
    """No daemon ever ran on this home."""
    fresh: tuple[GroupName, ...] = ()
    """Groups that no earlier daemon knew."""


@dataclass(frozen=True, slots=True)
class EndpointRead:
    """`[proxy]` and `clients.toml` as they are now; None: there is no `[proxy]`."""

    spec: EndpointSpec | None


@dataclass(frozen=True, slots=True)
class EndpointSpawned:
    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class EndpointSpawnFailed:
    why: str
    final: bool


@dataclass(frozen=True, slots=True)
class EndpointExited:
    process: ProcessIdentity
    code: int | None
    """None for an adopted one: only its parent learns the code."""
    tail: str
    """The last line of its log, redacted."""


@dataclass(frozen=True, slots=True)
class EndpointLinked:
    """A proxy of ours said hello."""

    pid: int
    hello: Hello


@dataclass(frozen=True, slots=True)
class EndpointUnlinked:
    pid: int


@dataclass(frozen=True, slots=True)
class EndpointRefused:
    """A proxy of ours speaks another link protocol; `say` names the older and the cure."""

    pid: int
    say: str


@dataclass(frozen=True, slots=True)
class EndpointSaid:
    pid: int
    message: ToDaemon


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed; nothing else happened."""


EndpointFact = (
    EndpointRead
    | EndpointSpawned
    | EndpointSpawnFailed
    | EndpointExited
    | EndpointLinked
    | EndpointUnlinked
    | EndpointRefused
    | EndpointSaid
)

Fact = (
    CommandAsked
    | CardsSampled
    | EngineSampled
    | EngineCounted
    | EngineSilent
    | LogRead
    | EngineSpawned
    | EngineSpawnFailed
    | EngineReady
    | EngineExited
    | EngineWatched
    | ForeignEngineSeen
    | HolderGone
    | PowerLimitSet
    | GroupFound
    | RigRead
    | HostSampled
    | Resumed
    | TroubleSeen
    | NvmlReleased
    | DaemonBegan
    | EndpointFact
    | Ticked
)
