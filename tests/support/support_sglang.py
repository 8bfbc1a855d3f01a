"""A real SGLang on the CPU for tests: where it lies, how it is started, and two that are shared."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support_needs import missing

FIRED_UP = "The server is fired up and ready to roll!"
"""The engine's own word that it answers; `/v1/models` says 200 before that."""

START_LIMIT = 300.0
"""Seconds; two servers at once are ready in 30 on idle cores, and CI's cores are not idle."""

_started: list[str] = []
"""One line an engine process, for the end of the run."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A folder that tests/real/install.sh has made."""

    folder: Path

    @property
    def python(self) -> str:
        """The interpreter that has SGLang."""
        return str(self.folder / "venv/bin/python")

    @property
    def model(self) -> str:
        """Path of the tiny random Qwen3."""
        return str(self.folder / "tiny-qwen3")

    @property
    def version(self) -> str:
        """SGLang's version, from its package's metadata."""
        found = sorted(self.folder.glob("venv/lib/python*/site-packages/sglang-*.dist-info"))
        return found[0].name.removeprefix("sglang-").removesuffix(".dist-info")

    @property
    def env(self) -> dict[str, str]:
        """What the CPU build needs on top of the ordinary environment."""
        return {"HF_HUB_OFFLINE": "1", "SGLANG_USE_CPU_ENGINE": "1", "PYTHONWARNINGS": "ignore"}

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags that a CPU run of the tiny model needs besides model, host and port."""
        return ("--device", "cpu", "--mem-fraction-static", "0.2", "--max-total-tokens", "4096")

    def argv(self, port: int, *flags: str) -> list[str]:
        """A whole command line; metrics are always on, as under rigctl."""
        program = [self.python, "-W", "ignore", "-m", "sglang.launch_server"]
        place = ["--model-path", self.model, "--host", "127.0.0.1", "--port", str(port)]
        return [*program, *place, *self.flags, "--enable-metrics", *flags]


@dataclass(frozen=True, slots=True)
class RealServer:
    """A real engine that answers."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        """Base address without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"


def free_port() -> int:
    """A loopback port that nobody holds now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def note_engine(pid: int, what: str) -> None:
    """Put a real engine's pid into the report at the end of the run."""
    _started.append(f"pid {pid}: {what}")


def _begin(installed: Installed, folder: Path, port: int, flags: tuple[str, ...]) -> RealServer:
    log = folder / f"sglang-{port}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            installed.argv(port, *flags),
            env={**os.environ, **installed.env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    note_engine(process.pid, f"SGLang {installed.version} on port {port} {' '.join(flags)}")
    return RealServer(process, port, log)


def _await_ready(server: RealServer, deadline: float) -> None:
    while FIRED_UP not in server.log.read_text(errors="replace"):
        tail = "\n".join(server.log.read_text(errors="replace").splitlines()[-20:])
        if server.process.poll() is not None:
            pytest.fail(f"real SGLang exited {server.process.returncode} while loading:\n{tail}")
        if time.monotonic() > deadline:
            pytest.fail(f"real SGLang not ready after {START_LIMIT:.0f} s:\n{tail}")
        time.sleep(0.25)


def end(server: RealServer) -> None:
    """End the server's whole session: SIGTERM, a breath, SIGKILL; the pid is ours until reaped."""
    for number, seconds in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 20.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.process.pid, signal.SIGKILL)


@contextlib.contextmanager
def running(
    installed: Installed, folder: Path, *each: tuple[str, ...]
) -> Iterator[tuple[RealServer, ...]]:
    """Real servers, one for each tuple of extra flags, started together and ended at the end."""
    servers: list[RealServer] = []
    try:
        for flags in each:
            servers.append(_begin(installed, folder, free_port(), flags))  # noqa: PERF401
        deadline = time.monotonic() + START_LIMIT
        for server in servers:
            _await_ready(server, deadline)
        yield tuple(servers)
    finally:
        for server in servers:
            end(server)


@pytest.fixture(scope="session")
def real_sglang() -> Installed:
    """Where the real SGLang lies; skips where there is none (see RIGCTL_REQUIRE)."""
    why = missing("sglang")
    if why:
        pytest.skip(why)
    return Installed(Path(os.environ["RIGCTL_REAL_SGLANG"]))


@pytest.fixture(scope="session")
def real_servers(
    real_sglang: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[RealServer, ...]]:
    """Two real servers that sleep when idle, shared by the whole run: leave them as found."""
    folder = tmp_path_factory.mktemp("real")
    sleeping = ("--sleep-on-idle",)
    with running(real_sglang, folder, sleeping, sleeping) as servers:
        yield servers


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which real engines ran, so that a reader can tell they did."""
    if _started:
        terminalreporter.section("real engines")
        for line in _started:
            terminalreporter.write_line(line)
