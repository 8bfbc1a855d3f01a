"""What only the simulation has: its speed, its link to the world, and failures on demand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from rigctl.sim.world import LOAD_SECONDS


@dataclass(frozen=True, slots=True)
class Settings:
    """Read from SIM_* variables, so that the command line stays SGLang's own."""

    speed: float = 1.0
    """SIM_SPEED: simulated seconds that pass in a real one."""
    load_seconds: float = LOAD_SECONDS
    """SIM_LOAD_SECONDS: simulated seconds from launch to ready."""
    world: str = ""
    """SIM_WORLD: socket of the world that holds the cards; empty runs without one."""
    spin: float = 0.15
    """SIM_SPIN: share of a core a polling scheduler burns. The real one burns all of it."""
    fail: str = ""
    """SIM_FAIL: `oom` while loading, `nccl` hangs while loading, `weights` dies loading."""
    crash_after: float | None = None
    """SIM_CRASH_AFTER: simulated seconds after ready until the scheduler raises."""
    leftover: bool = False
    """SIM_LEFTOVER: one scheduler leaves the session and outlives a polite stop."""
    ignore_sigterm: bool = False
    """SIM_IGNORE_SIGTERM: the polite signal does nothing."""
    fault: str = ""
    """SIM_FAULT: what goes wrong with every answer, a word of `faults`."""
    orphan_seconds: float = 120.0
    """SIM_ORPHAN_SECONDS: real seconds after which a process without parent ends by itself."""

    def real(self, seconds: float) -> float:
        """Real seconds for simulated ones."""
        return seconds / self.speed


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. ValueError for a number that is none."""
    env = os.environ if environ is None else environ
    crash = env.get("SIM_CRASH_AFTER")
    return Settings(
        speed=max(0.01, float(env.get("SIM_SPEED") or 1.0)),
        load_seconds=float(env.get("SIM_LOAD_SECONDS") or LOAD_SECONDS),
        world=env.get("SIM_WORLD", ""),
        spin=min(0.95, max(0.0, float(env.get("SIM_SPIN") or 0.15))),
        fail=env.get("SIM_FAIL", ""),
        crash_after=float(crash) if crash else None,
        leftover=env.get("SIM_LEFTOVER", "") not in ("", "0"),
        ignore_sigterm=env.get("SIM_IGNORE_SIGTERM", "") not in ("", "0"),
        fault=env.get("SIM_FAULT", ""),
        orphan_seconds=float(env.get("SIM_ORPHAN_SECONDS") or 120.0),
    )
