"""What a client sees of the rig: frozen, complete, ready to draw. The JSON of `status --json`.

Every text in it is finished; every absent number says why. Durations are seconds at the moment
the snapshot was made (`at`), so that a client can age them without a clock in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rigctl.core.cards import CardProcess
from rigctl.core.engine_sample import TokenPool
from rigctl.core.flow import FlowRows
from rigctl.core.reading import NOT_YET, Missing, Reading, Total

SCHEMA = 1
"""Raised when a field changes meaning or goes; new fields do not raise it."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a start: `init`, `weights`, `kv pool`, `graphs`, `warm-up`."""

    name: str
    seconds: float
    """So far, or in all once done."""
    usual: Reading = NOT_YET
    """How long it took at the last good start."""
    done: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """Cards that belong to other work for now."""

    holder: str
    since: float
    """Wall time."""
    until: float | None
    """Wall time, or None for open-ended."""
    overdue: bool
    pid: int | None
    """What runs on the cards: the command of `lend`, if that is how they were lent."""
    command: str
    held_bytes: Total
    """Memory held on the lent cards now."""


@dataclass(frozen=True, slots=True)
class Slots:
    effective: Reading
    configured: Reading
    running: Reading
    queued: Reading
    active: Reading
    """Open HTTP requests, the ones being prefilled included."""
    note: str = ""
    """`capped to 6 by the mamba pool` where the two limits differ."""


@dataclass(frozen=True, slots=True)
class Rates:
    """From counter differences over the last seconds, never from the engine's own gauges (C72)."""

    decode: Reading
    """Tokens a second, all answers together."""
    prefill: Reading
    accept_length: Reading
    hit: Reading
    """Share 0..1 of prompt tokens served from cache over the last minutes."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What the engine is doing with its work."""

    state: str = "unknown"
    """idle, decoding, prefilling, stalled, slowed, hung, broken, unknown."""
    since: float = 0.0
    """Seconds in this state."""
    say: str = ""
    """One line: `3 answers wait`, `no progress for 41 s, expected a chunk after 8 s`."""
    waiting: Reading = NOT_YET
    """Answers that wait while a prompt is read."""
    tokens_left: Reading = NOT_YET
    tokens_total: Reading = NOT_YET
    eta: Reading = NOT_YET
    """Seconds until the prompt is read."""
    fresh: Reading = NOT_YET
    """Seconds since a counter last moved: figures are as fresh as the last chunk."""


@dataclass(frozen=True, slots=True)
class SleepOnIdle:
    wanted: bool
    running: bool | None
    """As the running command line has it; None when nothing runs."""
    say: str = ""
    """`on`, `off`, `on (after restart)`."""


@dataclass(frozen=True, slots=True)
class PowerView:
    watts: Total
    limit: Total
    kwh_today: Reading
    """Since midnight; `estimated` when a card lacks an energy counter (C80)."""
    cost_today: Reading
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should know, with the next step in it."""

    id: str
    """Stable: `idle-but-hot`, `nvml-silent`, `power-limits-default`, `disk-full`, `last-boot` …"""
    level: str
    """`info`, `warning`, `error`."""
    say: str
    group: str = ""
    card: str = ""


@dataclass(frozen=True, slots=True)
class GroupView:
    name: str
    cards: tuple[str, ...]
    """UUIDs, in the order the engine sees them."""
    state: str
    """off, starting, ready, draining, stopping, backing_off, failed."""
    seconds: float
    """In this state."""
    say: str
    """The state in words: `exit 137 in Capture graphs: out of memory`, `asked by anna`."""
    advice: str
    """The next command that makes sense, or empty."""
    url: str
    model: str
    window: int
    """Configured context length in tokens."""
    stretched: str
    """`YaRN 2` where the window is stretched, else empty."""
    wanted: bool
    """Whether the rig is meant to run it."""
    watched: bool
    """Found running outside rigctl: shown, not signalled, taken over at its next restart."""
    adopted: bool
    phases: tuple[Phase, ...] = ()
    start_estimate: Reading = NOT_YET
    """Seconds a start takes, from the last good one."""
    countdown: Reading = NOT_YET
    """Seconds until the drain, stop or back-off limit."""
    pid: int | None = None
    process_count: int = 0
    up_seconds: Reading = NOT_YET
    in_flight: Reading = NOT_YET
    crashes: int = 0
    """Exits nobody asked for, since the last start by a person."""
    last_exit: str = ""
    lease: Lease | None = None
    kv: TokenPool = TokenPool()
    mamba: TokenPool = TokenPool()
    window_share: Reading = NOT_YET
    """Share 0..1 of the pool that one full-window session takes; over 1 when it cannot fit."""
    slots: Slots = Slots(NOT_YET, NOT_YET, NOT_YET, NOT_YET, NOT_YET)
    rates: Rates = Rates(NOT_YET, NOT_YET, NOT_YET, NOT_YET)
    flow: Flow = Flow()
    sleep: SleepOnIdle = SleepOnIdle(False, None)
    power: PowerView = PowerView(Total(0, 0, 0), Total(0, 0, 0), NOT_YET, NOT_YET)
    scheduler_cpu: Reading = NOT_YET
    """Share of one core that the busiest scheduler process used; 1.0 is a spinning core."""
    cpu: Reading = NOT_YET
    """Cores used by the engine's whole session."""
    memory: Reading = NOT_YET
    """Bytes resident over the engine's whole session."""
    engine_version: str = ""
    command: tuple[str, ...] = ()
    """The command line rigctl would start, secrets masked."""
    differs: tuple[str, ...] = ()
    """What the running command line has otherwise, one line a difference."""
    log: str = ""
    """Path of the engine's log file."""
    sample_age: Reading = NOT_YET
    """Seconds since the last answered poll."""
    leftovers: tuple[int, ...] = ()
    """Pids of this group's own past engine that still live (C01)."""
    missing_metrics: tuple[str, ...] = ()
    """Metric names that were looked for and this engine version does not serve (C69)."""
    drain_limit: Reading = NOT_YET
    """Seconds that running answers may take to finish on stop, restart and the sleep toggle."""


