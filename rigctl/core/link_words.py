"""The words between daemon and proxy. Whole values, dated, with the sender's epoch.

The daemon owns what is wanted and what is so of the engines; the proxy owns gates as they are,
requests in flight, homes and its log. Each side holds dated copies of the other's. Everything is
level-triggered: a `Table` is complete, so that one lost message, or a restart of either side,
leaves nothing half told.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rigctl.core.flow import FlowRows, RouteRecord
from rigctl.core.ids import GroupName, Mono
from rigctl.core.reading import NOT_YET, Reading

LINK_PROTOCOL = 1


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where an engine's API key is read from; the key itself is in no message and no table."""

    source: str = ""
    """`file`, `env`, or empty without one."""
    where: str = ""


@dataclass(frozen=True, slots=True)
class TableGroup:
    """One engine: where it is, how it is, and whether it may get new work."""

    name: GroupName
    host: str
    port: int
    model: str
    """The name it serves."""
    state: str
    """As in GroupView: off, starting, ready, draining, stopping, backing_off, failed."""
    say: str = ""
    """Why, fit for a client's error: names the lease's holder, the phase of a start, the crash."""
    lent: bool = False
    gate: str = "closed"
    """`open`: may be sent to; `finish`: nothing new, what runs may finish until `deadline`;
    `closed`: there is nothing to send to."""
    drain: int = 0
    """Numbers the drains of this group: the answer to a `finish` carries it back."""
    deadline: Mono | None = None
    eta: Reading = NOT_YET
    """Seconds until ready, as of `Table.at`."""
    run: str = ""
    """The engine's start token: another one means an empty cache and new connections."""
    window: int = 0
    pool: int = 0
    slots: int = 0
    """0: not told yet."""
    key: KeySource = KeySource()
    admin_key: KeySource = KeySource()
    session_radix: bool = False
    """It runs with --enable-session-radix-cache: requests carry a `session_id`."""
    strict_thinking: bool = False
    """It honours custom_params.thinking_budget."""
    think_budget: int | None = None
    """The owner's cap on thinking, in tokens."""
    header_rid: bool = False
    """It was started with SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1."""
    fault: str = ""
    """What its log said when it last died by itself; empty where it was ended from outside. A
    prompt may have caused the one, never the other."""


@dataclass(frozen=True, slots=True)
class TableClient:
    """One client's key as its hash, and its limit."""

    name: str
    key_hash: str
    """Hex SHA-256. Keys are random, so no salt is needed."""
    running: int | None = None


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """`[proxy]` of rig.toml as the proxy needs it; see config.schema.ProxyConfig for each."""

    model: str = ""
    reported_window: str = ""
    order: tuple[GroupName, ...] = ()
    reserve_slots: int = 1
    reserve_share: float = 0.5
    queue_limit: int = 64
    hold: float = 120.0
    off_answer: int = 503
    session_rule: str = "chain"
    normalize_prompt: bool = False
    picture_tokens: int = 1_300
    default_output: int = 4_096
    keep_alive: float = 10.0
    first_keep_alive: float = 5.0
    body_limit: int = 64 * 1024 * 1024
    memory_limit: int = 1024 * 1024 * 1024
    priorities: bool = False
    drain: float = 180.0


@dataclass(frozen=True, slots=True)
class Table:
    """Daemon to proxy: everything it routes by. Sent on connection and on every change."""

    epoch: str
    """The daemon's; new with every daemon start."""
    seq: int
    at: Mono
    groups: tuple[TableGroup, ...]
    policy: TablePolicy
    clients: tuple[TableClient, ...] = ()
    watched: bool = True
    """Somebody looks at the rig: `Flow` is wanted once a second."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Daemon to proxy, once a second while work runs: what the engine itself tells of it."""

    group: GroupName
    doing: str
    """Flow.state of the snapshot: idle, decoding, prefilling, stalled, slowed, hung, broken."""
    tokens_left: Reading = NOT_YET
    eta: Reading = NOT_YET
    prefill_rate: Reading = NOT_YET
    """Prompt tokens a second, from counter differences."""
    moved: Reading = NOT_YET
    """Seconds since a counter moved."""


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """Daemon to proxy: a person ends one request."""

    request: str


@dataclass(frozen=True, slots=True)
class HandOver:
    """Daemon to proxy: stop accepting, finish what runs, leave; a successor has the socket."""


@dataclass(frozen=True, slots=True)
class GiveSocket:
    """Daemon to proxy: a daemon that did not start it wants copies of its listening sockets."""

    path: str
    """Where they are awaited: a Unix socket, see control.hand_socket."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Proxy to daemon, first on each connection: sent only once it accepts clients."""

    protocol: int
    rigctl: str
    pid: int
    epoch: str
    """The proxy's; new with every proxy start."""
    address: str
    """`127.0.0.1:8000, [::1]:8000`, for people."""
    table: tuple[str, int] = ("", 0)
    """Epoch and number of the table it works by."""


@dataclass(frozen=True, slots=True)
class GateState:
    """Proxy to daemon, on every change of any field: the gate as it is."""

    group: GroupName
    drain: int
    """Of the `finish` it answers; 0 while open."""
    gate: str
    in_flight: int
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """Proxy to daemon, about once a second while watched or while work runs, and when it ends."""

    rows: FlowRows


@dataclass(frozen=True, slots=True)
class Routes:
    """Proxy to daemon: decisions since the last such message, newest last."""

    records: tuple[RouteRecord, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Proxy to daemon: an engine failed a request in a way that is not the client's doing."""

    group: GroupName
    kind: str
    """refused, reset, silent, error."""
    say: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """Proxy to daemon: how an AbortRequest ended."""

    request: str
    found: bool
    say: str = ""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Proxy to daemon: it drains and will end."""

    in_flight: int
    figures: dict[str, float] = field(default_factory=dict)


ToProxy = Table | Progress | AbortRequest | HandOver | GiveSocket
ToDaemon = Hello | GateState | Flow | Routes | Evidence | Aborted | Leaving
