"""What doctor looks at: one small value a topic, gathered by the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What `rigctl` means in this shell."""

    found: str
    """The first `rigctl` on PATH, or empty."""
    is_ours: bool
    alias: str
    """The first `gpurig` on PATH, or empty."""


@dataclass(frozen=True, slots=True)
class SocketFacts:
    """The state folder and the daemon's socket in it."""

    path: str
    answer: str
    """`answers`, `nobody` (no daemon), `denied`, or what else went wrong, in words."""
    folder_mode: int | None = None
    """Permission bits of the state folder; None where it does not exist."""
    folder_is_ours: bool = True
    socket_mode: int | None = None
    read_only: bool = False
    """Whether the daemon lets us look only."""
    ours: str = ""
    """Our version."""
    theirs: str = ""
    """The daemon's."""


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """rig.toml as it was read."""

    path: str
    exists: bool
    faults: tuple[str, ...] = ()
    by_index: tuple[str, ...] = ()
    """Groups that name cards by number."""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """One card, as far as a check needs it."""

    index: int
    short: str
    pci: str
    name: str
    lost: str = ""
    persistence: float | None = None
    """1 on, 0 off, None where it cannot be told."""


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """The two halves of the driver, and what NVML says when it does not work."""

    module: str
    """The loaded kernel module's version, or empty."""
    library: str
    """The installed library's version, or empty."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class NoticeFacts:
    """A notice of the running daemon."""

    id: str
    level: str
    say: str


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """Room where state and logs go, in bytes."""

    path: str
    free: float
    total: float


@dataclass(frozen=True, slots=True)
class LoginFacts:
    """What keeps the daemon over logout and reboot."""

    user: str
    systemd: bool
    """Whether this machine was booted with systemd."""
    linger: bool
    kills_at_logout: bool
    """KillUserProcesses of logind."""
    unit: str = ""
    """The unit file where there is one."""
    wanted_by: str = ""
    """Its [Install] target."""
    enabled: bool = False


@dataclass(frozen=True, slots=True)
class ServedEngine:
    """One engine behind the endpoint: which of the things that the endpoint uses it was given."""

    group: str
    session_cache: bool
    """--enable-session-radix-cache."""
    cache_report: bool
    """--enable-cache-report."""
    header_rid: bool
    """SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1."""
    strict_thinking: bool
    """--enable-strict-thinking."""
    think_budget: int | None
    """The owner's cap, in tokens."""
    configured_slots: int | None
    """max_running_requests of rig.toml."""
    slots: int | None
    """What the endpoint counts by; None where it does not tell."""


@dataclass(frozen=True, slots=True)
class EndpointFacts:
    """`[proxy]` of rig.toml, who listens on its port, and whose keys it takes."""

    host: str
    port: int
    loopback: bool
    """Whether only this machine reaches the host."""
    state: str
    """Of the daemon's snapshot; empty where none answers."""
    say: str = ""
    listening: str = ""
    """Who listens on the port: `ours`, a program's name with its pid, `a process of another user`;
    empty when nobody does."""
    clients: int = 0
    clients_fault: str = ""
    """Why clients.toml cannot be used, with its cure."""
    engines: tuple[ServedEngine, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the checks look at; None where it could not be gathered."""

    program: ProgramFacts
    socket: SocketFacts
    config: ConfigFacts
    driver: DriverFacts
    cards: tuple[CardFacts, ...] = ()
    cuda_order: str | None = None
    """CUDA_DEVICE_ORDER of this shell."""
    simulated: bool = False
    notices: tuple[NoticeFacts, ...] = ()
    metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Group -> series that its engine was asked for and does not serve."""
    proxies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where (`this shell`, `the systemd user environment`) -> the proxy variables set there."""
    no_proxy: Mapping[str, str] = field(default_factory=dict)
    """Where -> what no_proxy says there."""
    nvml_packages: tuple[str, ...] = ()
    """Installed distributions that bring a module `pynvml`."""
    disks: tuple[DiskFacts, ...] = ()
    login: LoginFacts | None = None
    endpoint: EndpointFacts | None = None
    """None: rig.toml has no `[proxy]`, or cannot be read."""
    tmux_clipboard: str = ""
    """tmux's set-clipboard where we are inside tmux, else empty."""
