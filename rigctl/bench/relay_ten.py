"""Ten short requests at once on the simulated rig: where the proxy sends them, and who waits."""

from __future__ import annotations

import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rigctl.bench.plan import Figure, Result
from rigctl.bench.relay_plan import row
from rigctl.bench.rig import Rig, RigError, demo

REQUESTS = 10
TOKENS = 60
"""Of each answer: long enough that all ten are under way together."""

NO_WAIT = 50.0
"""Milliseconds from arrival to being sent that are no waiting: ten bodies are read and weighed."""

PATIENCE = 60.0
"""Seconds for the endpoint to stand in front of both engines."""


@dataclass(frozen=True, slots=True)
class Served:
    """One answer by the headers that explain it."""

    cluster: str
    rule: str
    waited: float
    """Milliseconds from arrival to being sent."""
    seconds: float
    """Until the answer's end."""


def measure(folder: Path) -> Result:
    """On a rig of its own, with nothing else under way; RigError when it does not serve."""
    with demo(folder, "--scene", "quiet") as rig:
        host, port = _address(rig)
        key = _key(folder)
        begin = threading.Barrier(REQUESTS)
        with ThreadPoolExecutor(REQUESTS) as clients:
            served = list(
                clients.map(lambda number: _ask(host, port, key, number, begin), range(REQUESTS))
            )
    counts = {name: sum(each.cluster == name for each in served) for name in ("standard", "long")}
    waited = [each for each in served if each.rule == "queue" or each.waited > NO_WAIT]
    rules = sorted({each.rule for each in served})
    return Result(
        row("ten"),
        (
            Figure("on standard", counts["standard"], ""),
            Figure("on long", counts["long"], ""),
            Figure("waited", len(waited), ""),
        ),
        note=f"rules {', '.join(rules)}; all served in {max(e.seconds for e in served):.1f} s",
        details={"seconds": max(each.seconds for each in served)},
    )


def _address(rig: Rig) -> tuple[str, int]:
    deadline = time.monotonic() + PATIENCE
    endpoint: dict[str, object] = {}
    while time.monotonic() < deadline:
        endpoint = rig.snapshot().get("endpoint") or {}
        if endpoint.get("state") == "up":
            found = urlsplit(str(endpoint["url"]))
            return found.hostname or "127.0.0.1", found.port or 80
        time.sleep(0.2)
    raise RigError(f"the endpoint is not up after {PATIENCE:.0f} s: {endpoint}")


def _key(home: Path) -> str:
    """Of the first of the demo's clients: lines `CLIENT KEY`."""
    return (home / "clients.keys").read_text().split()[1]


def _ask(host: str, port: int, key: str, number: int, begin: threading.Barrier) -> Served:
    body = {
        "messages": [{"role": "user", "content": f"short question {number}"}],
        "stream": True,
        "max_tokens": TOKENS,
        "ignore_eos": True,
    }
    connection = http.client.HTTPConnection(host, port, timeout=120)
    try:
        connection.connect()
        begin.wait(30)
        began = time.monotonic()
        connection.request(
            *("POST", "/v1/chat/completions", json.dumps(body)),
            {"content-type": "application/json", "authorization": f"Bearer {key}"},
        )
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200 or b"data: [DONE]" not in said:
            raise RigError(f"request {number} was answered {answer.status}: {said[-200:]!r}")
        return Served(
            answer.headers.get("x-rig-cluster", ""),
            answer.headers.get("x-rig-rule", ""),
            float(answer.headers.get("x-rig-wait-ms") or 0),
            time.monotonic() - began,
        )
    finally:
        connection.close()
