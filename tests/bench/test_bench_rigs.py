"""The rigs that the bench measures on: one on which everything changes, one in fast time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from rigctl.bench.churn import churn
from rigctl.bench.rig import Watcher

BASE = {
    "kind": "snapshot",
    "schema": 1,
    "epoch": "e",
    "rigctl": "0",
    "at": 100.0,
    "wall": 1e9,
    "cards": [{"uuid": "GPU-a", "index": 0, "watts": 281.0, "pstate": 2.0, "fan": {"why": "lost"}}],
    "groups": [{"name": "long", "port": 30002, "wanted": True, "kv": {"used": 5000.0}}],
    "power": {"watts": {"value": 281.0, "counted": 1}},
    "pool": {"used": 5000.0},
    "host": {"load": 0.5, "cores": 2},
}
"""As much of a snapshot as shows what is shaken and what is not."""


def test_every_reading_changes_and_every_name_stays(tmp_path: Path) -> None:
    """A restless rig changes each reading with each snapshot; counts, names, absences stay."""
    with churn(BASE, tmp_path, 50.0) as (rig, served):
        watcher = Watcher(rig)
        seen = []
        try:
            while len(seen) < 5:
                watcher.take()
                if watcher.newest and watcher.newest not in seen:
                    seen.append(watcher.newest)
        finally:
            watcher.close()
        assert served.made >= 5
    watts = {snapshot["cards"][0]["watts"] for snapshot in seen}
    used = {snapshot["groups"][0]["kv"]["used"] for snapshot in seen}
    assert len(watts) == len(used) == 5
    assert all(252 <= value <= 310 for value in watts)
    for snapshot in seen:
        assert snapshot["cards"][0]["fan"] == {"why": "lost"}
        assert snapshot["groups"][0]["port"] == 30002
        assert snapshot["groups"][0]["wanted"] is True
        assert snapshot["power"]["watts"]["counted"] == 1
        assert snapshot["at"] - 100.0 == snapshot["seq"]


def test_a_restless_rig_leaves_nothing(tmp_path: Path) -> None:
    """Once left, no thread of it runs and nobody answers on its socket."""
    before = set(threading.enumerate())
    with churn(BASE, tmp_path, 20.0) as (rig, _):
        assert rig.snapshot()["kind"] == "snapshot"
    after = [thread for thread in threading.enumerate() if thread not in before]
    for thread in after:
        thread.join(5)
    assert not [thread for thread in after if thread.is_alive()]


FAST = """
import sys, time
from rigctl.bench.fast_daemon import warp
real = time.perf_counter
warp(50.0)
import asyncio, json
began, began_loop = real(), time.monotonic()
asyncio.run(asyncio.sleep(5.0))
print(json.dumps([real() - began, time.monotonic() - began_loop]))
"""


def test_waits_are_as_much_shorter_as_clocks_are_faster() -> None:
    """In fast time five seconds of sleeping pass in a fraction of one, on every clock at once."""
    done = subprocess.run(
        [sys.executable, "-c", FAST], capture_output=True, text=True, check=True, timeout=60
    )
    real, fast = json.loads(done.stdout)
    assert fast >= 5.0
    assert real < 2.5
    assert fast > 10 * real


def test_a_bench_that_is_ended_ends_what_it_started() -> None:
    """SIGTERM in the middle of a run: its simulated rig, daemon and engines end with it."""
    token = f"RIGCTL_TEST_BENCH={uuid.uuid4().hex}"
    name, _, value = token.partition("=")

    def ours() -> list[str]:
        return [entry.name for entry in Path("/proc").iterdir() if _has(entry, token)]

    bench = subprocess.Popen(
        [sys.executable, "-m", "rigctl", "bench", "self", "--only", "daemon"],
        env={**os.environ, name: value},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until(lambda: len(ours()) > 3, "the bench's rig")
        bench.terminate()
        assert bench.wait(60) == 128 + signal.SIGTERM
        _until(lambda: not ours(), "the end of all of it")
    finally:
        bench.kill()
        bench.wait()


def _has(entry: Path, token: str) -> bool:
    try:
        return entry.name.isdigit() and token.encode() in (entry / "environ").read_bytes()
    except OSError:
        return False


def _until(true: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.1)
