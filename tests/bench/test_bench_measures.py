"""The bench's instruments, held against processes whose cost is known."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rigctl.bench import cost, peers
from rigctl.bench.terminal import TmuxError, attached

SPIN = "while True: pass"
SLEEP = "import time; time.sleep(60)"
HOLD = "x = bytearray(b'1' * 50_000_000); import time; print('held', flush=True); time.sleep(60)"


@pytest.fixture
def start() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end with the test."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def python(started: list[subprocess.Popen[bytes]], code: str) -> subprocess.Popen[bytes]:
    """A Python process with that code; its output on a pipe."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    started.append(process)
    return process


def test_a_spinning_process_is_told_from_a_sleeping_one(
    start: list[subprocess.Popen[bytes]],
) -> None:
    """CPU is what the process used: much for a loop, nothing for a sleeper."""
    spinning, sleeping = python(start, SPIN).pid, python(start, SLEEP).pid
    time.sleep(0.2)  # interpreter start is not a sleeper's cost
    before = cost.cpu_seconds(spinning), cost.cpu_seconds(sleeping)
    used = cost.measure((spinning, sleeping), 1.0)
    spun = cost.cpu_seconds(spinning) - before[0]
    slept = cost.cpu_seconds(sleeping) - before[1]
    assert spun > 10 * max(slept, 0.01)
    assert used.cpu > 10


def test_memory_is_what_the_process_holds(start: list[subprocess.Popen[bytes]]) -> None:
    """50 MB more held are 50 MB more shown, in units of 10^6 bytes."""
    bare, holding = python(start, SLEEP), python(start, HOLD)
    assert holding.stdout is not None
    holding.stdout.readline()
    time.sleep(0.2)
    assert cost.memory_mb(holding.pid) - cost.memory_mb(bare.pid) == pytest.approx(50, abs=8)


def test_children_are_found_at_any_depth(start: list[subprocess.Popen[bytes]]) -> None:
    """A worker's own child belongs to the daemon's cost too."""
    inner = f"import subprocess,sys; subprocess.run([sys.executable,'-c',{SLEEP!r}])"
    outer = f"import subprocess,sys; subprocess.run([sys.executable,'-c',{inner!r}])"
    process = python(start, outer)
    deadline = time.monotonic() + 10
    while len(cost.children(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    found = cost.children(process.pid)
    assert len(found) == 2
    for pid in found:  # they outlive their parent's SIGKILL otherwise
        subprocess.run(["kill", "-9", str(pid)], check=True)


@pytest.mark.tmux
def test_bytes_are_counted_at_the_tmux_client(tmp_path: Path) -> None:
    """What a program writes reaches the client's terminal, and is counted there."""
    script = "import time\nprint('READY', flush=True)\nwhile True:\n"
    script += " time.sleep(0.1); print('x' * 50, flush=True)"
    with attached([sys.executable, "-c", script], tmp_path, {"PATH": "/usr/bin:/bin"}) as terminal:
        assert terminal.await_text(["READY"], 10) > 0
        assert Path(f"/proc/{terminal.pid}/cmdline").read_text().startswith(sys.executable)
        terminal.drain()
        before = terminal.received
        terminal.await_text(["x" * 50], 10)
        time.sleep(0.5)
        terminal.drain()
        assert terminal.received > before
        with pytest.raises(TmuxError, match="not on the screen"):
            terminal.await_text(["NEVER"], 0.1)


@pytest.mark.cc
@pytest.mark.extras
def test_nvitop_shows_the_rigs_cards(tmp_path: Path) -> None:
    """nvitop, over the stub library, shows the cards that the snapshot has: one truth for both."""
    pytest.importorskip("nvitop", reason="nvitop is not installed: pip install 'rigctl[bench]'")
    peer = peers.nvitop(tmp_path)
    absent = {"why": "unsupported", "note": ""}
    card = {
        "watts": 281.4,
        "limit_watts": 350.0,
        "clock_mhz": 1695,
        "memory_clock_mhz": 9501,
        "utilisation": 97,
        "memory_used": 22 << 30,
        "memory_total": 24 << 30,
        "celsius": 67,
        "fan": absent,
        "pstate": 2,
        "processes": [],
    }
    peer.show({"cards": [card, {**card, "watts": 30.0}]})
    shown = subprocess.run(
        [peer.argv[0], "--once"], env=peer.env, capture_output=True, text=True, check=True
    ).stdout
    assert "281W / 350W" in shown
    assert "30W / 350W" in shown
    assert "22.00GiB / 24.00GiB" in shown


@pytest.mark.extras
def test_supervisor_answers_and_leaves(tmp_path: Path) -> None:
    """The supervisord to compare with runs two programs and is gone afterwards."""
    pytest.importorskip("supervisor", reason="pip install 'rigctl[bench]'")
    with peers.supervisor(tmp_path) as peer:
        status = subprocess.run([*peer.ctl, "status"], capture_output=True, text=True, check=True)
        assert status.stdout.count("RUNNING") == 2
        pids = (peer.pid, *cost.children(peer.pid))
        assert len(pids) == 3
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_missing_peer_says_how_to_get_it() -> None:
    """A peer that is not installed is named with the command that installs it."""
    with pytest.raises(peers.PeerMissingError, match=r"pip install 'rigctl\[bench\]'"):
        peers.program("no-such-peer")
