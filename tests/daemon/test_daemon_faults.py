"""What goes wrong on such a machine, through the real daemon: said in words, nothing half done."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from daemon_kit import Answer, Rig, alive

from rigctl.sim import cardfile


def test_a_taken_port_is_refused_before_anything_loads(rig: Rig) -> None:
    """Some other program listens there: the start fails at once, naming port and remedy."""
    rig.begin()
    with socket.socket() as other:
        other.bind(("127.0.0.1", rig.port("standard")))
        other.listen()
        done = rig.run("start", "standard", "--wait")
        assert done.returncode == 1
        assert f"port {rig.port('standard')} is taken" in done.stderr
        assert rig.group("standard")["pid"] is None
    # A port may be free a moment later: it backs off and tries again by itself.
    rig.until("standard", "ready")


@pytest.mark.case("C59")
def test_a_crash_loop_ends_with_the_engines_own_words(rig: Rig) -> None:
    """Three starts that run out of memory: failed, the reason named, nothing tried for ever."""

    def fail(table: dict[str, Any]) -> None:
        table["group"][0]["env"]["SIM_FAIL"] = "oom"

    rig.configure(fail)
    rig.begin()
    rig.run("start", "standard", "--wait")
    rig.wait(lambda: rig.state("standard") in ("failed", "backing_off"), "a crash")
    group = rig.group("standard")
    assert "memory" in group["last_exit"]
    assert group["crashes"] >= 1
    stopped = rig.run("stop", "standard", "--yes", "--wait")
    assert stopped.returncode == 0, stopped.stderr


@pytest.mark.case("C11")
def test_a_lost_card_costs_its_own_group_alone(rig: Rig) -> None:
    """Card 6 falls off the bus: said, its group is not restarted, the other streams on."""
    rig.begin()
    rig.start("standard")
    rig.start("long")
    answer = Answer(rig.port("standard"), 6000)
    rig.wait(lambda: answer.chunks > 5, "the answer to begin")
    rig.tell_world(do="lose", card=6)
    rig.wait(lambda: rig.notice("card-lost"), "the lost card to be said")
    shown = rig.snapshot()
    assert shown is not None
    assert [card["use"] for card in shown["cards"]].count("lost") == 1
    rig.until("long", "failed")
    assert "lost" in rig.group("long")["say"]
    answer.join(60)
    assert answer.complete, answer.error


@pytest.mark.case("C04")
def test_free_names_a_stranger_and_exits_four(rig: Rig) -> None:
    """Somebody's training holds card 5: `3 of 4 free`, exit 4, and it lives on."""
    rig.begin()
    rig.start("long")
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    try:
        rig.tell_world(do="foreign", card=5, pid=stranger.pid, bytes=9 * cardfile.GIB)
        rig.wait(lambda: _holds(rig, 5, stranger.pid), "the stranger to show")
        done = rig.run("free", "long", "--holder", "training", "--yes")
        assert done.returncode == 4, done.stderr
        assert "3 of 4 free" in done.stderr + done.stdout
        assert f"pid {stranger.pid}" in done.stderr + done.stdout
        assert stranger.poll() is None
        lease = rig.group("long")["lease"]
        assert lease["holder"] == "training"
    finally:
        stranger.kill()
        stranger.wait()


def _holds(rig: Rig, index: int, pid: int) -> bool:
    shown = rig.snapshot() or {"cards": []}
    processes = shown["cards"][index]["processes"]
    return isinstance(processes, list) and pid in [each["pid"] for each in processes]


@pytest.mark.case("C01")
def test_a_leftover_scheduler_is_ended_before_the_next_start(rig: Rig) -> None:
    """The launcher dies, a scheduler lives on: nothing starts over its memory."""

    def leave(table: dict[str, Any]) -> None:
        table["group"][0]["env"]["SIM_LEFTOVER"] = "1"

    rig.configure(leave)
    rig.begin()
    pid = rig.start("standard")
    members = rig.wait(lambda: _members(rig, pid), "its members")
    done = rig.run("stop", "standard", "--yes", "--wait")
    assert done.returncode == 0, done.stderr
    assert not [each for each in members if alive(each)]


def _members(rig: Rig, pid: int) -> tuple[int, ...]:
    found = rig.session(pid)
    return found if len(found) >= 5 else ()


@pytest.mark.case("C58")
def test_an_engine_that_ignores_the_polite_signal_is_killed(rig: Rig) -> None:
    """Grace over: its whole session is ended, and the outcome says so."""

    def ignore(table: dict[str, Any]) -> None:
        table["group"][0]["env"]["SIM_IGNORE_SIGTERM"] = "1"

    rig.configure(ignore)
    rig.begin()
    pid = rig.start("standard")
    members = rig.session(pid)
    done = rig.run("stop", "standard", "--yes", "--wait")
    assert done.returncode == 0, done.stderr
    assert "did not leave" in rig.journal()
    assert not [each for each in members if alive(each)]


