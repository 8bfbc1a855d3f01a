"""What two hours of data leave in memory, at 60 times the speed: daemon and panel."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rigctl.bench import cost
from rigctl.bench.churn import churn
from rigctl.bench.peers import Nvitop
from rigctl.bench.plan import Figure, Result, row
from rigctl.bench.rig import Rig, RigError, Watcher, command
from rigctl.bench.terminal import attached
from rigctl.sim.demo import DemoRig

SPEED = 60.0
HOURS = 2.0
FIRST = 600.0
"""Seconds of data after which memory is read for the first time."""


def measure(peer: Nvitop, folder: Path) -> Result:
    """Growth between ten minutes and two hours of data; nvitop beside it for as long."""
    with ExitStack() as stack:
        rig = stack.enter_context(_fast_rig(folder / "fast"))
        watcher = Watcher(rig)
        stack.callback(watcher.close)
        base = rig.snapshot()
        restless, served = stack.enter_context(churn(base, folder / "restless", SPEED))
        peer.show(base)
        env = restless.env
        panel = stack.enter_context(attached(command(), folder / "panel", env))
        other = stack.enter_context(attached(peer.argv, folder / "peer", peer.env))
        panel.await_text([group["name"] for group in base["groups"]], 30)
        began, shown = float(base["at"]), 0.0

        def follow() -> None:
            nonlocal shown
            watcher.take()
            panel.drain()
            other.drain()
            if time.monotonic() - shown > 1:
                shown = time.monotonic()
                peer.show(served.newest)

        def memories() -> tuple[float, float, float]:
            return (
                cost.total_memory(rig.daemon_pids()),
                cost.memory_mb(panel.pid),
                cost.memory_mb(other.pid),
            )

        _until(lambda: _age(watcher, began) >= FIRST and served.made >= FIRST, follow, 60)
        first = memories()
        seen = watcher.seen
        whole = HOURS * 3600
        _until(lambda: _age(watcher, began) >= whole and served.made >= whole, follow, 400)
        last = memories()
        grown = [after - before for before, after in zip(first, last, strict=True)]
        return Result(
            row("memory"),
            (
                Figure("daemon growth", grown[0], "MB"),
                Figure("panel growth", grown[1], "MB"),
                Figure("daemon", last[0], "MB"),
                Figure("panel", last[1], "MB"),
            ),
            (Figure("nvitop growth", grown[2], "MB"), Figure("nvitop", last[2], "MB")),
            note=f"{watcher.seen - seen} snapshots from the daemon and {served.made} restless ones "
            "to the panel",
        )


def _age(watcher: Watcher, began: float) -> float:
    """Seconds of the daemon's own time since the start of the measurement."""
    return float(watcher.newest.get("at", began)) - began


def _until(reached: Callable[[], bool], follow: Callable[[], None], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            raise RigError(f"two hours at {SPEED:.0f} times the speed did not pass in time")
        follow()
        time.sleep(0.02)


@contextmanager
def _fast_rig(folder: Path) -> Iterator[Rig]:
    """A demo rig whose world and daemon both run at 60 times the speed."""
    folder.mkdir(parents=True, exist_ok=True)
    with DemoRig(speed=SPEED, home=str(folder)) as demo, (folder / "out").open("ab") as output:
        demo.start_world()
        _, _, _, *options = demo.daemon_command()  # python -m module, then the options
        daemon = subprocess.Popen(
            [sys.executable, "-m", "rigctl.bench.fast_daemon", str(SPEED), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            rig = Rig.at(folder)
            demo.start_load("team")
            rig.await_states(dict.fromkeys(("standard", "long"), "ready"), 90)
            yield rig
        finally:
            daemon.terminate()
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
