"""A plan on the real SGLang: it starts as written, guards its port by the key, and shows none."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from config_kit import ConfigKit
from support_sglang import FIRED_UP, Installed, RealServer, end, free_port, note_engine

from rigctl.config.diff import differences
from rigctl.config.plan import launch_plan
from rigctl.config.running import draft_group, find_servers
from rigctl.config.secrets import write_key_file

KEY = "sk-0123456789abcdef"


def rig(installed: Installed, port: int) -> str:
    """One group without cards, with every kind of value that a CPU run can have."""
    return f"""\
[[group]]
name = "cpu"
cards = []
port = {port}
model = "{installed.model}"
served_name = "tiny"
context_length = 4096
max_total_tokens = 4096
max_running_requests = 4
reasoning_parser = "qwen3"
sleep_on_idle = true
api_key = {{ env = "RIG_TEST_KEY" }}
engine = ["{installed.python}", "-W", "ignore", "-m", "sglang.launch_server"]
flags = ["--device", "cpu", "--mem-fraction-static", "0.2"]
env = {json.dumps(installed.env).replace(": ", " = ")}
"""


def status(url: str, key: str = "") -> int:
    """What the server answers to this key."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.sglang
@pytest.mark.timeout(360)
def test_a_real_engine_starts_by_the_plan_and_shows_no_key(
    real_sglang: Installed, rig_file: ConfigKit, tmp_path: Path
) -> None:
    """The key comes from a 0600 file, no command line has it, and the server asks for it."""
    port = free_port()
    config = rig_file.load(rig(real_sglang, port))
    environ = {**os.environ, "RIG_TEST_KEY": KEY}
    plan = launch_plan(config.groups[0], config, (), environ, True, tmp_path / "state")
    write_key_file(config.groups[0], environ, tmp_path / "state")
    log = tmp_path / "engine.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            plan.argv,
            env={**os.environ, **plan.env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    note_engine(process.pid, f"SGLang {real_sglang.version} started by a launch plan")
    server = RealServer(process, port, log)
    deadline = time.monotonic() + 300
    try:
        while FIRED_UP not in log.read_text(errors="replace"):
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, "not ready in time"
            time.sleep(0.25)
        models = f"{server.url}/v1/models"
        assert [status(models), status(models, "wrong"), status(models, KEY)] == [401, 401, 200]
        (found,) = [one for one in find_servers() if one.pid == process.pid]
        assert len(found.pids) >= 3
        for pid in found.pids:
            assert KEY.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert differences(plan.argv, found.argv, plan.env, found.env) == ()
        draft = draft_group(found, ()).config
        assert (draft.port, draft.model, draft.sleep_on_idle) == (port, real_sglang.model, True)
        assert (draft.cards, draft.context_length, draft.served_name) == ((), 4096, "tiny")
    finally:
        end(server)
