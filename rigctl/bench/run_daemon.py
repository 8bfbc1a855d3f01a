"""What the daemon costs while a client looks, beside a supervisord with as many programs."""

from __future__ import annotations

from rigctl.bench import cost
from rigctl.bench.peers import Supervisor
from rigctl.bench.plan import Figure, Result, row
from rigctl.bench.rig import Rig, Watcher

SETTLE = 5.0
"""Seconds before counting, so that the start of the client is not in it."""


def measure(rig: Rig, peer: Supervisor, seconds: float) -> Result:
    """CPU and memory of daemon and NVML worker over `seconds`, one client watching."""
    watcher = Watcher(rig)
    try:
        pids = rig.daemon_pids()
        cost.measure(pids, SETTLE, watcher.take)
        before = watcher.seen
        peer_before = cost.cpu_seconds(peer.pid)
        used = cost.measure(pids, seconds, watcher.take)
        peer_cpu = (cost.cpu_seconds(peer.pid) - peer_before) / seconds * 100
    finally:
        watcher.close()
    rate = (watcher.seen - before) / seconds
    return Result(
        row("daemon"),
        (Figure("daemon cpu", used.cpu, "%"), Figure("daemon memory", used.memory, "MB")),
        (
            Figure("supervisord cpu", peer_cpu, "%"),
            Figure("supervisord memory", cost.memory_mb(peer.pid), "MB"),
        ),
        note=f"{len(pids)} processes, {rate:.2f} snapshots a second to the client",
        details={"seconds": seconds, "processes": len(pids), "snapshots_per_second": rate},
    )
