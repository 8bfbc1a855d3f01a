"""The endpoint as clients see it: two engines, real or simulated, and the proxy in front of them.

The proxy is a process of its own, started as the daemon starts it: with its socket inherited and a
table in its home. The daemon's end of the link is in the test's hand (`support_served_link`).
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support_served_link import DaemonsEnd
from support_sglang import FIRED_UP, START_LIMIT, Installed, free_port, note_engine

from rigctl.config.paths import Home, find_home
from rigctl.control import link_wire
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import Table, TableClient, TableGroup, TablePolicy

MODEL = "tiny"
WINDOWS = {"standard": 2048, "long": 8192}
"""Tokens: what standard cannot take, long can."""
SLOTS = 6
_NUMBERS = itertools.count(1)
"""Makes a question new."""


@dataclass(frozen=True, slots=True)
class Engines:
    """Which kind of engine, and how one is started."""

    name: str
    installed: Installed | None
    model: str
    """Folder of the model that says what it is told (tests/engine/scripted_model.py)."""

    @property
    def real(self) -> bool:
        return self.installed is not None

    def argv(self, name: str, port: int) -> list[str]:
        """A whole command line."""
        window = str(WINDOWS[name])
        flags = [
            *("--served-model-name", MODEL, "--context-length", window),
            *("--max-total-tokens", str(4 * WINDOWS[name]), "--max-running-requests", str(SLOTS)),
            *("--enable-metrics", "--enable-cache-report", "--sleep-on-idle"),
            "--enable-response-store",
            *("--tool-call-parser", "qwen3_coder", "--grammar-backend", "none"),
            *("--device", "cpu", "--mem-fraction-static", "0.2"),
        ]
        place = ["--model-path", self.model, "--host", "127.0.0.1", "--port", str(port)]
        if self.installed is not None:
            start = [self.installed.python, "-W", "ignore", "-m", "sglang.launch_server"]
        else:
            start = [sys.executable, "-m", "rigctl.sim.sglang"]
        return [*start, *place, *flags]

    @property
    def env(self) -> dict[str, str]:
        """The environment it runs in."""
        common = {**os.environ, "SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES": "1"}
        if self.installed is not None:
            return {**common, **self.installed.env}
        return {**common, "SIM_LOAD_SECONDS": "1", "SIM_ORPHAN_SECONDS": "60", "SIM_SPIN": "0"}


def simulated(folder: Path) -> Engines:
    """The simulated engine, with a model folder that holds nothing but its config."""
    model = folder / "tiny-qwen3"
    model.mkdir(exist_ok=True)
    config = {"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 8192}
    (model / "config.json").write_text(json.dumps(config))
    return Engines("simulated", None, str(model))


def real(installed: Installed, folder: Path) -> Engines:
    """SGLang itself, with a model that speaks by script; making it takes some seconds."""
    script = Path(__file__).parent.parent / "engine" / "scripted_model.py"
    model = folder / "scripted"
    argv = [installed.python, str(script), installed.model, str(model)]
    subprocess.run(argv, check=True, env={**os.environ, **installed.env})
    return Engines("real", installed, str(model))


class Engine:
    """One engine process, from outside."""

    def __init__(self, kind: Engines, name: str, folder: Path) -> None:
        self.kind = kind
        self.name = name
        self.port = free_port()
        self.log = folder / f"{name}.log"
        self.run = ""
        self.process: subprocess.Popen[bytes]
        self._begun = 0

    def start(self) -> None:
        """Begin to start it; `await_ready` waits."""
        self._begun = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.kind.argv(self.name, self.port),
                env=self.kind.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.run = f"{self.process.pid}"
        if self.kind.real:
            note_engine(self.process.pid, f"{self.name} behind the endpoint")

    def said(self) -> str:
        """Its log since it was started last."""
        with self.log.open("rb") as log:
            log.seek(self._begun)
            return log.read().decode(errors="replace")

    def await_ready(self) -> None:
        """Until its own ready line; fails with its last words."""
        deadline = time.monotonic() + START_LIMIT
        while FIRED_UP not in self.said():
            tail = "\n".join(self.said().splitlines()[-20:])
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{self.name} ({self.kind.name}) is not ready:\n{tail}")
            time.sleep(0.05)

    def running(self) -> int:
        """Requests that hold a slot or wait for one, by its own word."""
        answer = request("GET", self.port, "/v1/loads?include=core,queues", timeout=30)
        loads = answer.json["loads"][0]
        return int(loads["num_running_reqs"]) + int(loads["num_waiting_reqs"])

    def kill(self) -> None:
        """SIGKILL the whole session at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer, whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def cluster(self) -> str:
        return self.headers.get("x-rig-cluster", "")


def request(
    method: str,
    port: int,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    host: str = "127.0.0.1",
) -> Answer:
    """One request on a connection of its own."""
    line = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        head = {"Content-Type": "application/json", **(headers or {})}
        line.request(method, path, data, head)
        answer = line.getresponse()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, fields, answer.read())
    finally:
        line.close()


