"""The one value the daemon's loop owns. Whoever else reads it, reads a copy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rigctl.core.cards import GpuSweep
from rigctl.core.chunks import ChunkCosts
from rigctl.core.endpoint_states import Absent, Keeper, Serving, serving
from rigctl.core.endpoint_states import deadline_of as endpoint_due
from rigctl.core.energy import EnergyBook
from rigctl.core.engine_sample import EngineSample
from rigctl.core.engine_states import Engine, Off, deadline_of, process_of
from rigctl.core.facts import EngineWatched, ForeignEngineSeen
from rigctl.core.flow import FlowRows
from rigctl.core.heat import Heat, Verdict
from rigctl.core.ids import GroupName, Mono, OperationId, ProcessIdentity, Wall
from rigctl.core.lease import Lease
from rigctl.core.link_words import GateState
from rigctl.core.operations import Operation
from rigctl.core.pace import PollingCost
from rigctl.core.phases import Start
from rigctl.core.pstates import PstateTimes
from rigctl.core.snapshot import HostView
from rigctl.core.spec import EndpointSpec, GroupSpec, RigSpec
from rigctl.core.watch_state import Watch


@dataclass(frozen=True, slots=True)
class GroupState:
    spec: GroupSpec
    engine: Engine
    wanted: bool = False
    sleep_on_idle: bool = False
    """Wanted now: the file's value, or the override's."""
    lease: Lease | None = None
    token: str = ""
    """In the environment of the engine and its children; made new for each spawn."""
    adopted: bool = False
    command: tuple[str, ...] = ()
    """The running command line, secrets masked."""
    last_command: tuple[str, ...] = ()
    """The command line of the last start, kept when it has ended: the next one is compared."""
    last_env: dict[str, str] = field(default_factory=dict)
    running_sleep: bool | None = None
    """Whether the running command line sleeps on idle; None when nothing runs."""
    differs: tuple[str, ...] = ()
    startup: Start | None = None
    usual: dict[str, float] = field(default_factory=dict)
    """Seconds by phase of the last good start."""
    watch: Watch | None = None
    costs: ChunkCosts | None = None
    """What prefill chunks cost on this group's cards; kept over its engines' lives."""
    sample: EngineSample | None = None
    watched: EngineWatched | None = None
    mine: tuple[int, ...] = ()
    """Every pid seen in this engine's session, also those gone: NVML lists them a while longer."""
    foreign: ForeignEngineSeen | None = None
    last_exit: str = ""
    fault: str = ""
    """What its log named when it last died by itself; empty where another hand ended it."""
    remedy: str = ""
    """What to do about `last_exit`, by its cause: the next command."""
    crashes: int = 0
    heat: Heat = Heat()
    verdict: Verdict | None = None
    """Idle but hot, while that holds."""
    faults_told: tuple[tuple[str, Mono], ...] = ()
    """Fault lines of its log that were journalled lately, and when."""
    drains: int = 0
    """How often it drained: the number that the endpoint's gate answers with."""
    lost_card: str = ""
    """Why this group cannot work until a reboot: a card fell off the bus while it ran (C11)."""

    @property
    def process(self) -> ProcessIdentity | None:
        """The engine's main process, where one is followed."""
        return process_of(self.engine.state)

    @property
    def pids(self) -> tuple[int, ...]:
        """Every living pid of our engine as last seen."""
        if self.watched is None or self.process is None:
            return ()
        return self.watched.pids if self.watched.process == self.process else ()


UNREADABLE = "state-unreadable"
"""The trouble of a state file that could not be read; it stands until a person confirms."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A standing fault of the shell or the host, shown until it is over."""

    id: str
    say: str
    level: str


@dataclass(frozen=True, slots=True)
class ToldEvidence:
    """What the endpoint's requests met at an engine, conflated to a line a minute."""

    group: GroupName
    kind: str
    told: Mono
    """When the journal had it last."""
    more: int = 0
    """How often it came since."""


