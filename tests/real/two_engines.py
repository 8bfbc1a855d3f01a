"""A whole rig with two engines, real or simulated: daemon, config, and cards that follow them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pytest
from support_sglang import Installed, free_port, note_engine

from rigctl.config.paths import find_home
from rigctl.control import address
from rigctl.sim import cardfile
from rigctl.sim.cardfile import GIB, Holder
from rigctl.sim.sglang.identity import VERSION

GROUPS = ("standard", "long")

DAEMON = (sys.executable, "-m", "rigctl.daemon.main")
"""The daemon's own entry, which takes simulated cards; everything else about it is as ever."""

SCHEDULER = "sglang::scheduler"
"""How SGLang's schedulers title themselves."""

START = 240.0
"""Seconds that two real engines may take to be ready on busy cores; 30 is usual."""

_CONFIG = """\
schema_version = 1
[rig]
name = "real"
free_group = "long"
stagger = 1.0
"""

_GROUP = """\
[[group]]
name = "{name}"
cards = {cards}
port = {port}
model = "{model}"
served_name = "{name}"
max_total_tokens = 4096
max_running_requests = 6
tensor_parallel = 1
sleep_on_idle = {sleep}
start_with_daemon = false
stop_grace = 30.0
engine = {engine}
flags = ["--device", "cpu", "--mem-fraction-static", "0.2"]
env = {env}
"""


class Engines(Protocol):
    """What a kind of engine needs in rig.toml."""

    @property
    def engine(self) -> list[str]:
        """The program that takes SGLang's flags."""
        ...

    @property
    def model(self) -> str: ...
    @property
    def env(self) -> dict[str, str]: ...
    @property
    def version(self) -> str: ...
    @property
    def spins(self) -> float:
        """Share of a core that its polling scheduler wants at least."""
        ...


class Real:
    """SGLang itself on the CPU."""

    spins = 0.9

    def __init__(self, installed: Installed) -> None:
        self.engine = [installed.python, "-W", "ignore", "-m", "sglang.launch_server"]
        self.model = installed.model
        self.env = installed.env
        self.version = installed.version


class Simulated:
    """The engine that ships with rigctl; it polls on a share of a core, out of courtesy."""

    spins = 0.1
    model = "tiny-qwen3"
    engine: ClassVar[list[str]] = [sys.executable, "-m", "rigctl.sim.sglang"]
    env: ClassVar[dict[str, str]] = {
        "SIM_LOAD_SECONDS": "3",
        "SIM_ORPHAN_SECONDS": "3600",
    }

    @property
    def version(self) -> str:
        """The SGLang it stands for."""
        return VERSION


def session_of(pid: int) -> tuple[int, ...]:
    """The living processes of the session that `pid` leads, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(stat[3]) == pid and stat[0] != "Z":
                    found.append(int(entry.name))
    return tuple(sorted(found))


def title(pid: int) -> str:
    """What a process calls itself: SGLang's children write their duty there."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    return ""


def scheduler_of(pid: int) -> int:
    """The scheduler process of the engine whose main process is `pid`."""
    (found,) = (each for each in session_of(pid) if title(each).startswith(SCHEDULER))
    return found


