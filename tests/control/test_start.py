"""A daemon is found or started, once, and a failure has its own words."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rigctl.config.paths import Home, find_home
from rigctl.control.start import (
    DaemonStartError,
    daemon_command,
    ensure_daemon,
    greet,
    is_locked,
)

DUMMY = str(Path(__file__).with_name("dummy_daemon.py"))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = find_home(str(tmp_path))
    yield made
    served = made.state / "served"
    for pid in map(int, served.read_text().split()) if served.exists() else ():
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def dummy(home: Home, seconds: float = 0.0) -> list[str]:
    return [sys.executable, DUMMY, str(home.state), str(seconds)]


def test_a_daemon_is_started_once_and_found_after(home: Home) -> None:
    """The first call starts one and says so, the second finds it and says nothing."""
    said: list[str] = []
    ensure_daemon(home, said.append, dummy(home))
    assert len(said) == 1
    pid = int((home.state / "served").read_text())
    assert f"pid {pid}" in said[0]
    assert str(home.logs / "daemon.log") in said[0]
    assert os.getsid(pid) == pid != os.getsid(0)
    assert is_locked(home.lock)
    ensure_daemon(home, said.append, ["/no/such/program"])
    assert len(said) == 1
    assert home.state.stat().st_mode & 0o777 == 0o700
    assert (home.logs / "daemon.log").stat().st_mode & 0o777 == 0o600


def test_two_starters_end_with_one_daemon(home: Home) -> None:
    """Both return once it answers, whoever won; the other's attempt does no harm."""
    with ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(ensure_daemon, home, lambda _: None, dummy(home, 0.3)) for _ in range(4)
        ]
        for run in runs:
            run.result(timeout=20)
    assert len((home.state / "served").read_text().split()) == 1


def test_a_daemon_that_is_starting_is_waited_for(home: Home) -> None:
    """Its lock is held, its socket not there yet: no second one is tried."""
    home.state.mkdir(parents=True)
    with subprocess.Popen(dummy(home, 0.5)) as first:
        while not is_locked(home.lock):
            time.sleep(0.01)
        said: list[str] = []
        ensure_daemon(home, said.append, ["/no/such/program"])
        assert said == []
        first.kill()
    assert not is_locked(home.lock)


def test_a_daemon_that_cannot_start_says_why(home: Home) -> None:
    """Its own last words, not a time-out."""
    words = "print('rig.toml:3: no such key'); raise SystemExit(1)"
    with pytest.raises(DaemonStartError, match=r"rig\.toml:3: no such key"):
        ensure_daemon(home, lambda _: None, [sys.executable, "-c", words])
    with pytest.raises(DaemonStartError, match="none can be started"):
        ensure_daemon(home, lambda _: None, ["/no/such/program"])


def test_only_the_last_attempt_speaks_and_wholly(home: Home) -> None:
    """A dozen faults are all told; what an earlier attempt said, now mended, is not."""
    first = "print('rig.toml:1: mended since'); raise SystemExit(1)"
    then = "[print(f'rig.toml:{n}: fault') for n in range(12)]; raise SystemExit(1)"
    for words in (first, then):
        with pytest.raises(DaemonStartError) as failed:
            ensure_daemon(home, lambda _: None, [sys.executable, "-c", words])
    assert failed.value.say.count(": fault") == 12
    assert "mended since" not in failed.value.say


def test_a_daemon_that_hangs_at_start_is_said(home: Home) -> None:
    """Bounded: it holds its lock, never listens, and the person learns where to look."""
    with pytest.raises(DaemonStartError, match=r"does not answer .*daemon\.log"):
        ensure_daemon(home, lambda _: None, dummy(home, 50), wait=0.2)
    while not is_locked(home.lock):
        time.sleep(0.01)
    with pytest.raises(DaemonStartError, match="does not answer"):
        ensure_daemon(home, lambda _: None, ["/no/such/program"], wait=0.1)


def test_a_home_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """A file where the folder should be: named, with a way out."""
    (tmp_path / "state").write_text("")
    with pytest.raises(DaemonStartError, match="RIGCTL_HOME"):
        ensure_daemon(find_home(str(tmp_path)), lambda _: None)


def test_a_stale_socket_does_not_count(home: Home) -> None:
    """The file a killed daemon left is nobody's answer; the next one replaces it."""
    home.state.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(home.socket))
    assert greet(home.socket) is None
    ensure_daemon(home, lambda _: None, dummy(home))
    assert (greet(home.socket) or {})["rigctl"] == "0.1.0"


def test_what_answers_strangely_is_not_taken_for_a_daemon(home: Home) -> None:
    """Something else on the socket, or another protocol: said in words."""
    home.state.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other, ThreadPoolExecutor(1) as pool:
        other.bind(str(home.socket))
        other.listen()

        def answer(line: bytes) -> None:
            served, _ = other.accept()
            with served:
                served.recv(4096)
                served.sendall(line)

        pool.submit(answer, b"HTTP/1.1 400 Bad Request\n")
        with pytest.raises(DaemonStartError, match="not rigctl's daemon"):
            ensure_daemon(home, lambda _: None)
        pool.submit(answer, b'{"kind":"hello","protocol":99,"rigctl":"9.0"}\n')
        said: list[str] = []
        ensure_daemon(home, said.append)
        assert "rigctl 9.0" in said[0]
        assert "rigctl daemon stop" in said[0]


def test_the_daemon_looks_where_we_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named home is passed on, the XDG places are found by the same variables."""
    monkeypatch.delenv("RIGCTL_HOME", raising=False)
    assert daemon_command(find_home(str(tmp_path)))[-2:] == ["--home", str(tmp_path)]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert daemon_command(find_home())[-1] == "rigctl.daemon.main"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIGCTL_HOME", "rig")
    assert daemon_command(find_home())[-2:] == ["--home", str(tmp_path / "rig")]


def test_starting_loads_nothing_heavy() -> None:
    """The command line pays for it at every call: neither msgspec nor asyncio."""
    code = (
        "import sys, rigctl.control.start;"
        "print(*({'msgspec', 'asyncio', 'textual', 'httpx', 'pynvml'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.stdout.strip() == ""
    assert loaded.returncode == 0
