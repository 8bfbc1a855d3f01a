"""The file with the state of the simulated cards: a world writes it, the fake NVML reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

GIB = 1 << 30
MIB = 1 << 20

NOT_SUPPORTED = 3
NO_PERMISSION = 4
GPU_IS_LOST = 15
VERSION_MISMATCH = 18
UNKNOWN = 999


class CardFileError(Exception):
    """The card file cannot be read or is not one."""


@dataclass(frozen=True, slots=True)
class CallFault:
    """What goes wrong in one NVML function."""

    code: int = 0
    """The NVML error it answers with; 0 lets it do its work."""
    hang: float = 0.0
    """Seconds it blocks first."""
    crash: bool = False
    """End the calling process with SIGSEGV, as the library does when a card is lost."""
    value: int | None = None
    """The raw number it hands out in place of the true one, in NVML's unit."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process with memory on a card: it counts while the pid lives, and a while longer."""

    pid: int
    used_bytes: int
    start_ticks: int = 0
    """Field 22 of /proc/PID/stat, so that a recycled pid holds nothing; 0 does not compare."""


@dataclass(frozen=True, slots=True)
class CardState:
    """One simulated card; units as in `CardSample` where nothing else is said."""

    uuid: str
    pci: str
    """`0000:0C:00.0`."""
    name: str = "NVIDIA GeForce RTX 3090"
    watts: float = 22.0
    limit_watts: float = 350.0
    default_limit_watts: float = 350.0
    min_limit_watts: float = 100.0
    max_limit_watts: float = 350.0
    clock_mhz: int = 210
    memory_clock_mhz: int = 405
    utilisation: int = 0
    memory_total: int = 24 * GIB
    memory_reserved: int = 346 * MIB
    """The driver's own share: counted as used by the v1 memory call, apart in v2 (C86)."""
    memory_used: int = 0
    """Bytes used beside `processes` and the reserve: what a card shows with nothing on it."""
    celsius: int = 34
    fan: int = 0
    pstate: int = 8
    joules: float = 0.0
    throttle: int = 1
    """NVML's clock event bits; 1 is idle, 4 the power cap, 0x20 and 0x40 thermal."""
    pcie_rx: float = 0.0
    """Bytes a second."""
    pcie_tx: float = 0.0
    pcie_generation: int = 4
    pcie_width: int = 16
    persistence: bool = True
    processes: tuple[Holder, ...] = ()
    release_seconds: float | None = 2.0
    """How long a dead process's memory stays counted; None: for ever (C64)."""
    listed: tuple[tuple[int, int], ...] | None = None
    """A process list of (pid, bytes) handed out in place of the true one (C84)."""
    lost: int = 0
    """NVML error of every call on this card's handle but its UUID: 15, 16 or 999 (C11)."""
    wakes_when_asked: bool = False
    """Each utilisation query raises the P-state to 2 for 3 s; 8 again after 10 s (C82)."""
    awake_watts: float = 28.0
    """Drawn while so awakened."""
    faults: Mapping[str, CallFault] = field(default_factory=dict)
    """By NVML function name: `nvmlDeviceGetMemoryInfo_v2` -> 999."""


@dataclass(frozen=True, slots=True)
class CardTable:
    """All simulated cards and the driver they hang on."""

    cards: tuple[CardState, ...]
    driver: str = "580.95.05"
    library: str = "580.95.05"
    """Version of the library file: another than the driver's belongs to `init_code` 18 (C16)."""
    init_code: int = 0
    """What nvmlInit answers with."""
    init_seconds: float = 0.0
    """How long nvmlInit takes: 1.5 s a card without persistence mode (C81)."""
    call_seconds: float = 0.0
    """How long every other call takes."""
    session: int = 0
    """Raised by a driver reload, card reset or lost device access (C89, C90)."""
    stale_code: int = UNKNOWN
    """What every call answers in an NVML session begun before `session` was raised."""
    may_set_limits: bool = True
    """Whether the caller has the right to change power limits."""
    faults: Mapping[str, CallFault] = field(default_factory=dict)
    """For calls without a card, and for every card: `nvmlDeviceGetPowerUsage`."""


def rtx_3090s(count: int = 8, **same: Any) -> CardTable:
    """Idle RTX 3090 cards as in one box without NVLink; `same` sets fields of every card."""
    return CardTable(tuple(_rtx_3090(index, same) for index in range(count)))


def _rtx_3090(index: int, same: Mapping[str, Any]) -> CardState:
    label = (0xC2F1 + 0x2B6D * index) % 0x10000
    bus = 0x01 + 0x40 * (index // 4 % 4) + index % 4 + 0x08 * (index // 16)
    return CardState(
        uuid=f"GPU-{label:04x}7a3e-51de-4c0d-9e3b-{index:012x}",
        pci=f"0000:{bus:02X}:00.0",
        **same,
    )


def write(path: Path, table: CardTable) -> None:
    """Replace the file in one step, so that a reader sees the old table or the new one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps(_plain(table), separators=(",", ":")), encoding="utf-8")
    draft.rename(path)


def read(path: Path) -> CardTable:
    """The table in the file; CardFileError says why there is none."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        row["cards"] = tuple(_card(card) for card in row["cards"])
        row["faults"] = _faults(row.get("faults", {}))
        return CardTable(**row)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise CardFileError(f"{path} is no card file: {problem}") from problem


def set_limit(path: Path, session: int, uuid: str, watts: float) -> None:
    """Note a power limit set through NVML, beside the card file: that one has its own writer."""
    kept = {**limits(path, session), uuid: watts}
    beside = _limits_path(path)
    draft = beside.with_name(f"{beside.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps({"session": session, "watts": kept}), encoding="utf-8")
    draft.rename(beside)


def limits(path: Path, session: int) -> Mapping[str, float]:
    """Limits set through NVML by UUID; a new driver session starts with none (C09)."""
    try:
        row = json.loads(_limits_path(path).read_text(encoding="utf-8"))
        return row["watts"] if row["session"] == session else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _limits_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.limits")


def _plain(value: object) -> object:
    """Dataclasses as dictionaries, all the way down."""
    if isinstance(value, CardTable | CardState | Holder | CallFault):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return value


def _card(row: dict[str, Any]) -> CardState:
    row["processes"] = tuple(Holder(**holder) for holder in row.get("processes", ()))
    row["faults"] = _faults(row.get("faults", {}))
    if row.get("listed") is not None:
        row["listed"] = _pairs(row["listed"])
    return CardState(**row)


def _pairs(rows: Iterable[Iterable[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((pid, used) for pid, used in rows)


def _faults(rows: Mapping[str, dict[str, Any]]) -> dict[str, CallFault]:
    return {name: CallFault(**row) for name, row in rows.items()}
