"""What a relay holds: under twelve large bodies, and over a day of conversations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from rigctl.bench.relay_loads import Load
from rigctl.bench.relay_peers import Relay
from rigctl.bench.relay_plan import BODIES, BODY, Effort
from rigctl.bench.relay_rounds import run_load

STEP = 0.02
"""Seconds between two looks."""

SETTLE = 10.0
"""Seconds that a relay has to give memory back."""

WARM_SLICES = 2
"""Slices of a day after which everything has been used once."""

LARGE = Load(
    connections=BODIES, requests=1, tokens=100, gap=0.02, body=BODY, picture=True, seed="large"
)


@dataclass(frozen=True, slots=True)
class Held:
    """MB (10^6 bytes) over what it held before."""

    peak: float
    kept: float
    """After the last answer's end and some seconds."""


class _Peak(threading.Thread):
    """Watches a relay's memory until told to stop."""

    def __init__(self, relay: Relay) -> None:
        super().__init__(daemon=True)
        self._relay = relay
        self._enough = threading.Event()
        self.highest = 0.0

    def run(self) -> None:
        while not self._enough.wait(STEP):
            self.highest = max(self.highest, self._relay.memory())

    def stop(self) -> float:
        """The highest so far."""
        self._enough.set()
        self.join()
        return self.highest


def large_bodies(relay: Relay) -> Held:
    """Twelve clients at once, each with a body of 32 MiB, each answered with a stream."""
    before = relay.memory()
    watch = _Peak(relay)
    watch.start()
    try:
        run_load(LARGE, relay)
    finally:
        highest = watch.stop()
    time.sleep(SETTLE)
    return Held(highest - before, relay.memory() - before)


def day(relay: Relay, effort: Effort, progress: Callable[[str], None]) -> tuple[float, int]:
    """Growth in MB after the warm-up slices, and how many requests were made after them."""
    requests, base = 0, 0.0
    for number in range(effort.slices):
        progress(f"a day of traffic, slice {number + 1} of {effort.slices}: {relay.name} …")
        outcome = run_load(replace(effort.day, seed=f"day{number}"), relay)
        if number < WARM_SLICES:
            base = relay.memory()
        else:
            requests += outcome.finished
    return relay.memory() - base, requests
