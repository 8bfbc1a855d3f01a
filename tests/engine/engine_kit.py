"""Starts a simulated or a real engine by the same flags, asks it, watches its log and processes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support_sglang import FIRED_UP, Installed, free_port, note_engine

KEY = "open-sesame"
AUTH = {"Authorization": f"Bearer {KEY}"}
FLAGS = (
    *("--sleep-on-idle", "--served-model-name", "tiny", "--enable-cache-report"),
    *("--api-key", KEY, "--max-running-requests", "2", "--grammar-backend", "none"),
)
"""Of every engine in this suite, besides model, place and pool."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Which of the two."""

    name: str
    installed: Installed | None
    model: str
    more: tuple[tuple[str, str], ...] = ()
    """Further environment variables."""

    @property
    def real(self) -> bool:
        return self.installed is not None

    def argv(self, port: int, *flags: str) -> list[str]:
        """A whole command line."""
        if self.installed is not None:
            return self.installed.argv(port, *flags)
        place = ["--model-path", self.model, "--host", "127.0.0.1", "--port", str(port)]
        rest = ["--device", "cpu", "--mem-fraction-static", "0.2", "--max-total-tokens", "4096"]
        return [
            *(sys.executable, "-m", "rigctl.sim.sglang"),
            *place,
            *rest,
            "--enable-metrics",
            *flags,
        ]

    @property
    def env(self) -> dict[str, str]:
        """The environment it runs in."""
        if self.installed is not None:
            return {**os.environ, **self.installed.env, **dict(self.more)}
        own = {"SIM_LOAD_SECONDS": "3", "SIM_ORPHAN_SECONDS": "30"}
        return {**os.environ, **own, **dict(self.more)}


def simulated_kind(folder: Path) -> Kind:
    """The simulated engine, with a model folder that holds nothing but its config."""
    model = folder / "tiny-qwen3"
    model.mkdir(exist_ok=True)
    config = {"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 8192}
    (model / "config.json").write_text(json.dumps(config))
    return Kind("simulated", None, str(model))


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer, whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Engine:
    """A running engine."""

    def __init__(self, kind: Kind, folder: Path, *flags: str, port: int | None = None) -> None:
        self.kind = kind
        self.port = port or free_port()
        self.log = folder / f"{kind.name}-{time.monotonic_ns()}.log"
        self.launched = time.monotonic()
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                kind.argv(self.port, *flags),
                env=kind.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._seen: set[int] = set()
        if kind.real:
            note_engine(self.process.pid, "engine suite")

    def since_launch(self) -> float:
        return time.monotonic() - self.launched

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, what: Callable[[], object], seconds: float, say: str) -> float:
        """Wait until `what` is true; seconds since launch. Fails with the log's end."""
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                tail = "\n".join(self.text().splitlines()[-15:])
                raise AssertionError(f"{self.kind.name}: {say} not within {seconds:.0f} s:\n{tail}")
            time.sleep(0.05)
        return self.since_launch()

    def wait_ready(self) -> float:
        return self.wait_for(lambda: FIRED_UP in self.text(), 300, "the ready line")

    def listening(self) -> bool:
        with contextlib.suppress(OSError):
            self.ask("GET", "/nothing", timeout=2)
            return True
        return False

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        timeout: float = 60,
    ) -> Answer:
        """One request on a connection of its own, with the key unless headers say otherwise."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            head = {"Content-Type": "application/json", **(AUTH if headers is None else headers)}
            link.request(method, path, data, head)
            answer = link.getresponse()
            fields = {key.lower(): value for key, value in answer.getheaders()}
            return Answer(answer.status, fields, answer.read())
        finally:
            link.close()

    def children(self) -> dict[int, str]:
        """Living members of its session besides the main process: pid to title."""
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.process.pid:
                continue
            with contextlib.suppress(OSError, IndexError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[3]) == self.process.pid and fields[0] not in "ZX":
                    raw = (entry / "cmdline").read_bytes().rstrip(b"\0")
                    found[int(entry.name)] = raw.split(b"\0")[0].decode(errors="replace")
        self._seen |= set(found)
        return found

    def scheduler(self) -> int:
        """Pid of the scheduler process."""
        (pid,) = (p for p, title in self.children().items() if title == "sglang::scheduler")
        return pid

    def end(self) -> None:
        """End the whole session: every member, and what is left of it."""
        for pid in [*self.children(), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)


@contextlib.contextmanager
def engine(kind: Kind, folder: Path, *flags: str, port: int | None = None) -> Iterator[Engine]:
    """An engine that is ended whatever happens."""
    it = Engine(kind, folder, *flags, port=port)
    try:
        yield it
    finally:
        it.end()


class Stream:
    """A streamed chat, read frame by frame."""

    def __init__(self, it: Engine, tokens: int, **more: object) -> None:
        self._link = http.client.HTTPConnection("127.0.0.1", it.port, timeout=120)
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "tell me a story"}],
            "stream": True,
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream_options": {"include_usage": True},
            **more,
        }
        head = {"Content-Type": "application/json", **AUTH}
        self._link.request("POST", "/v1/chat/completions", json.dumps(body).encode(), head)
        self.answer = self._link.getresponse()

    def frame(self) -> str:
        """The next `data:` payload, or empty at the end."""
        while line := self.answer.readline():
            if line.startswith(b"data: "):
                return line[6:].strip().decode()
        return ""

    def rest(self) -> list[str]:
        """All frames that are left."""
        frames = []
        while frame := self.frame():
            frames.append(frame)
        return frames

    def close(self) -> None:
        self._link.close()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
