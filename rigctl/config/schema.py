"""The keys of rig.toml as typed values: what may be written, its unit and its default."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Literal

from rigctl.core.ids import CardId, GroupName

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class CardRef:
    """A card as the owner named it; found among the rig's real cards at start (C13)."""

    kind: Literal["uuid", "pci", "index"]
    value: str


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a key is read from; the key itself never enters a config value, log or snapshot."""

    source: Literal["file", "env"]
    where: str
    """Path of the file, or name of the variable."""


@dataclass(frozen=True, slots=True)
class RigConfig:
    name: str = "rig"
    free_group: GroupName = GroupName("")
    """The group that a bare `rigctl free` takes; empty takes the last one in the file."""
    price_per_kwh: float = 0.0
    currency: str = "EUR"
    on_event: tuple[str, ...] = ()
    """Command run for crashed, failed, card lost, lease overdue; facts in RIGCTL_* variables."""
    stagger: float = 10.0
    """Seconds between two engine starts, so that their load peaks do not meet (C09)."""
    free_drain: float = 180.0
    """Seconds that running answers may take to finish before a free stops the engine."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    name: GroupName
    cards: tuple[CardRef, ...]
    port: int
    model: str
    host: str = "127.0.0.1"
    served_name: str = ""
    """Empty: the model path, as SGLang does."""
    context_length: int | None = None
    max_total_tokens: int | None = None
    max_running_requests: int | None = None
    yarn_factor: float | None = None
    """Stretches the window: becomes the override JSON and the variable that allows it."""
    yarn_original: int | None = None
    """Native window; needed with `yarn_factor` unless context_length / factor is meant."""
    yarn_style: Literal["nested", "flat"] = "nested"
    """`nested`: rope in text_config.rope_parameters (Qwen3.5/3.8); `flat`: rope_scaling (Qwen3)."""
    draft_model: str = ""
    draft_tokens: int | None = None
    draft_algorithm: str = "DFLASH"
    reasoning_parser: str = ""
    tool_call_parser: str = ""
    grammar_backend: str = ""
    think_budget: int | None = None
    """Tokens an answer may think; needs a reasoning parser and the xgrammar backend."""
    sleep_on_idle: bool = False
    api_key: Secret | None = None
    admin_key: Secret | None = None
    start_with_daemon: bool = False
    stop_grace: float = 60.0
    """Seconds between SIGTERM and SIGKILL; the engine itself needs 5 to 12 to leave politely."""
    drain: float = 180.0
    """Seconds that running answers may take to finish on stop, restart and sleep."""
    power_limit: float | None = None
    """Watts per card."""
    engine: tuple[str, ...] = ("python3", "-m", "sglang.launch_server")
    """The program that takes SGLang's flags."""
    tensor_parallel: int | None = None
    """None: one rank a card."""
    card_names: Literal["index", "uuid"] = "index"
    """How cards are handed to the engine: plain numbers in PCI order, or UUIDs (C14)."""
    flags: tuple[str, ...] = ()
    """Further engine flags, passed through as written."""
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """`[proxy]`: the one address in front of the groups. Without the table there is none."""

    host: str = "127.0.0.1"
    """Anything but a loopback address needs at least one client key."""
    port: int = 8000
    model: str = ""
    """The one name that clients see; empty: the first group's served name."""
    reported_window: str = ""
    """The group whose window `/v1/models` reports; empty: the first in `order`."""
    order: tuple[GroupName, ...] = ()
    """Which group a new session prefers; empty: as the file lists them."""
    reserve_slots: int = 1
    """Slots that overflow leaves free on every group but the first."""
    reserve_share: float = 0.5
    """Share of such a group's pool that overflow may not fill."""
    queue_limit: int = 64
    """Requests that may wait; one more gets 503 with Retry-After (529 for Anthropic clients)."""
    hold: float = 120.0
    """Seconds a request waits for a group that starts."""
    off_answer: Literal[503, 400] = 503
    """For a prompt that only a group which is off could take; 400 makes agents compact (C28)."""
    session_rule: Literal["chain", "opening"] = "chain"
    """`opening`: a session is the hash of its first 4,000 characters, and nothing else."""
    normalize_prompt: bool = False
    """Take a changing billing line off the head of the system prompt (C18), for the cache."""
    picture_tokens: int = 1_300
    default_output: int = 4_096
    """Tokens of answer counted where the client names none."""
    keep_alive: float = 10.0
    """Seconds between comment lines while an answer is silent."""
    body_limit: int = 64 * 1024 * 1024
    """Bytes of one request, decompressed."""
    memory_limit: int = 1024 * 1024 * 1024
    """Bytes of request bodies held at once, all clients together; beyond, 503."""
    priorities: bool = False
    """Let clients' `priority` through to the engine."""
    drain: float = 180.0
    """Seconds that running answers may take to finish when the proxy itself is ended."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """One client's key as its hash, from `clients.toml`, which `rigctl keys` writes."""

    name: str
    key_hash: str
    """Hex SHA-256 of the key."""
    running: int | None = None
    """Requests that may be under way at once; further ones wait their turn in the queue."""
    created: datetime.date | None = None
    """The day its key was made."""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    rig: RigConfig
    groups: tuple[GroupConfig, ...]
    path: str
    """The file it was read from."""
    origins: dict[str, str] = field(default_factory=dict)
    """`group.standard.port` -> `rig.toml:14`, `default`, `state: set by key z on …`."""
    keys: dict[str, str] = field(default_factory=dict)
    """The panel's rebound keys: action to key."""
    proxy: ProxyConfig | None = None
    """None: rigctl runs no endpoint."""
    clients: tuple[ClientConfig, ...] = ()

    def group(self, name: str) -> GroupConfig:
        """The group of that name; KeyError where there is none."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(name)

    @property
    def free_group(self) -> GroupName:
        """What a bare `free` means."""
        return self.rig.free_group or self.groups[-1].name


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Everything needed to start one engine, resolved against the cards that are really there."""

    group: GroupName
    argv: tuple[str, ...]
    """The whole command line; secrets are in it only where the engine takes them no other way."""
    env: dict[str, str]
    """Variables set on top of the daemon's own; CUDA_DEVICE_ORDER, CUDA_VISIBLE_DEVICES …"""
    masked: tuple[str, ...]
    """`argv` with every secret replaced, for snapshots, logs and the journal."""
    cards: tuple[CardId, ...]


class ConfigError(Exception):
    """The owner's file cannot be used: says file, line, what, why and the nearest right thing."""

    def __init__(self, say: str, *, path: str = "", line: int = 0) -> None:
        self.path = path
        self.line = line
        self.say = say
        where = f"{path}:{line}: " if path and line else f"{path}: " if path else ""
        super().__init__(f"{where}{say}")
