"""The peers, run beside rigctl on the same machine in the same minute: supervisord and nvitop."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 1 << 20


class PeerMissingError(Exception):
    """A peer is not installed or does not run; says the next command."""


def program(name: str) -> str:
    """A peer's program, beside this interpreter or on PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise PeerMissingError(f"{name} is not installed: pip install 'rigctl[bench]'")
    return found


@dataclass(frozen=True, slots=True)
class Supervisor:
    """A private supervisord on a local socket that keeps two programs running."""

    pid: int
    ctl: tuple[str, ...]
    """The supervisorctl command line up to its verb."""

    def run(self, *words: str) -> None:
        """One verb of supervisorctl."""
        subprocess.run([*self.ctl, *words], check=True, capture_output=True)


_SUPERVISOR = """\
[supervisord]
nodaemon=true
logfile={folder}/supervisord.log
pidfile={folder}/supervisord.pid
childlogdir={folder}
[unix_http_server]
file={folder}/s
[supervisorctl]
serverurl=unix://{folder}/s
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[program:standard]
command=sleep 86400
[program:long]
command=sleep 86400
"""


@contextlib.contextmanager
def supervisor(folder: Path) -> Iterator[Supervisor]:
    """Start supervisord with as many programs as the rig has engines; ends with the block."""
    daemon, ctl = program("supervisord"), program("supervisorctl")
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "supervisor.conf"
    config.write_text(_SUPERVISOR.format(folder=folder))
    # Its import of pkg_resources warns on every start; the warning is not its speed.
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [daemon, "-c", str(config)],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        peer = Supervisor(process.pid, (ctl, "-c", str(config)))
        _await_running(peer, process)
        yield peer
    finally:
        process.terminate()  # it ends its programs before it leaves
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_running(peer: Supervisor, process: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        answer = subprocess.run([*peer.ctl, "status"], capture_output=True, text=True, check=False)
        if answer.stdout.count("RUNNING") == 2:
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise PeerMissingError("supervisord did not start its two programs within ten seconds")


@dataclass(frozen=True, slots=True)
class Nvitop:
    """nvitop's command line and environment, over a stub library that shows the rig's cards."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cards: Path

    def show(self, snapshot: Mapping[str, Any]) -> None:
        """Give the stub the cards as the daemon's snapshot has them: one truth for both."""
        draft = self.cards.with_suffix(".tmp")
        draft.write_text("".join(map(_row, snapshot["cards"])))
        draft.rename(self.cards)


def _row(card: Mapping[str, Any]) -> str:
    """One line of the stub's file; a reading that is absent counts as 0."""

    def number(name: str, scale: float = 1.0) -> str:
        value = card[name]
        return f"{value * scale:.0f}" if isinstance(value, int | float) else "0"

    processes = card["processes"]
    pid = processes[0]["pid"] if isinstance(processes, list) and processes else 0
    return " ".join(
        (
            *(number("watts", 1000), number("limit_watts", 1000)),
            *(number("clock_mhz"), number("memory_clock_mhz"), number("utilisation")),
            *(number("memory_used", 1 / MIB), number("memory_total", 1 / MIB)),
            *(number("celsius"), number("fan"), number("pstate"), "0", f"{pid}\n"),
        )
    )


def nvitop(folder: Path) -> Nvitop:
    """Compile the stub into `folder` and say how nvitop is started at 1 Hz on it."""
    found = program("nvitop")
    compiler = shutil.which("cc")
    if compiler is None:
        raise PeerMissingError("no C compiler for nvitop's stub of NVML: apt install gcc")
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).with_name("nvml_stub.c")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
    )
    cards = folder / "cards.txt"
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "RIGCTL_BENCH_CARDS": str(cards)}
    return Nvitop((found, "--monitor", "auto", "--interval", "1"), env, cards)
