"""What the daemon tells, and what it does where it cannot write."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from daemon_kit import PATIENCE, Rig

from rigctl.sim.demo import FIRST_LINE


def test_the_owners_command_learns_of_a_crash(rig: Rig) -> None:
    """`on_event` runs with the facts in RIGCTL_* variables, by the daemon, once for the crash."""
    seen = rig.home / "events.jsonl"
    program = (
        "import json, os, sys; open(sys.argv[1], 'a').write(json.dumps({k: v for k, v in "
        "os.environ.items() if k in ('RIGCTL_EVENT', 'RIGCTL_GROUP', 'RIGCTL_SAY')}) + chr(10))"
    )

    def listen(table: dict[str, Any]) -> None:
        table["rig"]["on_event"] = [sys.executable, "-c", program, str(seen)]

    rig.configure(listen)
    rig.begin()
    pid = rig.start("standard")
    os.kill(pid, signal.SIGKILL)
    rig.wait(seen.exists, "the command to run")
    told = json.loads(seen.read_text().splitlines()[0])
    assert told["RIGCTL_EVENT"] == "crashed"
    assert told["RIGCTL_GROUP"] == "standard"
    assert "SIGKILL" in told["RIGCTL_SAY"]


@pytest.mark.case("C68")
def test_a_full_disk_is_said_and_stops_nothing(rig: Rig) -> None:
    """State and journal cannot be written: a notice says so, acts go on, the old file stays."""
    rig.begin()
    assert rig.daemon is not None
    rig.start("standard")
    whole = rig.state_file()
    # A file size limit is a full disk that needs no right to mount one.
    _limit(rig.daemon.pid, 16)
    assert rig.run("stop", "standard", "--yes", "--wait").returncode == 0
    assert "not written" in rig.wait(lambda: rig.notice("state-file"), "the full disk to be said")
    assert rig.state_file() == whole, "half a file would be worse than an old one"
    _limit(rig.daemon.pid, None)
    rig.start("standard")
    rig.wait(lambda: not rig.notice("state-file"), "the disk to be well again", PATIENCE)
    assert rig.state_file()["groups"]["standard"]["stage"] == "ready"


def _limit(pid: int, size: int | None) -> None:
    import resource

    limit = resource.RLIM_INFINITY if size is None else size
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def test_a_broken_file_stops_a_start_and_not_the_daemon(rig: Rig) -> None:
    """rig.toml is read anew at each start: a fault in it is said with its line."""
    rig.begin()
    config = rig.paths.places.config
    good = config.read_text()
    config.write_text(good.replace("context_length", "contxt_length"))
    done = rig.run("start", "standard", "--wait")
    assert done.returncode == 1
    assert "contxt_length" in done.stderr
    assert "context_length" in done.stderr
    config.write_text(good)
    rig.start("standard")


def test_a_daemon_without_a_usable_file_says_what_is_wrong(rig: Rig) -> None:
    """It does not start, and names file and line."""
    config = rig.paths.places.config
    config.write_text(FIRST_LINE + "[rig]\nnam = 'x'\n")
    done = rig.run("start", "standard")
    assert done.returncode == 3
    assert f"{config}:" in done.stderr
    assert "nam" in done.stderr


def test_no_secret_reaches_snapshot_journal_or_log_reader(rig: Rig) -> None:
    """The engine prints its api key at each start; nobody sees it through rigctl."""
    key = "sk-very-secret-key-93f1"
    secret = rig.home / "key"
    secret.write_text(key)
    secret.chmod(0o600)

    def lock(table: dict[str, Any]) -> None:
        table["group"][0]["api_key"] = {"file": str(secret)}

    rig.configure(lock)
    rig.begin()
    pid = rig.start("standard")
    rig.wait(lambda: rig.group("standard")["engine_version"], "an answered poll, key and all")
    log = rig.run("logs", "standard", "--lines", "500").stdout
    assert "server_args" in log
    seen = json.dumps(rig.snapshot()) + rig.journal() + log
    seen += rig.paths.places.state_file.read_text() + (rig.home / "daemon-test.log").read_text()
    assert key not in seen
    for member in rig.session(pid):
        assert key not in Path(f"/proc/{member}/cmdline").read_text()
