"""`rigctl bench self`: every row of the plan measured in one run, each beside its peer."""

from __future__ import annotations

import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from subprocess import CalledProcessError

from rigctl.bench import peers, run_daemon, run_free, run_memory, run_panel, run_status
from rigctl.bench.churn import churn
from rigctl.bench.plan import ROWS, Result, row
from rigctl.bench.real_rig import real_rig
from rigctl.bench.rig import Rig, RigError, command, demo
from rigctl.bench.terminal import TmuxError

RELEASE = 2.0
"""Seconds that the simulated cards keep a dead process's memory."""

_FAULTS = (RigError, TmuxError, peers.PeerMissingError, OSError, CalledProcessError)
"""What keeps one row from being measured and not the others; the row says it and is not met."""


class Ground:
    """What the rows are measured on: peers and rigs, started when a row first wants them."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder = folder
        self.seconds = seconds
        """How long CPU and output are counted."""
        self._peers = ExitStack()
        self._rigs = ExitStack()
        self._rig: tuple[tuple[str, ...], Rig] | None = None
        self._supervisor: peers.Supervisor | None = None
        self._nvitop: peers.Nvitop | None = None

    def supervisor(self) -> peers.Supervisor:
        """supervisord with two programs; PeerMissingError says why there is none."""
        if self._supervisor is None:
            started = peers.supervisor(self.folder / "supervisor")
            self._supervisor = self._peers.enter_context(started)
        return self._supervisor

    def nvitop(self) -> peers.Nvitop:
        """nvitop's command line on the stub library; PeerMissingError says why there is none."""
        if self._nvitop is None:
            self._nvitop = peers.nvitop(self.folder / "nvitop")
        return self._nvitop

    def rig(self, *options: str) -> Rig:
        """The demo with those options; one at a time, so that none is measured beside another."""
        if self._rig is None or self._rig[0] != options:
            self._rigs.close()
            self._rig = None
            self._rig = (options, self._rigs.enter_context(demo(self.folder / "rig", *options)))
        return self._rig[1]

    def spend(self) -> None:
        """The rig is no longer as it was started: the next row gets a new one."""
        self._rigs.close()
        self._rig = None

    def close(self) -> None:
        """End everything that was started."""
        self._rigs.close()
        self._peers.close()


QUIET = ("--scene", "quiet")
TEAM = ("--scene", "team")


def _status(ground: Ground) -> Result:
    return run_status.measure(command(), ground.rig(*QUIET).env, ground.supervisor())


def _daemon(ground: Ground) -> Result:
    return run_daemon.measure(ground.rig(*QUIET), ground.supervisor(), ground.seconds)


def _panel_busy(ground: Ground) -> Result:
    peer = ground.nvitop()
    base = ground.rig(*TEAM).snapshot()
    ground.spend()
    with churn(base, ground.folder / "restless", 1.0) as (rig, _):
        return run_panel.busy(rig, peer, ground.folder / "busy", ground.seconds)


def _panel_idle(ground: Ground) -> Result:
    peer = ground.nvitop()
    return run_panel.idle(ground.rig(*QUIET), peer, ground.folder / "idle", ground.seconds)


def _first_frame(ground: Ground) -> Result:
    return run_panel.first_frame(ground.rig(*QUIET), ground.nvitop(), ground.folder / "first")


def _free(ground: Ground) -> Result:
    peer = ground.supervisor()
    try:
        return run_free.measure(row("free"), ground.rig(*QUIET), "long", RELEASE, peer)
    finally:
        ground.spend()


def _free_real(ground: Ground) -> Result:
    peer = ground.supervisor()
    ground.spend()
    with real_rig(ground.folder / "real") as rig:
        return run_free.measure(row("free-real"), rig, "long", RELEASE, peer)


def _memory(ground: Ground) -> Result:
    peer = ground.nvitop()
    ground.spend()
    return run_memory.measure(peer, ground.folder)


MEASURERS: Mapping[str, Callable[[Ground], Result]] = {
    "status": _status,
    "daemon": _daemon,
    "panel-idle": _panel_idle,
    "first-frame": _first_frame,
    "free": _free,
    "panel-busy": _panel_busy,
    "free-real": _free_real,
    "memory": _memory,
}
"""By row, in the order that starts the fewest rigs."""


def run(only: Sequence[str], seconds: float, progress: Callable[[str], None]) -> list[Result]:
    """Measure the named rows, all of them when none is named; in the order of the plan."""
    wanted = [each.id for each in ROWS if not only or each.id in only]
    # A short folder, because socket paths end at 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="rigctl-bench-"))
    ground = Ground(folder, seconds)
    try:
        found = {result.row.id: result for result in _measure(wanted, ground, progress)}
    finally:
        ground.close()
        shutil.rmtree(folder, ignore_errors=True)
    return [found[name] for name in wanted if name in found]


def _measure(
    wanted: Sequence[str], ground: Ground, progress: Callable[[str], None]
) -> Iterator[Result]:
    for name, measurer in MEASURERS.items():
        if name in wanted:
            progress(f"{row(name).what} …")
            try:
                yield measurer(ground)
            except _FAULTS as fault:
                yield Result(row(name), missing=f"not measured: {fault}")


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    return {"python": platform.python_version(), "kernel": platform.release()}
