"""The host's clocks, and how long it slept between two looks (C91)."""

from __future__ import annotations

import time
from collections.abc import Callable

from rigctl.core.ids import Mono, Wall


class MonotonicClock:
    """`ports.Clock`. Its `now` stands still while the machine is suspended."""

    def now(self) -> Mono:
        """Seconds of CLOCK_MONOTONIC."""
        return Mono(time.monotonic())

    def wall(self) -> Wall:
        """Seconds since the epoch."""
        return Wall(time.time())


def suspended_seconds() -> float:
    """All time the machine has been suspended since boot: CLOCK_BOOTTIME runs on, ours does not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class SleepWatch:
    """Says once that the machine was suspended, so that nobody mistakes the jump for silence."""

    LEAST = 1.0
    """Seconds below which a difference is reading noise."""

    def __init__(self, suspended: Callable[[], float] = suspended_seconds) -> None:
        self._suspended = suspended
        self._before = suspended()

    def slept(self) -> float:
        """Seconds suspended since the last call; 0 when the machine was awake throughout."""
        now = self._suspended()
        gone = now - self._before
        if gone < self.LEAST:
            return 0.0  # the base stays: many short suspends add up to one that is seen
        self._before = now
        return gone
