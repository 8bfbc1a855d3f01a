"""rig.toml is written while the daemon runs: it counts from the next start on, and not before."""

from __future__ import annotations

import socket
import tomllib
from typing import Any

from daemon_kit import Rig


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_running_engine_is_reached_where_it_was_started(rig: Rig) -> None:
    """Another port in the file: the old one is asked until the restart, also by a new daemon."""
    rig.begin()
    rig.start("long")
    old, new = rig.port("long"), free_port()

    def move(table: dict[str, Any]) -> None:
        table["group"][1]["port"] = new

    rig.configure(move)
    rig.wait(lambda: rig.group("long")["differs"], "the difference to be seen")
    assert any("--port" in each for each in rig.group("long")["differs"])
    rig.start("standard")
    rig.kill_daemon()
    rig.begin_daemon()
    rig.until("long", "ready")
    rig.wait(lambda: isinstance(rig.group("long")["sample_age"], float), "it to answer")
    done = rig.run("restart", "long", "--yes", "--wait")
    assert done.returncode == 0, done.stderr
    assert rig.port("long") == new != old
    rig.wait(lambda: isinstance(rig.group("long")["sample_age"], float), "the new one to answer")


def test_a_file_that_cannot_be_used_is_said_and_changes_nothing(rig: Rig) -> None:
    """A group vanishes under its engine, or a line is nonsense: said, and the engine goes on."""
    rig.begin()
    pid = rig.start("long")
    path = rig.paths.places.config
    good = path.read_text()
    table = tomllib.loads(good)
    assert len(table["group"]) == 2
    path.write_text(good[: good.rindex("[[group]]")])
    rig.wait(lambda: "long" in rig.notice("config"), "the missing group to be said")
    path.write_text(good + "\nnonsense = = 1\n")
    rig.wait(lambda: "rig.toml" in rig.notice("config"), "the nonsense to be said")
    group = rig.group("long")
    assert (group["state"], group["pid"]) == ("ready", pid)
    path.write_text(good.replace("price_per_kwh = 0.3", "price_per_kwh = 0.5"))
    rig.wait(lambda: not rig.notice("config"), "the notice to end")
    rig.wait(lambda: (rig.snapshot() or {})["price_per_kwh"] == 0.5, "the new price")
    assert rig.run("stop", "long", "--yes", "--wait").returncode == 0
