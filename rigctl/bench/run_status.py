"""How long `rigctl status --json` takes, between bare Python and supervisorctl."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from rigctl.bench.peers import Supervisor
from rigctl.bench.plan import Figure, Result, row

RUNS = 21
"""Odd, so that the median is a run."""


def measure(rigctl: Sequence[str], env: Mapping[str, str], peer: Supervisor) -> Result:
    """Medians of interleaved runs, so that a busy moment of the machine meets all three."""
    commands = {
        "rigctl status": [*rigctl, "status", "--json"],
        "python3 -c pass": [sys.executable, "-c", "pass"],
        "supervisorctl status": [*peer.ctl, "status"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for name, argv in commands.items():
        _once(name, argv, env)  # warm the page cache; not counted
    for _ in range(RUNS):
        for name, argv in commands.items():
            times[name].append(_once(name, argv, env))
    figures = {
        name: Figure(name, statistics.median(values) * 1000, "ms") for name, values in times.items()
    }
    ours = figures.pop("rigctl status")
    return Result(row("status"), (ours,), tuple(figures.values()), details={"runs": RUNS})


def _once(name: str, argv: Sequence[str], env: Mapping[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(argv, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True)
    elapsed = time.perf_counter() - began
    if done.returncode != 0:
        raise RuntimeError(f"{name} exited {done.returncode}: {done.stderr.decode().strip()}")
    return elapsed