@dataclass(frozen=True, slots=True)
class CardView:
    """A card with the rig's view added; the readings carry the units of `CardSample`."""

    uuid: str
    index: int
    pci: str
    name: str
    short: str
    """The first four hex digits of the UUID: the label people use."""
    group: str
    """Its group's name, or empty."""
    use: str
    """engine, lent, free, foreign, leftover, lost, unknown."""
    lost: str
    watts: Reading
    limit_watts: Reading
    wanted_limit: Reading
    default_limit_watts: Reading
    pstate: Reading
    utilisation: Reading
    memory_used: Reading
    memory_reserved: Reading
    memory_total: Reading
    celsius: Reading
    fan: Reading
    clock_mhz: Reading
    memory_clock_mhz: Reading
    throttle: tuple[str, ...] | Missing
    pcie_rx: Reading
    pcie_tx: Reading
    pcie_generation: Reading
    pcie_width: Reading
    persistence: Reading
    kwh_today: Reading
    pstate_share: dict[str, float]
    """Sampled share of today's time in each P-state, `{"P8": 0.91, "P2": 0.09}`."""
    processes: tuple[CardProcess, ...] | Missing
    age: float
    """Seconds since this card was read."""


@dataclass(frozen=True, slots=True)
class HostView:
    load: Reading = NOT_YET
    cores: int = 0
    memory_used: Reading = NOT_YET
    memory_total: Reading = NOT_YET
    disk_free: Reading = NOT_YET
    """Bytes free where the logs go."""
    disk_total: Reading = NOT_YET
    last_boot: str = ""
    """`clean`, `ended without shutdown (power cut?)`, or empty when it cannot be told."""


@dataclass(frozen=True, slots=True)
class OperationView:
    """One accepted command, kept with its outcome so that a reconnecting client learns the end."""

    id: int
    kind: str
    """start, stop, restart, free, reclaim, sleep, power-limit, leftovers, nvml-release."""
    group: str
    asked_by: str
    seconds: float
    """Since it was asked, or how long it took once ended."""
    state: str
    """running, done, partly, failed, cancelled."""
    say: str
    """What it does now, or how it ended: `4 of 4 cards free, 94.9 GiB, 7.9 s`."""
    figures: dict[str, float] = field(default_factory=dict)
    """Measured numbers by name, in base units: `total_seconds`, `engine_exit_seconds`,
    `release_seconds`, `watts_before`, `watts_after`, `scheduler_cpu_before` …"""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Something that happened, in words a person reads the next morning."""

    seq: int
    wall: float
    group: str
    kind: str
    """A stable word: started, ready, crashed, freed, lent, overdue, stall, card-lost …"""
    say: str
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndpointView:
    """The one address in front of the clusters: the proxy's process and its traffic."""

    state: str = "none"
    """none (no [proxy] in rig.toml), off, starting, up, lost (runs, its link does not),
    leaving, backing_off, failed."""
    seconds: float = 0.0
    say: str = ""
    advice: str = ""
    """The next command that makes sense, or empty."""
    url: str = ""
    model: str = ""
    pid: int | None = None
    keys: bool = False
    """Whether clients need a key."""
    age: Reading = NOT_YET
    """Seconds since the proxy last told of its traffic."""
    rows: FlowRows = FlowRows(0.0)
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    seq: int
    epoch: str
    """New with every daemon start; sequence numbers compare only inside one."""
    rigctl: str
    """The daemon's version."""
    at: float
    """CLOCK_MONOTONIC of this host when it was made."""
    wall: float
    rig: str
    """The rig's name."""
    free_means: str
    """The group that a bare `free` takes."""
    currency: str
    price_per_kwh: float
    power: PowerView
    pool: TokenPool
    """KV pool summed over the groups that run."""
    pool_total_configured: int
    groups: tuple[GroupView, ...]
    cards: tuple[CardView, ...]
    host: HostView
    operations: tuple[OperationView, ...]
    notices: tuple[Notice, ...]
    journal: tuple[JournalEntry, ...]
    """The newest entries, oldest first."""
    nvml: str
    """Empty while NVML answers; else its state in words (C16, C57, C89)."""
    driver: str
    home: str
    """The folder of state and logs."""
    simulated: bool
    read_only: bool = False
    """Whether this client may act, by its uid."""
    free_drain_limit: Reading = NOT_YET
    """Seconds that running answers may take to finish on a free."""
    endpoint: EndpointView = EndpointView()
    kind: str = "snapshot"
    schema: int = SCHEMA
