"""Names for the things the rig has, so that one is never passed for another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

GroupName = NewType("GroupName", str)
"""The name of a `[[group]]` in rig.toml: four cards and the one server on them."""

CardId = NewType("CardId", str)
"""A card's NVML UUID, `GPU-…`. The only name that survives a missing neighbour (C13)."""

OperationId = NewType("OperationId", int)
"""One accepted command, followed in the snapshot from asked to its outcome."""

Mono = NewType("Mono", float)
"""Seconds of CLOCK_MONOTONIC. The core never reads a clock; it is told the time."""

Wall = NewType("Wall", float)
"""Seconds since the epoch: for people and the journal only, never in a decision."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that cannot be mistaken for another: a recycled pid differs in `start_ticks`."""

    pid: int
    start_ticks: int
    """Field 22 of /proc/PID/stat: clock ticks from boot to the process's start."""
    boot_id: str
    """/proc/sys/kernel/random/boot_id: after a reboot every identity is void."""
    session: int
    """The session id it leads; its members are what a stop ends."""
    argv_hash: str
    """Of the command line as seen at Ready (wrappers exec); empty until then."""