class TwoEngines:
    """The rig under test, from outside: its command line, its socket, its processes."""

    def __init__(self, engines: Engines, sleep: bool) -> None:
        self.engines = engines
        self.home = Path(tempfile.mkdtemp(prefix="rig-"))
        self.ports = {name: free_port() for name in GROUPS}
        self._cardfile = self.home / "cards.json"
        self._table = cardfile.rtx_3090s()
        cardfile.write(self._cardfile, self._table)
        self._write_config(sleep)
        self._daemon: subprocess.Popen[bytes] | None = None
        self._seen: set[int] = set()
        self._held: dict[int, int] = {}
        self._stop = threading.Event()
        self._memory = threading.Thread(target=self._follow_memory, daemon=True)

    def _write_config(self, sleep: bool) -> None:
        place = self.engines
        env = ", ".join(f'{name} = "{value}"' for name, value in place.env.items())
        text = _CONFIG
        for number, name in enumerate(GROUPS):
            cards = [card.uuid for card in self._table.cards[number * 4 : number * 4 + 4]]
            text += _GROUP.format(
                name=name,
                cards=json.dumps(cards),
                port=self.ports[name],
                model=place.model,
                sleep=str(sleep).lower(),
                engine=json.dumps(place.engine),
                env=f"{{ {env} }}",
            )
        (self.home / "rig.toml").write_text(text)

    def _follow_memory(self) -> None:
        """Each group's cards show the memory of its living scheduler, as on a real rig."""
        while not self._stop.wait(0.1):
            with contextlib.suppress(OSError, ValueError, KeyError):
                for number, name in enumerate(GROUPS):
                    pid = self.group(name)["pid"]
                    if pid:
                        self._hold(number, pid)

    def _hold(self, number: int, leader: int) -> None:
        """22 GiB on each of the group's cards, held by the scheduler once there is one."""
        schedulers = [each for each in session_of(leader) if title(each).startswith(SCHEDULER)]
        holder = schedulers[0] if schedulers else leader
        if leader not in self._seen:
            self._seen.add(leader)
            kind = "SGLang" if isinstance(self.engines, Real) else "simulated SGLang"
            note_engine(leader, f"{kind} {self.engines.version} under rigctl, {GROUPS[number]}")
        if self._held.get(number) != holder:
            self._held[number] = holder
            cards = list(self._table.cards)
            for index in range(number * 4, number * 4 + 4):
                cards[index] = replace(cards[index], processes=(Holder(holder, 22 * GIB),))
            self._table = replace(self._table, cards=tuple(cards))
            cardfile.write(self._cardfile, self._table)

    @property
    def daemon_pid(self) -> int:
        """The daemon started last."""
        assert self._daemon is not None
        return self._daemon.pid

    def start_daemon(self) -> None:
        """Start a daemon and wait until it answers."""
        with (self.home / "daemon.out").open("ab") as output:
            self._daemon = subprocess.Popen(
                [*DAEMON, "--home", str(self.home), "--simulated", str(self._cardfile)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_for(lambda: self._answers(), 20, "the daemon to answer")
        if not self._memory.is_alive():
            self._memory.start()

    def kill_daemon(self) -> None:
        """SIGKILL the daemon."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()

    def _answers(self) -> bool:
        assert self._daemon is not None
        if self._daemon.poll() is not None:
            pytest.fail(f"the daemon exited {self._daemon.returncode}:\n{self.daemon_output()}")
        with contextlib.suppress(OSError, ValueError):
            return bool(self.snapshot())
        return False

    def daemon_output(self) -> str:
        """What the daemons wrote."""
        return (self.home / "daemon.out").read_text(errors="replace")[-4000:]

    def snapshot(self) -> dict[str, Any]:
        """The newest snapshot, straight from the socket."""
        with address.connect(find_home(str(self.home)).socket, 10.0) as line:
            line.sendall(b'{"do": "snapshot"}\n')
            with line.makefile("rb") as answers:
                found: dict[str, Any] = json.loads(answers.readline())
        return found

    def group(self, name: str) -> dict[str, Any]:
        """One group of the newest snapshot."""
        for found in self.snapshot()["groups"]:
            if found["name"] == name:
                return dict(found)
        raise KeyError(name)

    def rigctl(self, *words: str, code: int = 0) -> str:
        """Run a verb; its stdout. Another exit code than `code` fails the test."""
        done = subprocess.run(
            [sys.executable, "-m", "rigctl", "--home", str(self.home), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        said = f"rigctl {' '.join(words)} exited {done.returncode}:\n{done.stdout}{done.stderr}"
        assert done.returncode == code, said + self.daemon_output()
        return done.stdout

    def wait_for(self, ready: Callable[[], bool], seconds: float, what: str) -> float:
        """Wait for something; seconds it took. Fails with the rig's state when it never comes."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if ready():
                return time.monotonic() - began
            time.sleep(0.05)
        with contextlib.suppress(OSError, ValueError):
            states = {g["name"]: (g["state"], g["say"]) for g in self.snapshot()["groups"]}
            pytest.fail(f"waited {seconds:.0f} s for {what}: {states}\n{self.daemon_output()}")
        pytest.fail(f"waited {seconds:.0f} s for {what}; no daemon answers")

    def state(self, name: str) -> str:
        """The state of a group."""
        return str(self.group(name)["state"])

    def bring_up(self) -> None:
        """Both engines ready, whatever state they were left in."""
        for name in GROUPS:
            group = self.group(name)
            if group["lease"]:
                self.rigctl("reclaim", name, "--yes")
            elif group["state"] in ("off", "failed"):
                self.rigctl("start", name)
        for name in GROUPS:
            self.wait_for(lambda n=name: self.state(n) == "ready", START, f"{name} to be ready")

    def close(self) -> None:
        """End engines and daemon; the engines are this test's own, known by their sessions."""
        self._stop.set()
        if self._memory.is_alive():
            self._memory.join(5)
        for leader in self._seen:
            for pid in session_of(leader):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
        if self._daemon is not None and self._daemon.poll() is None:
            self._daemon.terminate()
            try:
                self._daemon.wait(20)
            except subprocess.TimeoutExpired:
                self.kill_daemon()
        with contextlib.suppress(OSError, ValueError):
            # One that was just started may not have been seen yet; the daemon wrote it down.
            kept = json.loads(find_home(str(self.home)).state_file.read_text())["groups"]
            self._seen |= {one["process"]["pid"] for one in kept.values() if one["process"]}
        for leader in self._seen:
            for pid in session_of(leader):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
        shutil.rmtree(self.home, ignore_errors=True)


@contextlib.contextmanager
def two_engines(engines: Engines, sleep: bool = True) -> Iterator[TwoEngines]:
    """A rig with both engines ready."""
    rig = TwoEngines(engines, sleep)
    try:
        rig.start_daemon()
        rig.bring_up()
        yield rig
    finally:
        rig.close()


def cpu_wanted(pid: int, seconds: float) -> float:
    """Share of one core that a process's main thread ran or stood in line for.

    A spinning thread wants a whole core however busy the machine is; what it gets says more about
    its neighbours.
    """

    def so_far() -> int:
        running, waiting, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return int(running) + int(waiting)

    before, began = so_far(), time.monotonic_ns()
    time.sleep(seconds)
    return (so_far() - before) / (time.monotonic_ns() - began)


def number(reading: object) -> float:
    """A reading that must be there."""
    assert isinstance(reading, int | float), f"absent: {reading}"
    return float(reading)


def metric(text: str, name: str, labels: Mapping[str, str] | None = None) -> float:
    """One sample of Prometheus text, read here by other code than rigctl's own."""
    wanted = [f'{key}="{value}"' for key, value in (labels or {}).items()]
    for line in text.splitlines():
        head, _, value = line.rpartition(" ")
        if head.partition("{")[0] == name and all(part in head for part in wanted):
            return float(value)
    raise KeyError(name)
