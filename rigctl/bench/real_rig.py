"""One real SGLang on the CPU under a daemon, on simulated cards, to measure a free on."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import tomli_w

from rigctl.bench.rig import Rig, RigError
from rigctl.sim import cardfile
from rigctl.sim.cardfile import GIB, Holder
from rigctl.sim.demo import free_ports

WHERE = "RIGCTL_REAL_SGLANG"
"""Names the folder that tests/real/install.sh has made."""

GROUP = "long"
START_LIMIT = 240.0
"""Seconds; a real engine is ready after 20 on idle cores."""


@contextlib.contextmanager
def real_rig(folder: Path) -> Iterator[Rig]:
    """A rig of four cards and one real engine, ready; RigError where none is installed."""
    place = os.environ.get(WHERE, "")
    if not place or not (Path(place) / "tiny-qwen3/config.json").exists():
        raise RigError(f"no real SGLang: tests/real/install.sh DIR, then {WHERE}=DIR")
    folder.mkdir(parents=True, exist_ok=True)
    table = cardfile.rtx_3090s(4)
    cards = folder / "cards.json"
    cardfile.write(cards, table)
    _write_config(folder, Path(place), [card.uuid for card in table.cards])
    daemon = [sys.executable, "-m", "rigctl.daemon.main", "--home", str(folder)]
    with (folder / "daemon.out").open("ab") as output:
        process = subprocess.Popen(
            [*daemon, "--simulated", str(cards)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    rig = Rig.at(folder)
    try:
        rig.await_states({GROUP: "ready"}, START_LIMIT)
        (group,) = rig.snapshot()["groups"]
        held = (Holder(group["pid"], 22 * GIB),)
        loaded = tuple(replace(card, processes=held) for card in table.cards)
        cardfile.write(cards, replace(table, cards=loaded))
        _await_memory(rig)
        yield rig
    finally:
        _end(rig, process)


def _write_config(folder: Path, place: Path, uuids: list[str]) -> None:
    """A rig.toml whose one group starts with the daemon."""
    (port,) = free_ports(1)
    python = str(place / "venv/bin/python")
    group = {
        "name": GROUP,
        "cards": uuids,
        "port": port,
        "model": str(place / "tiny-qwen3"),
        "served_name": GROUP,
        "max_total_tokens": 4096,
        "tensor_parallel": 1,
        "sleep_on_idle": True,
        "start_with_daemon": True,
        "stop_grace": 60.0,
        "engine": [python, "-W", "ignore", "-m", "sglang.launch_server"],
        "flags": ["--device", "cpu", "--mem-fraction-static", "0.2"],
        "env": {"HF_HUB_OFFLINE": "1", "SGLANG_USE_CPU_ENGINE": "1"},
    }
    table = {"schema_version": 1, "rig": {"name": "bench"}, "group": [group]}
    (folder / "rig.toml").write_text(tomli_w.dumps(table), encoding="utf-8")


def _await_memory(rig: Rig) -> None:
    """Wait until the daemon has seen the engine's memory on its cards."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if all(card["processes"] for card in rig.snapshot()["cards"]):
            return
        time.sleep(0.2)
    raise RigError("the daemon did not see the engine's memory on its cards within 30 s")


def _end(rig: Rig, daemon: subprocess.Popen[bytes]) -> None:
    """Have the daemon stop its engine and leave; what does not is killed."""
    with contextlib.suppress(OSError, ValueError):
        rig.ask({"do": "act", "command": "stop-daemon", "args": {"stop_engines": True}})
    try:
        daemon.wait(90)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