@dataclass
class Endpoint:
    """Two engines and the proxy in front of them, with what a test can do to each."""

    engines: dict[str, Engine]
    home: Home
    port: int = 0
    proxy: subprocess.Popen[bytes] | None = None
    listener: socket.socket | None = None
    daemon: DaemonsEnd | None = None
    table: Table = field(default_factory=lambda: Table("", 0, Mono(0.0), (), TablePolicy()))

    # the proxy --------------------------------------------------------------------------

    def start(self, host: str = "127.0.0.1") -> None:
        """Start a proxy on a new socket, linked to a daemon's end in our hand."""
        for place in (self.home.state, self.home.logs):
            place.mkdir(parents=True, exist_ok=True)
        self.table = self.usual()
        self.home.table.write_bytes(link_wire.encode(self.table))
        self.daemon = DaemonsEnd(self.home.socket, self.table)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family, backlog=256)
        self.port = self.listener.getsockname()[1]
        self.begin_proxy()

    def begin_proxy(self) -> None:
        """One more proxy process on the same socket."""
        assert self.listener is not None
        number = str(self.listener.fileno())
        home = str(self.home.config.parent)
        with (self.home.logs / "proxy.log").open("ab") as output:
            self.proxy = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "rigctl.proxy.main"),
                    *("--home", home, "--listen-fd", number),
                ],
                pass_fds=(self.listener.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_for(self._ready, 20, "the proxy to take work")

    def _ready(self) -> bool:
        assert self.proxy is not None
        assert self.listener is not None
        if self.proxy.poll() is not None:
            pytest.fail(f"the proxy ended with {self.proxy.returncode}:\n{self.said()}")
        with contextlib.suppress(OSError, http.client.HTTPException):
            host = self.listener.getsockname()[0]
            return self.ask("GET", "/readyz", timeout=2, host=host).status == 200
        return False

    def said(self) -> str:
        """The proxy's own log."""
        log = self.home.logs / "proxy.log"
        return log.read_text(errors="replace")[-6000:] if log.exists() else ""

    def stop(self) -> None:
        """End proxy and link; the engines stay."""
        if self.daemon is not None:
            self.daemon.close()
            self.daemon = None
        if self.proxy is not None:
            if self.proxy.poll() is None:
                self.proxy.kill()
            self.proxy.wait(20)
        if self.listener is not None:
            self.listener.close()

    # the table --------------------------------------------------------------------------

    def usual(self) -> Table:
        """Both engines ready, the gates open."""
        groups = tuple(self._row(name) for name in self.engines)
        order = tuple(group.name for group in groups)
        policy = TablePolicy(model=MODEL, order=order, default_output=64, hold=20.0)
        return Table("test", 1, Mono(time.monotonic()), groups, policy)

    def _row(self, name: str) -> TableGroup:
        engine = self.engines[name]
        return TableGroup(
            name=GroupName(name),
            host="127.0.0.1",
            port=engine.port,
            model=MODEL,
            state="ready",
            gate="open",
            run=engine.run,
            window=WINDOWS[name],
            pool=4 * WINDOWS[name],
            slots=SLOTS,
            header_rid=True,
        )

    def tell(
        self,
        groups: Mapping[str, Mapping[str, Any]] | None = None,
        clients: tuple[TableClient, ...] = (),
        **policy: Any,
    ) -> None:
        """A new table, complete: the usual one with these changes, sent over the link."""
        assert self.daemon is not None
        base, changes = self.usual(), groups or {}
        rows = tuple(replace(row, **dict(changes.get(row.name, {}))) for row in base.groups)
        self.table = replace(
            base,
            seq=self.table.seq + 1,
            groups=rows,
            policy=replace(base.policy, **policy),
            clients=clients,
        )
        self.daemon.say(self.table)

    # from outside -----------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        """One request to the endpoint."""
        return request(method, self.port, path, body, **more)

    def chat(self, text: str = "", **more: Any) -> Answer:
        """One buffered chat answer; `headers` are the request's, the rest goes into its body.

        Without a text it asks what nobody has asked before: no session's home decides.
        """
        text = text or f"say:short {next(_NUMBERS)}"
        headers = more.pop("headers", None)
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}]} | more
        return self.ask("POST", "/v1/chat/completions", body, headers=headers)

    def metric(self, name: str, **labels: str) -> float:
        """A sample of the endpoint's own /metrics; several of them summed, 0 for none."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        total = 0.0
        for line in self.ask("GET", "/metrics").body.decode().splitlines():
            head, _, value = line.rpartition(" ")
            if head.partition("{")[0] == name and all(part in head for part in wanted):
                total += float(value)
        return total

    def in_flight(self) -> float:
        """Requests that the proxy counts as being with an engine."""
        return self.metric("rigctl_in_flight")

    def await_calm(self, seconds: float = 30.0) -> None:
        """Nothing is under way or queued, by the proxy's word and by each living engine's own."""

        def calm() -> bool:
            alive = [each for each in self.engines.values() if each.process.poll() is None]
            ours = self.in_flight() + self.metric("rigctl_queued")
            return ours == 0 and all(each.running() == 0 for each in alive)

        self.wait_for(calm, seconds, "nothing to be under way")

    def wait_for(self, ready: Callable[[], object], seconds: float, what: str) -> float:
        """Wait for something; seconds it took. Fails with the proxy's last words."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if ready():
                return time.monotonic() - began
            time.sleep(0.03)
        pytest.fail(f"waited {seconds:.0f} s for {what}\n{self.said()}")


@contextlib.contextmanager
def running_engines(kind: Engines, folder: Path) -> Iterator[dict[str, Engine]]:
    """Both engines, ready; ended with their sessions."""
    engines = {name: Engine(kind, name, folder) for name in WINDOWS}
    try:
        for engine in engines.values():
            engine.start()
        for engine in engines.values():
            engine.await_ready()
        yield engines
    finally:
        for engine in engines.values():
            if hasattr(engine, "process"):
                engine.kill()


@contextlib.contextmanager
def endpoint(engines: dict[str, Engine], host: str = "127.0.0.1") -> Iterator[Endpoint]:
    """A proxy of its own in front of those engines."""
    # Short, because socket paths end at 108 bytes.
    folder = tempfile.mkdtemp(prefix="served-")
    made = Endpoint(engines, find_home(folder))
    try:
        made.start(host)
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
