"""What the shell must do: imperative, complete, carried out in the order given."""

from __future__ import annotations

from dataclasses import dataclass, field

from rigctl.core.ids import CardId, GroupName, OperationId, ProcessIdentity
from rigctl.core.link_words import ToProxy


@dataclass(frozen=True, slots=True)
class SpawnEngine:
    group: GroupName
    token: str
    """Goes into the child's environment, written to disk first: a daemon that dies between spawn
    and record finds its child again by it."""


@dataclass(frozen=True, slots=True)
class SignalMain:
    """The engine's main process alone."""

    group: GroupName
    process: ProcessIdentity
    number: int


@dataclass(frozen=True, slots=True)
class SignalWhole:
    """Every re-identified member of the engine's session."""

    group: GroupName
    process: ProcessIdentity
    number: int


@dataclass(frozen=True, slots=True)
class AbortAnswers:
    """`/abort_request {"abort_all": true}` on the engine."""

    group: GroupName


@dataclass(frozen=True, slots=True)
class EndWorker:
    """End what `rigctl lend --kill` itself started."""

    group: GroupName
    process: ProcessIdentity


@dataclass(frozen=True, slots=True)
class LookNow:
    """Look at this group's processes, engine and cards at once: somebody waits for the answer."""

    group: GroupName


@dataclass(frozen=True, slots=True)
class LimitPower:
    operation: OperationId
    card: CardId
    watts: float


@dataclass(frozen=True, slots=True)
class PauseNvml:
    operation: OperationId
    seconds: float


@dataclass(frozen=True, slots=True)
class WriteJournal:
    group: str
    kind: str
    say: str
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TellPerson:
    """The owner's `on_event` command and a desktop notification."""

    event: str
    """crashed, failed, card-lost, overdue."""
    group: str
    say: str


@dataclass(frozen=True, slots=True)
class NoteOverride:
    """A key was changed from panel or command line; it goes to the overrides file."""

    group: GroupName
    sleep_on_idle: bool
    by: str


@dataclass(frozen=True, slots=True)
class SpawnEndpoint:
    """Open the address where it is not open yet, and start a proxy on it."""

    token: str


@dataclass(frozen=True, slots=True)
class SignalEndpoint:
    """One proxy's process: SIGTERM lets it finish what it has."""

    process: ProcessIdentity
    number: int


@dataclass(frozen=True, slots=True)
class CloseAddress:
    """Nobody is to serve there: who connects is refused instead of left waiting."""


@dataclass(frozen=True, slots=True)
class TellEndpoint:
    """A word to one proxy over its link; lost where it has none."""

    pid: int
    message: ToProxy


@dataclass(frozen=True, slots=True)
class AbortOrphans:
    """End what a dead proxy had sent to this engine, by the beginning of its request ids."""

    group: GroupName
    prefix: str


@dataclass(frozen=True, slots=True)
class EndDaemon: ...


Order = (
    SpawnEngine
    | SignalMain
    | SignalWhole
    | AbortAnswers
    | EndWorker
    | LookNow
    | LimitPower
    | PauseNvml
    | WriteJournal
    | TellPerson
    | NoteOverride
    | SpawnEndpoint
    | SignalEndpoint
    | CloseAddress
    | TellEndpoint
    | AbortOrphans
    | EndDaemon
)
