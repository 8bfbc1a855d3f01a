"""The daemon dies, the engines go on; the next daemon takes them up and nobody notices."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from daemon_kit import Answer, Rig, alive, end

from rigctl.adapters import proc


@pytest.mark.case("C65")
def test_a_killed_daemon_costs_no_answer(rig: Rig) -> None:
    """kill -9 of the daemon under a stream: the stream ends whole, the engine is adopted."""
    rig.begin()
    pid = rig.start("standard")
    answer = Answer(rig.port("standard"), 20_000)
    rig.wait(lambda: answer.chunks > 20, "the answer to begin")
    rig.kill_daemon()
    assert alive(pid)
    before = answer.chunks
    rig.begin_daemon()
    group = rig.until("standard", "ready")
    assert group["pid"] == pid
    assert group["adopted"]
    answer.join(60)
    assert answer.complete, answer.error
    assert answer.chunks > before


def test_an_adopted_engine_is_stopped_like_any_other(rig: Rig) -> None:
    """Its whole session ends, by the next daemon's hand."""
    rig.begin()
    pid = rig.start("standard")
    members = rig.session(pid)
    assert len(members) > 4
    rig.kill_daemon()
    rig.begin_daemon()
    done = rig.run("stop", "standard", "--yes", "--wait")
    assert done.returncode == 0, done.stderr
    assert not [each for each in members if alive(each)]


def test_an_engine_that_died_unwatched_is_started_anew(rig: Rig) -> None:
    """It was wanted, it is gone: a crash like any other, and its session is cleared first."""
    rig.begin()
    pid = rig.start("standard")
    rig.kill_daemon()
    for member in rig.session(pid):
        end(member)
    rig.begin_daemon()
    rig.wait(lambda: rig.group("standard")["pid"] not in (None, pid), "a new engine")
    assert "died while no daemon watched" in rig.journal()


@pytest.mark.case("C02")
def test_a_recycled_pid_with_the_same_command_line_is_not_signalled(rig: Rig) -> None:
    """The state file names a pid that another process has by now: not adopted, not touched."""
    rig.begin()
    pid = rig.start("standard")
    argv = proc.cmdline(pid)
    rig.run("stop", "standard", "--yes", "--wait")
    rig.kill_daemon()
    program = "import time; time.sleep(600)"
    stranger = subprocess.Popen(
        [sys.executable, "-c", program, *argv], start_new_session=True, stdin=subprocess.DEVNULL
    )
    try:
        state = rig.state_file()
        found = proc.identity(stranger.pid)
        assert found is not None
        state["groups"]["standard"] |= {
            "wanted": False,
            "stage": "ready",
            "process": {
                "pid": stranger.pid,
                "start_ticks": found.start_ticks - 500,
                "boot_id": found.boot_id,
                "session": stranger.pid,
                "argv_hash": "",
            },
        }
        rig.paths.places.state_file.write_text(json.dumps(state))
        rig.begin_daemon()
        rig.until("standard", "off")
        rig.run("stop", "standard", "--yes")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_spawn_whose_record_was_lost_is_found_by_its_token(rig: Rig) -> None:
    """The daemon died between spawn and record: the child carries the token written before."""
    rig.begin()
    pid = rig.start("standard")
    rig.kill_daemon()
    state = rig.state_file()
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    token = next(each for each in environ if each.startswith(b"RIGCTL_SPAWN="))
    state["groups"]["standard"] |= {
        "process": None,
        "stage": "spawning",
        "token": token.partition(b"=")[2].decode(),
    }
    rig.paths.places.state_file.write_text(json.dumps(state))
    rig.begin_daemon()
    group = rig.until("standard", "ready")
    assert group["pid"] == pid


@pytest.mark.case("C02")
def test_a_copied_home_does_not_take_over_the_first_ones_engine(rig: Rig) -> None:
    """`cp -r` of a home with a running engine: the copy's daemon leaves it alone."""
    rig.begin()
    pid = rig.start("standard")
    with tempfile.TemporaryDirectory(prefix="rig-", dir="/tmp") as folder:
        copied = Path(folder) / "copy"
        sockets = shutil.ignore_patterns("*.sock")
        shutil.copytree(rig.home, copied, ignore=sockets)
        command = [*rig.demo.daemon_command()]
        command[command.index("--home") + 1] = str(copied)
        second = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            rig.wait(lambda: _run(copied, "status", "--json"), "the copy's daemon to answer")
            said = _run(copied, "status")
            assert "copied from another home" in said or "outside rigctl" in said
            _run(copied, "stop", "standard", "--yes")
            assert alive(pid)
        finally:
            second.terminate()
            second.wait()
    assert rig.group("standard")["pid"] == pid


