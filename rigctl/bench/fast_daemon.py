"""The daemon in fast time: `python -m rigctl.bench.fast_daemon FACTOR [the daemon's arguments]`.

Every clock of the process runs FACTOR times as fast, and every wait is as much shorter, so that
two hours of polls, samples and history pass in two minutes. The code that runs is the daemon's.
"""

from __future__ import annotations

import runpy
import selectors
import sys
import time


def warp(factor: float) -> None:
    """Speed up this process's clocks and the event loop's waits; before asyncio is imported."""
    monotonic, wall = time.monotonic, time.time
    began, began_wall = monotonic(), wall()

    class Selector(selectors.EpollSelector):
        """Waits as long in real time as the loop means in fast time."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """As its parent."""
            return super().select(timeout / factor if timeout else timeout)

    time.monotonic = lambda: began + (monotonic() - began) * factor
    time.time = lambda: began_wall + (wall() - began_wall) * factor
    selectors.DefaultSelector = Selector  # type: ignore[misc, assignment]


def main(arguments: list[str]) -> None:
    """Run the daemon in fast time; leaves with its exit code."""
    warp(float(arguments[0]))
    sys.argv = ["rigctl daemon", *arguments[1:]]
    # Run as the program it is: the bench stands beside the daemon, not on it.
    runpy.run_module("rigctl.daemon.main", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
