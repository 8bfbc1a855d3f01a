"""What processes cost: CPU time and memory, read from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a set of processes used over a while."""

    cpu: float
    """Percent of one core."""
    memory: float
    """MB (10^6 bytes) of proportional set size at the end: shared pages are split."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads included, its children not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def exact_cpu_seconds(pid: int) -> float:
    """The same to the nanosecond, of the threads that live now; 0 where the process is gone.

    The kernel's tick of 10 ms is as much as a good relay spends on 500 tokens.
    """
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[0])
        except OSError:  # the thread ended
            continue
    return total / 1e9


def memory_mb(pid: int) -> float:
    """Proportional set size in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def children(pid: int) -> tuple[int, ...]:
    """The processes below `pid`, all generations."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return tuple(found)


def measure(
    pids: Sequence[int], seconds: float, meanwhile: Callable[[], None] | None = None
) -> Cost:
    """Watch processes for a while; FileNotFoundError when one of them ends."""
    before = sum(map(cpu_seconds, pids))
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if meanwhile is not None:
            meanwhile()
        time.sleep(0.05)
    elapsed = time.monotonic() - began
    used = sum(map(cpu_seconds, pids)) - before
    return Cost(used / elapsed * 100, total_memory(pids))


def total_memory(pids: Iterable[int]) -> float:
    """Proportional set size of several processes in MB."""
    return sum(map(memory_mb, pids))