def _run(home: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rigctl", "--home", str(home), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout if done.returncode == 0 else ""


def test_a_second_daemon_on_the_same_home_refuses(rig: Rig) -> None:
    """One home, one owner: it names the pid of the one that runs and leaves."""
    rig.begin()
    assert rig.daemon is not None
    second = subprocess.run(
        rig.demo.daemon_command(), capture_output=True, text=True, check=False, timeout=30
    )
    assert second.returncode == 1
    assert f"pid {rig.daemon.pid}" in second.stderr
    assert rig.snapshot() is not None


@pytest.mark.case("C68")
@pytest.mark.parametrize("content", [b"", b'{"schema": 1, "groups": {"stand'])
def test_an_unreadable_state_file_signals_nothing_until_a_person_looks(
    rig: Rig, content: bytes
) -> None:
    """Rebuilt from /proc: engines are found by their token, watched, and acts are refused."""
    rig.begin()
    pid = rig.start("standard")
    rig.kill_daemon()
    rig.paths.places.state_file.write_bytes(content)
    rig.begin_daemon()
    group = rig.until("standard", "ready")
    assert group["pid"] == pid
    assert "daemon confirm" in rig.notice("unconfirmed")
    refused = rig.run("stop", "standard", "--yes")
    assert refused.returncode != 0
    assert "confirm" in refused.stderr
    assert alive(pid)
    assert rig.run("daemon", "confirm", "--yes").returncode == 0
    assert rig.run("stop", "standard", "--yes", "--wait").returncode == 0
    assert not alive(pid)


@pytest.mark.case("C65")
def test_an_engine_writes_to_a_file_that_nobody_must_drain(rig: Rig) -> None:
    """Its output goes to a file of its own, before and after the daemon's death."""
    rig.begin()
    pid = rig.start("standard")
    log = Path(rig.group("standard")["log"])
    assert Path(os.readlink(f"/proc/{pid}/fd/1")) == log
    rig.kill_daemon()
    before = log.stat().st_size
    answer = Answer(int(rig.demo.paths.ports[0]), 2000)
    answer.join(60)
    assert answer.complete
    rig.wait(lambda: log.stat().st_size > before, "the log to go on")
    rig.begin_daemon()
    rig.until("standard", "ready")


def test_a_drain_goes_on_after_the_daemons_death(rig: Rig) -> None:
    """What was wanted is derived anew: the stop asked before is finished by the next daemon."""
    rig.begin()
    pid = rig.start("standard")
    answer = Answer(rig.port("standard"), 30_000)
    rig.wait(lambda: answer.chunks > 5, "the answer to begin")
    assert rig.run("stop", "standard", "--yes", "--no-wait").returncode == 0
    rig.until("standard", "draining")
    rig.kill_daemon()
    rig.begin_daemon()
    answer.join(90)
    assert answer.complete, answer.error
    rig.until("standard", "off")
    assert not alive(pid)


def test_an_act_on_a_demos_home_starts_a_daemon_of_that_demo(rig: Rig) -> None:
    """Its daemon died: the one that the next act starts sees the cards, and ends with the demo."""
    rig.begin()
    pid = rig.start("standard")
    rig.kill_daemon()
    done = rig.run("stop", "standard", "--yes", "--wait")
    assert done.returncode == 0, done.stderr
    shown = rig.snapshot()
    assert shown is not None
    assert shown["simulated"]
    assert len(shown["cards"]) == 8
    assert not alive(pid)
    number = int(rig.paths.places.lock.read_text())
    rig.demo.stop()
    rig.wait(lambda: not alive(number), "the daemon to end with its demo")
    ended = rig.run("start", "standard")
    assert ended.returncode == 3
    assert "rigctl demo" in ended.stderr
