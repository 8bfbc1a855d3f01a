"""The command line with the project's real daemon, started by it, and with the whole demo."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w
from cli_rig import until

from rigctl.sim.demo import free_ports

RIG = """
schema_version = 1
[[group]]
name = "long"
cards = ["GPU-00040000-1111-2222-3333-444455556666"]
port = 39999
model = "m"
engine = ["true"]
"""


@pytest.fixture
def real_home(home: Path, rigctl) -> Iterator[Path]:
    """A home with a rig.toml whose daemon, if one was started, is ended with the test."""
    (home / "rig.toml").write_text(RIG)
    yield home
    done = rigctl("daemon", "stop", "--yes")
    assert done.returncode in (0, 3), done.stderr


@pytest.mark.case("C93")
def test_an_act_starts_a_daemon_and_says_so_status_does_not(real_home, rigctl) -> None:
    """`start` over SSH: a daemon, a word about it, once a word about logging out; status: none."""
    ssh = {"SSH_CONNECTION": "10.0.0.2 50000 10.0.0.1 22"}
    assert rigctl("status", env=ssh).returncode == 3
    assert rigctl("logs", "long", env=ssh).returncode == 1
    assert rigctl("journal", env=ssh).returncode == 0
    assert rigctl("doctor", env=ssh).returncode in (1, 2)
    assert not (real_home / "state" / "rigctl.sock").exists()
    first = rigctl("start", "long", env=ssh)
    assert "started the rig's daemon" in first.stderr
    assert "enable-linger" in first.stderr
    assert rigctl("status").returncode == 0
    second = rigctl("start", "long", env=ssh)
    assert "started the rig's daemon" not in second.stderr
    assert "enable-linger" not in second.stderr
    stopped = rigctl("daemon", "stop")
    assert stopped.returncode == 0, stopped.stderr
    assert rigctl("status").returncode == 3


def test_a_daemon_that_cannot_start_gives_its_own_words(home, rigctl) -> None:
    """A broken rig.toml: exit code 3, and the fault with file and line."""
    (home / "rig.toml").write_text("[rig]\nnaem = 1\n")
    done = rigctl("start", "long")
    assert done.returncode == 3
    assert "rig.toml:2" in done.stderr


@pytest.fixture
def demo(home: Path) -> Iterator[subprocess.Popen[str]]:
    """`rigctl demo --no-panel`, fast, with nobody asking anything."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rigctl", "demo", "--no-panel", "--speed", "40", "--scene", "quiet"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


def test_the_demo_can_be_run_and_left(demo, home, rigctl) -> None:
    """A second terminal looks in, frees, lends and reclaims; SIGTERM ends all that was started."""

    def running() -> list[str]:
        done = rigctl("status", "--json")
        return (
            [group["state"] for group in json.loads(done.stdout)["groups"]] if done.stdout else []
        )

    until(lambda: running() == ["ready", "ready"], "both engines", 60)
    freed = rigctl("free", "long", "--yes", "--for", "1h")
    assert freed.returncode == 0, freed.stderr
    assert freed.stdout == "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=4,5,6,7\n"
    back = rigctl("reclaim", "long", "--wait")
    assert back.returncode == 0, back.stderr
    show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['RIGCTL_GROUP'])"
    lent = rigctl(
        "lend", "long", "--yes", "--", sys.executable, "-c", show + "; raise SystemExit(9)"
    )
    assert lent.returncode == 9, lent.stderr
    assert lent.stdout == "4,5,6,7 long\n"
    until(lambda: running() == ["ready", "ready"], "the engine after the lend", 60)
    kinds = [json.loads(line)["kind"] for line in rigctl("journal", "--json").stdout.splitlines()]
    assert kinds.count("freed") == 2, kinds
    pids = [group["pid"] for group in json.loads(rigctl("status", "--json").stdout)["groups"]]
    probed = json.loads(rigctl("doctor", "--probe", "--json").stdout)["findings"]
    answers = [each["say"] for each in probed if each["id"] == "probe-answer"]
    assert ["standard answers" in answers[0], "long answers" in answers[1]] == [True, True], answers
    states = {each["severity"] for each in probed if each["id"] == "probe-states"}
    assert states == {"ok"}, probed
    began = time.monotonic()
    demo.send_signal(signal.SIGTERM)
    demo.wait(60)
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "the engines' end", 60)
    until(lambda: rigctl("status").returncode == 3, "the daemon's end", 60)
    assert time.monotonic() - began < 120


