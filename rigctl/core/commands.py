"""What a person can ask of the rig. Panel, command line and socket send exactly these."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.ids import CardId, GroupName, OperationId


@dataclass(frozen=True, slots=True)
class StartGroup:
    group: GroupName


@dataclass(frozen=True, slots=True)
class StopGroup:
    group: GroupName
    drain_seconds: float | None = None
    """How long running answers may finish; None takes the group's own limit, 0 does not wait."""
    force: bool = False
    """Also where the engine could not come back before a reboot (C16)."""


@dataclass(frozen=True, slots=True)
class RestartGroup:
    group: GroupName
    drain_seconds: float | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class FreeGroup:
    """Drain, stop, verify by NVML, mark as lent."""

    group: GroupName
    holder: str
    """Who or what the cards are for, as a person would say it."""
    for_seconds: float | None = None
    """Lease length; past it the lease is overdue and warned about, never ended by force."""
    drain_seconds: float | None = None
    holder_pid: int | None = None
    """The `rigctl lend` process: when it is gone the lease ends (ctrl+c, dead terminal)."""
    toggle: bool = False
    """Hotkey manners: a second press while draining cancels; never asks."""
    force: bool = False


@dataclass(frozen=True, slots=True)
class LendStarted:
    """`rigctl lend` tells which process it runs on the lent cards."""

    group: GroupName
    pid: int
    kill_at_end: bool = False
    """`--kill`: at the lease's end that process, and only that, may be ended."""


@dataclass(frozen=True, slots=True)
class ReclaimGroup:
    """End the lease (or cancel a free that still drains) and bring the engine back."""

    group: GroupName
    start: bool = True


@dataclass(frozen=True, slots=True)
class SetSleepOnIdle:
    group: GroupName
    on: bool
    restart: bool = True
    """The flag needs a restart; False only notes the wish for the next start."""
    force: bool = False


@dataclass(frozen=True, slots=True)
class SetPowerLimit:
    group: GroupName | None
    watts: float
    """Per card; `None` for the group means every card of the rig."""
    card: CardId | None = None


@dataclass(frozen=True, slots=True)
class EndLeftovers:
    """End exactly the recorded leftover processes of the group's own past engine (C01)."""

    group: GroupName


@dataclass(frozen=True, slots=True)
class AbortAnswer:
    """End one request at the endpoint; its client gets an error that says who did."""

    request: str
    """A SessionRow's request."""


@dataclass(frozen=True, slots=True)
class RestartEndpoint:
    """A new proxy takes the listening socket over; the old one finishes what it has, and ends."""


@dataclass(frozen=True, slots=True)
class ReleaseNvml:
    """Close every NVML handle for a while, so that a card can be reset (C89)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ConfirmState:
    """A person accepts what was rebuilt from /proc after an unreadable state file."""


@dataclass(frozen=True, slots=True)
class StopDaemon:
    """End the daemon; engines go on unless told otherwise."""

    stop_engines: bool = False


Command = (
    StartGroup
    | StopGroup
    | RestartGroup
    | FreeGroup
    | LendStarted
    | ReclaimGroup
    | SetSleepOnIdle
    | SetPowerLimit
    | EndLeftovers
    | AbortAnswer
    | RestartEndpoint
    | ReleaseNvml
    | ConfirmState
    | StopDaemon
)


@dataclass(frozen=True, slots=True)
class Accepted:
    operation: OperationId
    say: str = ""
    """What will happen, in one line."""


@dataclass(frozen=True, slots=True)
class Refused:
    say: str
    """What, why and the next command."""
    code: str = "refused"
    """A stable word: `refused`, `not-allowed`, `unknown-group`, `busy`, `needs-confirmation`."""


Answer = Accepted | Refused