@pytest.mark.case("C58")
def test_a_stop_while_loading_leaves_no_child(rig: Rig) -> None:
    """SIGTERM during load kills main alone on the real server; here its session is asked."""

    def slow(table: dict[str, Any]) -> None:
        table["group"][0]["env"]["SIM_LOAD_SECONDS"] = "400"

    rig.configure(slow)
    rig.begin()
    assert rig.run("start", "standard").returncode == 0
    pid = rig.wait(lambda: rig.group("standard")["pid"], "the process")
    members = rig.wait(lambda: _members(rig, pid), "its children")
    assert rig.run("stop", "standard", "--yes", "--wait").returncode == 0
    assert not [each for each in members if alive(each)]
    rig.until("standard", "off")


def test_lend_gives_the_cards_back_when_its_terminal_dies(rig: Rig) -> None:
    """kill -9 of `rigctl lend`: its command goes on, and when that ends the engine comes back."""
    rig.begin()
    rig.start("long")
    lend = subprocess.Popen(
        [
            *(sys.executable, "-m", "rigctl", "--home", str(rig.home), "lend", "long", "--yes"),
            *("--", sys.executable, "-c", "import time; time.sleep(600)"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        lease = rig.wait(lambda: (rig.group("long")["lease"] or {}).get("pid"), "the command")
    finally:
        lend.kill()
        lend.wait()
    assert alive(lease)
    assert rig.state("long") == "off"
    os.kill(lease, signal.SIGTERM)
    rig.until("long", "ready")
    assert rig.group("long")["lease"] is None


def test_reclaim_cancels_a_free_that_drains(rig: Rig) -> None:
    """The answer that ran was never broken, and the engine is the same process."""
    rig.begin()
    pid = rig.start("long")
    answer = Answer(rig.port("long"), 20_000)
    rig.wait(lambda: answer.chunks > 5, "the answer to begin")
    assert rig.run("free", "long", "--yes", "--no-wait").returncode == 0
    rig.until("long", "draining")
    assert rig.run("reclaim", "long").returncode == 0
    assert rig.until("long", "ready")["pid"] == pid
    answer.join(60)
    assert answer.complete, answer.error


@pytest.mark.case("C16")
def test_a_driver_mismatch_leaves_the_engines_alone(rig: Rig) -> None:
    """NVML fails for everybody new: said with both versions, and a stop asks to be insisted on."""
    rig.begin()
    pid = rig.start("standard")
    with rig.frozen_world():
        table = cardfile.read(Path(rig.paths.cardfile))
        broken = replace(table, session=table.session + 1, init_code=cardfile.VERSION_MISMATCH)
        cardfile.write(Path(rig.paths.cardfile), broken)
        rig.wait(lambda: "reboot needed" in rig.notice("nvml-silent"), "it to be said")
        refused = rig.run("stop", "standard", "--yes")
        assert refused.returncode == 1
        assert "reboot" in refused.stderr
        assert alive(pid)


def test_each_start_journals_what_changed_since_the_last(rig: Rig) -> None:
    """After a fault one asks what was changed: flags and variables, across a daemon restart."""
    rig.begin()
    rig.start("standard")
    rig.run("stop", "standard", "--yes", "--wait")
    rig.kill_daemon()

    def change(table: dict[str, Any]) -> None:
        table["group"][0]["max_running_requests"] = 4
        table["group"][0]["env"]["NCCL_P2P_DISABLE"] = "1"

    rig.configure(change)
    rig.begin_daemon()
    rig.wait(lambda: _all_free(rig), "the cards to be seen free")
    rig.start("standard")
    journal = rig.journal()
    assert "changed since the last start" in journal
    assert "--max-running-requests" in journal
    assert "NCCL_P2P_DISABLE" in journal


def _all_free(rig: Rig) -> bool:
    shown = rig.snapshot() or {"cards": []}
    return {card["use"] for card in shown["cards"]} == {"free"}


def test_anothers_answer_on_the_port_is_not_our_engines(rig: Rig) -> None:
    """While ours loads, some other server answers 200 on `/ready`: ours is not ready by that."""

    def slow(table: dict[str, Any]) -> None:
        table["group"][0]["env"]["SIM_LOAD_SECONDS"] = "2000"

    rig.configure(slow)
    rig.begin()
    assert rig.run("start", "standard").returncode == 0
    rig.wait(lambda: rig.group("standard")["pid"], "the process")
    program = (
        "import http.server, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers()\n"
        "    def log_message(self, *_): print('asked', flush=True)\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(rig.port("standard"))], stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        for _ in range(3):
            assert other.stdout.readline().strip() == b"asked"
        assert rig.state("standard") == "starting"
    finally:
        other.kill()
        other.wait()
        assert other.stdout is not None
        other.stdout.close()
