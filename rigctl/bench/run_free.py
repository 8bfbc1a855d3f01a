"""From the key to "four cards free": what of it is rigctl's own, seen from outside the daemon."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rigctl.bench.peers import Supervisor
from rigctl.bench.plan import Figure, Result, Row
from rigctl.bench.rig import Rig, RigError, Watcher

LIMIT = 120.0
"""Seconds that one free may take here."""


def measure(what: Row, rig: Rig, group: str, release: float, peer: Supervisor) -> Result:
    """Free a ready, idle group and split the time.

    `release` is how long its cards keep a dead process's memory, in seconds. The engine's exit is
    taken from the process table, not from what the daemon noticed, so that noticing late counts as
    rigctl's own time; so does everything between the question and the signal.
    """
    (view,) = (g for g in rig.snapshot()["groups"] if g["name"] == group)
    engine = _session(view["pid"])
    holders = _holders(rig, view["cards"])
    watcher = Watcher(rig)
    asked = time.monotonic()
    try:
        answer = rig.ask(
            {"do": "act", "command": "free", "args": {"group": group, "holder": "bench"}}
        )
        if "accepted" not in answer:
            raise RigError(f"free was refused: {answer}")
        number = answer["accepted"]["operation"]
        gone, freed, told, operation = _follow(watcher, engine, holders, number)
    finally:
        watcher.close()
    if operation["state"] != "done":
        raise RigError(f"free ended as {operation['state']}: {operation['say']}")
    figures: dict[str, float] = operation["figures"]
    drain = figures.get("drain_seconds", 0.0)
    noticed = drain + figures["engine_exit_seconds"] + figures["release_seconds"]
    before_signal = max(0.0, figures["total_seconds"] - noticed)
    in_flight = view["in_flight"]
    if not (isinstance(in_flight, float) and in_flight > 0):
        # Nothing was there to drain: making sure of that is rigctl's own time.
        before_signal, drain = before_signal + drain, 0.0
    free_at = max(gone, freed + release)
    after_free = max(0.0, told - free_at)
    total = told - asked
    began = time.monotonic()
    peer.run("stop", "long")
    stopped = time.monotonic() - began
    peer.run("start", "long")  # the next row stops it again
    return Result(
        what,
        (
            Figure("own share", before_signal + after_free, "s"),
            Figure("total", total, "s"),
            Figure("drain", drain, "s"),
            Figure("engine's exit", max(0.0, gone - asked - drain - before_signal), "s"),
            Figure("memory release", free_at - gone, "s"),
        ),
        (Figure("supervisorctl stop", stopped, "s"),),
        note=operation["say"],
        details={"before_signal": before_signal, "after_free": after_free},
    )


def _follow(
    watcher: Watcher, engine: set[int], holders: set[int], number: int
) -> tuple[float, float, float, dict[str, Any]]:
    """When the engine was gone, when its last holder of memory was, when a client was told, what.

    Holders end before the engine's main process does, and their cards count from there.
    """
    gone = freed = 0.0
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        watcher.take()
        if not gone and not any(map(_lives, engine)):
            gone = time.monotonic()
        if not freed and not any(map(_lives, holders)):
            freed = time.monotonic()
        for operation in watcher.newest.get("operations", ()):
            if operation["id"] == number and operation["state"] != "running":
                told = time.monotonic()
                return gone or told, freed or told, told, operation
        time.sleep(0.005)
    raise RigError(f"operation {number} did not end within {LIMIT:.0f} s")


def _holders(rig: Rig, cards: Sequence[str]) -> set[int]:
    """The processes that hold memory on those cards."""
    shown = [card for card in rig.snapshot()["cards"] if card["uuid"] in cards]
    return {process["pid"] for card in shown for process in card["processes"]}


def _session(leader: int) -> set[int]:
    """The processes of the engine's session."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.getsid(int(entry.name)) == leader:
                    found.add(int(entry.name))
    return found


def _lives(pid: int) -> bool:
    """Whether a process is there and not a zombie: a zombie holds no memory."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
