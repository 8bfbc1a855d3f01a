"""The relays that ours is measured beside: nginx, HAProxy, SGLang's own router, LiteLLM.

Nothing is installed here. A relay that is missing says which command would bring it, and every bar
that needs it counts as not met.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rigctl.bench import cost
from rigctl.bench.peers import PeerMissingError
from rigctl.bench.relay_frames import MODEL
from rigctl.bench.relay_loads import KEY

NGINX, HAPROXY, ROUTER, LITELLM = "nginx", "HAProxy", "sglang-router", "LiteLLM"

START_LIMIT = 90.0
"""Seconds until the first answer; LiteLLM needs nine of them on idle cores."""

_PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))
"""Servers lie where an ordinary user's PATH does not look."""


@dataclass(frozen=True, slots=True)
class Relay:
    """One way from client to engine: the ports to ask, and the process that is paid for it."""

    name: str
    ports: tuple[int, ...]
    pid: int = 0
    """Of the first process; 0: there is none, the engines are asked directly."""

    def pids(self) -> tuple[int, ...]:
        """The whole process tree."""
        return (self.pid, *cost.children(self.pid)) if self.pid else ()

    def cpu(self) -> float:
        """Seconds of user and system time that the tree has used."""
        return sum(map(cost.exact_cpu_seconds, self.pids()))

    def memory(self) -> float:
        """MB (10^6 bytes) that the tree holds."""
        return cost.total_memory(self.pids())


_NGINX = """\
{user}worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.err warn;
events {{ worker_connections 1024; }}
http {{
 access_log off; client_body_temp_path {folder}/t; proxy_temp_path {folder}/t;
 fastcgi_temp_path {folder}/t; uwsgi_temp_path {folder}/t; scgi_temp_path {folder}/t;
 upstream engines {{ {servers} keepalive 128; }}
 keepalive_requests 1000000;
 server {{
  listen 127.0.0.1:{port} backlog=512;
  client_max_body_size 64m; client_body_buffer_size 4m;
  location / {{
   proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection "";
   proxy_buffering off; proxy_read_timeout 3600s;
  }}
 }}
}}
"""

_HAPROXY = """\
global
  nbthread 1
  maxconn 2000
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  option http-keep-alive
  option http-no-delay
  http-reuse always
frontend clients
  bind 127.0.0.1:{port}
  default_backend engines
backend engines
{servers}
"""


def _nginx(folder: Path, port: int, engines: Sequence[int]) -> list[str]:
    program = _server("nginx", "apt install nginx-light")
    config = folder / "nginx.conf"
    servers = " ".join(f"server 127.0.0.1:{each};" for each in engines)
    user = "user root; " if os.geteuid() == 0 else ""
    config.write_text(_NGINX.format(folder=folder, port=port, servers=servers, user=user))
    return [program, "-c", str(config), "-p", str(folder), "-e", str(folder / "nginx.err")]


def _haproxy(folder: Path, port: int, engines: Sequence[int]) -> list[str]:
    program = _server("haproxy", "apt install haproxy")
    config = folder / "haproxy.cfg"
    servers = "\n".join(f"  server engine{each} 127.0.0.1:{each}" for each in engines)
    config.write_text(_HAPROXY.format(port=port, servers=servers))
    return [program, "-f", str(config)]


def _router(folder: Path, port: int, engines: Sequence[int]) -> list[str]:
    python = _python(ROUTER, "RIGCTL_BENCH_ROUTER", "sglang_router", "sglang-router==0.3.2")
    workers = [f"http://127.0.0.1:{each}" for each in engines]
    return [
        *(python, "-m", "sglang_router.launch_router", "--host", "127.0.0.1"),
        *("--port", str(port), "--worker-urls", *workers, "--policy", "round_robin"),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())),
        *("--log-level", "warn"),
    ]


def _litellm(folder: Path, port: int, engines: Sequence[int]) -> list[str]:
    python = _python(LITELLM, "RIGCTL_BENCH_LITELLM", "litellm", "litellm[proxy]==1.108.7")
    script = Path(python).with_name("litellm")
    models = [
        {
            "model_name": MODEL,
            "litellm_params": {
                "model": f"openai/{MODEL}",
                "api_base": f"http://127.0.0.1:{each}/v1",
                "api_key": "none",
            },
        }
        for each in engines
    ]
    config = folder / "litellm.yaml"
    # JSON is YAML too.
    config.write_text(json.dumps({"model_list": models, "general_settings": {"master_key": KEY}}))
    return [str(script), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]


_QUIET = {
    "LITELLM_LOG": "ERROR",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_PROXY": "*",
}
"""No peer may ask the network for anything while it is measured."""

COMMANDS = {NGINX: _nginx, HAPROXY: _haproxy, ROUTER: _router, LITELLM: _litellm}
"""How each is started: folder for its files, its port, the engines' ports -> command line."""


def _server(name: str, cure: str) -> str:
    found = shutil.which(name, path=_PLACES)
    if found is None:
        raise PeerMissingError(f"{name} is not installed: {cure}")
    return found


def _python(name: str, variable: str, module: str, package: str) -> str:
    """The interpreter that has a peer which does not live beside our own pinned packages."""
    said = os.environ.get(variable)
    if said:
        if not Path(said).exists():
            raise PeerMissingError(f"{variable}={said} is no interpreter")
        return said
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "rigctl-bench" / module
    if (folder / "bin/python").exists():
        return str(folder / "bin/python")
    raise PeerMissingError(
        f"{name} is not installed: python3 -m venv {folder} && "
        f"{folder}/bin/pip install '{package}' (or {variable}=an interpreter that has it)"
    )


def free_port() -> int:
    """A loopback port that nobody holds now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def peer(name: str, folder: Path, engines: Sequence[int]) -> Iterator[Relay]:
    """One peer in front of the engines, answering; it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    argv = COMMANDS[name](folder, port, engines)
    with running(argv, folder, {**os.environ, **_QUIET}) as process:
        await_answer(name, port, process, folder / "output")
        yield Relay(name, (port,), process.pid)


@contextlib.contextmanager
def running(
    argv: Sequence[str], folder: Path, env: Mapping[str, str], keep: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own, its words in `folder`/output; ends with the block.

    `keep` are descriptors that it inherits.
    """
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(keep),
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program that leads its session: politely, then the whole of it."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    # Not reaped yet, or just now: the number is still this session's.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def await_answer(name: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a chat request through the relay is answered with 200.

    PeerMissingError with its last words when it ends, or does not answer in time.
    """
    body = {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json", "authorization": f"Bearer {KEY}"},
    )
    # Without environment proxies: they would catch loopback traffic (C44).
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_LIMIT
    last = "no answer"
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with opener.open(request, timeout=2) as answer:
                answer.read()
                return
        except urllib.error.HTTPError as refusal:
            last = f"{refusal.code} {refusal.read()[:200]!r}"
        except (OSError, ValueError) as problem:
            last = str(problem)
        time.sleep(0.1)
    words = " / ".join(log.read_text(errors="replace").splitlines()[-5:])
    raise PeerMissingError(f"{name} did not answer ({last}): {words[-500:]}")