MODEL = "qwen3.8-27b"
"""What the demo's engines are called."""


def chat(port: int, key: str = "") -> tuple[int, dict[str, str]]:
    """Status and headers of one short request at the endpoint."""
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    asked = {"model": MODEL, "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}]}
    talk = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        talk.request("POST", "/v1/chat/completions", json.dumps(asked), headers)
        answer = talk.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        talk.close()


def test_the_endpoint_follows_its_keys_and_its_file(demo, home, rigctl) -> None:
    """It explains what it did, a key closes it, and a new port waits for the restart."""
    file = home / "rig.toml"

    def view() -> dict[str, object]:
        done = rigctl("endpoint", "--json")
        return json.loads(done.stdout) if done.stdout else {}

    def ready() -> bool:
        shown = rigctl("status", "--json").stdout
        return bool(shown) and all(one["state"] == "ready" for one in json.loads(shown)["groups"])

    until(ready, "both engines", 60)
    rig = tomllib.loads(file.read_text())
    first, second = free_ports(2)
    first = rig.get("proxy", {}).get("port", first)
    file.write_text(tomli_w.dumps(rig | {"proxy": {"port": first}}))
    until(lambda: view().get("state") == "up", "the endpoint", 60)
    assert view()["base_url"] == f"http://127.0.0.1:{first}/v1"
    made = rigctl("keys", "add", "visitor")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    until(lambda: chat(first)[0] == 401, "the key to count", 30)
    until(lambda: chat(first, key)[0] == 200, "visitor to be let in", 30)
    status, headers = chat(first, key)
    assert (status, headers["x-rig-cluster"]) == (200, "standard"), headers
    request = headers["x-rig-request"]
    until(lambda: request in rigctl("route", "explain").stdout, "the decision", 30)
    explained = rigctl("route", "explain", "--request", request).stdout
    assert f"{request}  visitor  session" in explained
    assert "to standard by the rule `" in explained
    assert "visitor" in rigctl("sessions", "--client", "visitor").stdout
    file.write_text(tomli_w.dumps(rig | {"proxy": {"port": second}}))
    assert f"still listens on 127.0.0.1:{first}" in rigctl("config", "check").stderr

    def moved() -> bool:
        # The daemon looks at its file once a second: a restart right after the edit may be early.
        done = rigctl("endpoint", "restart")
        assert done.returncode == 0, done.stderr
        return view()["base_url"] == f"http://127.0.0.1:{second}/v1"

    until(moved, "the new port", 30)
    until(lambda: chat(second, key)[0] == 200, "an answer at the new port", 30)
    assert rigctl("keys", "remove", "visitor", "--yes").returncode == 0
    until(lambda: chat(second, key)[0] != 200 or chat(second)[0] == 200, "the key's end", 30)
    assert rigctl("status", "--check").returncode == 0


def test_scenes_are_listed_and_unknown_ones_refused(rigctl) -> None:
    """`--scene list` says what there is; a wrong name is usage."""
    listed = rigctl("demo", "--scene", "list")
    assert listed.returncode == 0
    for scene in ("quiet", "team", "wall", "collapse"):
        assert scene in listed.stdout
    assert rigctl("demo", "--scene", "nope").returncode == 2
    assert rigctl("demo", "--speed", "0").returncode == 2