@dataclass(frozen=True, slots=True)
class EndpointState:
    """The proxy: whether it is wanted, its process, and its traffic as it last told of it."""

    spec: EndpointSpec | None = None
    keeper: Keeper = Keeper(Absent(Mono(0.0), ""))
    token: str = ""
    """In the environment of the newest proxy; made new for each spawn."""
    epochs: tuple[tuple[int, str], ...] = ()
    """Pid and epoch of each proxy that said hello and may live: its request ids begin with it."""
    address: str = ""
    gates: tuple[GateState, ...] = ()
    """Of the serving proxy, since it was linked."""
    flow: FlowRows | None = None
    flow_at: Mono = Mono(0.0)
    evidence: tuple[ToldEvidence, ...] = ()
    crashes: int = 0
    last_exit: str = ""
    mismatch: str = ""
    """The other link protocol in words; empty while both speak the same."""

    @property
    def serving(self) -> Serving | None:
        """Who takes clients in now."""
        return serving(self.keeper.phase)

    @property
    def linked(self) -> bool:
        """Whether the serving proxy hears us and tells us."""
        current = self.serving
        return current is not None and current.linked

    def gate(self, group: str) -> GateState | None:
        """The serving proxy's gate to a group, as it is."""
        for each in self.gates:
            if each.group == group:
                return each
        return None


@dataclass(frozen=True, slots=True)
class RigState:
    spec: RigSpec
    groups: tuple[GroupState, ...]
    epoch: str
    next_operation: OperationId = OperationId(1)
    operations: tuple[Operation, ...] = ()
    sweep: GpuSweep | None = None
    baselines: dict[str, float] = field(default_factory=dict)
    """Bytes a card holds when nobody uses it."""
    energy: EnergyBook = field(default_factory=EnergyBook)
    pstates: dict[str, PstateTimes] = field(default_factory=dict)
    """By card: how the day was spent."""
    polling: PollingCost = PollingCost()
    """What the idle cards draw while they are asked often, and while they are left alone (C82)."""
    host: HostView = HostView()
    troubles: tuple[Trouble, ...] = ()
    last_spawn: tuple[GroupName, Mono] | None = None
    """Which group was spawned last, and when: the others wait their stagger."""
    wall: Wall = Wall(0.0)
    """The shell's wall clock when the last fact came in: for leases and the journal only."""
    at: Mono | None = None
    """The steady clock at that moment; None before the first fact."""
    nvml_paused: str = ""
    """Set while the handles are closed on request (C89)."""
    endpoint: EndpointState = EndpointState()
    confirmed: bool = True
    """False after an unreadable state file: nothing is signalled until a person says so."""

    def group(self, name: str) -> GroupState | None:
        """The group of that name."""
        for group in self.groups:
            if group.spec.name == name:
                return group
        return None


def with_group(state: RigState, changed: GroupState) -> RigState:
    """The same rig with one group replaced."""
    groups = tuple(
        changed if each.spec.name == changed.spec.name else each for each in state.groups
    )
    return replace(state, groups=groups)


def fresh_group(spec: GroupSpec, now: Mono, why: str = "not started yet") -> GroupState:
    """A group of which nothing is known but its file."""
    return GroupState(spec, Engine(Off(now, why)), sleep_on_idle=spec.sleep_on_idle)


ABORT_SECONDS = 10.0
"""How long the endpoint may take to say what became of an abort."""


def next_wake(state: RigState, now: Mono) -> Mono | None:
    """When something changes by time alone. Timers are derived, never kept beside the state."""
    if not state.confirmed:
        return None
    due = [at for group in state.groups if (at := deadline_of(group.engine.state)) is not None]
    for group in state.groups:
        lease = group.lease
        if lease is not None and lease.until is not None and not lease.warned:
            due.append(Mono(now + max(0.0, lease.until - state.wall)))
    keeper = endpoint_due(state.endpoint.keeper)
    if keeper is not None:
        due.append(keeper)
    due += [
        Mono(each.since + ABORT_SECONDS)
        for each in state.operations
        if each.running and each.kind == "abort"
    ]
    return min(due, default=None)
