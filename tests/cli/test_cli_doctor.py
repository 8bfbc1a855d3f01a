"""`rigctl doctor` as a process: what it gathers on a real machine, and its exit codes."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import serving
from cli_views import card, endpoint, group, rig

from rigctl.core.snapshot import Notice


def findings(done) -> dict[str, dict[str, str]]:
    """The findings of a `--json` run by id."""
    told = json.loads(done.stdout)
    assert (told["schema"], told["kind"]) == (1, "doctor")
    return {finding["id"]: finding for finding in told["findings"]}


def program(folder: Path, name: str, text: str) -> None:
    """An executable file."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_it_tells_our_program_from_hamlibs(home, rigctl, tmp_path) -> None:
    """A `rigctl` that is not ours first on PATH is a warning that names gpurig."""
    script = "#!/usr/bin/python3\nfrom rigctl.cli.main import run\nrun()\n"
    program(tmp_path / "ours", "rigctl", script)
    program(tmp_path / "ours", "gpurig", script)
    program(tmp_path / "hamlib", "rigctl", "\x7fELF\x02")
    ours, hamlib = str(tmp_path / "ours"), str(tmp_path / "hamlib")
    rest = os.environ["PATH"]
    good = findings(rigctl("doctor", "--json", env={"PATH": f"{ours}:{hamlib}:{rest}"}))["path"]
    bad = findings(rigctl("doctor", "--json", env={"PATH": f"{hamlib}:{ours}:{rest}"}))["path"]
    assert good["severity"] == "ok"
    assert bad["severity"] == "warning"
    assert f"{hamlib}/rigctl" in bad["say"]
    assert f"{ours}/gpurig" in bad["fix"]


def test_a_running_daemon_brings_its_own_findings(home, rigctl) -> None:
    """Cards, notices and versions come from the daemon; a mask over no secret is needed."""
    cards = tuple(card(n, persistence=0.0 if n == 3 else 1.0) for n in range(8))
    notices = (Notice("idle-but-hot", "warning", "standard idles at 520 W"),)
    (home / "state").mkdir(mode=0o700)
    with serving(home, rig(cards=cards, notices=notices, simulated=True)):
        done = rigctl("doctor", "--json")
    found = findings(done)
    assert found["daemon"]["severity"] == "ok"
    assert found["socket"]["severity"] == "ok"
    assert "card 3" in found["persistence"]["say"]
    assert found["idle-but-hot"]["say"] == "standard idles at 520 W"
    assert found["driver-library"]["severity"] == "skipped"
    assert done.returncode == 1


def test_a_folder_others_may_write_in_is_a_failure(home, rigctl) -> None:
    """The state folder's mode is looked at, and gives exit code 2."""
    (home / "state").mkdir()
    (home / "state").chmod(0o777)
    with serving(home, rig(simulated=True)):
        done = rigctl("doctor", "--json")
    assert findings(done)["socket"]["severity"] == "failure"
    assert done.returncode == 2


@pytest.mark.case("C44")
def test_proxy_variables_are_named_without_their_values(home, rigctl) -> None:
    """The names are said, never the address: it may have a password in it."""
    env = {
        "http_proxy": "http://anna:hunter2@127.0.0.1:7890",
        "ALL_PROXY": "socks5://127.0.0.1:7891",
        "NO_PROXY": "localhost",
    }
    done = rigctl("doctor", "--json", env=env)
    proxies = findings(done)["proxies"]
    assert proxies["severity"] == "warning"
    assert "http_proxy, ALL_PROXY in this shell" in proxies["say"]
    assert "hunter2" not in done.stdout + done.stderr


def test_a_faulty_config_is_a_failure_for_each_fault(home, rigctl) -> None:
    """Every line of the config's error is a finding, with file and line."""
    (home / "rig.toml").write_text('[rig]\nnaem = "x"\n')
    done = rigctl("doctor", "--json")
    told = json.loads(done.stdout)["findings"]
    faults = [each["say"] for each in told if each["id"] == "config"]
    assert any("rig.toml:2" in fault for fault in faults), faults


GROUP = '[[group]]\nname = "standard"\ncards = []\nport = 30001\nmodel = "tiny/model"\n'


@pytest.mark.case("C44")
def test_proxy_variables_leave_doctor_itself_alone(home, rigctl) -> None:
    """The daemon is reached and looked at as without them: rigctl never reads these variables."""
    env = {"http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "socks5://127.0.0.1:9"}
    with serving(home, rig(simulated=True, endpoint=endpoint())):
        told = findings(rigctl("doctor", "--json", env=env))
        assert rigctl("sessions", env=env).returncode == 0
    assert told["daemon"]["severity"] == "ok"
    assert "see the endpoint and the engines as down" in told["proxies"]["say"]


def test_the_endpoints_port_is_looked_at(home, rigctl) -> None:
    """Free, or held by somebody, who is named; without [proxy] nothing is said of it."""
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        port = somebody.getsockname()[1]
        (home / "rig.toml").write_text(GROUP + f"[proxy]\nport = {port}\n")
        taken = findings(rigctl("doctor", "--json"))["endpoint-port"]
    free = findings(rigctl("doctor", "--json"))["endpoint-port"]
    (home / "rig.toml").write_text(GROUP)
    assert "endpoint-port" not in findings(rigctl("doctor", "--json"))
    assert taken["severity"] == "failure"
    assert f"(pid {os.getpid()}) listens on port {port}" in taken["say"]
    assert (free["severity"], free["say"]) == ("ok", f"port {port} is free for the endpoint")


def test_keys_that_others_could_read_are_a_failure(home, rigctl) -> None:
    """With the command that mends it; sound ones are counted."""
    (home / "rig.toml").write_text(GROUP + "[proxy]\nport = 8088\n")
    rigctl("keys", "add", "anna")
    sound = findings(rigctl("doctor", "--json"))["endpoint-keys"]
    (home / "state" / "clients.toml").chmod(0o644)
    ill = findings(rigctl("doctor", "--json"))["endpoint-keys"]
    assert (sound["severity"], sound["say"][:18]) == ("ok", "1 client has a key")
    assert ill["severity"] == "failure"
    assert f"chmod 600 {home}/state/clients.toml" in ill["say"]


def test_what_the_engines_lack_is_read_from_both_files(home, rigctl) -> None:
    """rig.toml says what an engine is given; the running one may have been started without."""
    flags = 'flags = ["--enable-session-radix-cache"]\nmax_running_requests = 8\n'
    (home / "rig.toml").write_text(GROUP + flags + "[proxy]\nport = 8088\n")
    lacking = group(
        differs=(
            "--enable-cache-report: planned, not running",
            "SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES 1: planned, not running",
        )
    )
    shown = rig(simulated=True, groups=(lacking,), endpoint=endpoint())
    with serving(home, shown):
        told = findings(rigctl("doctor", "--json"))
    assert "endpoint-session-cache" not in told
    assert told["endpoint-cache-report"]["fix"].startswith("rigctl restart standard")
    assert "/v1/messages" in told["endpoint-header-rid"]["say"]
    assert "thinking budgets have no effect" in told["endpoint-thinking"]["say"]
    assert "sends standard 6 requests" in told["endpoint-slots"]["say"]
    assert "max_running_requests is 8" in told["endpoint-slots"]["say"]


def test_it_starts_and_changes_nothing(home, rigctl) -> None:
    """Without a daemon doctor looks all the same, and leaves nothing behind."""
    before = sorted(home.rglob("*"))
    done = rigctl("doctor", env={"COLUMNS": "80"})
    assert done.returncode in (1, 2)
    assert sorted(home.rglob("*")) == before
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout
    assert "fix: rigctl config init" in done.stdout


@pytest.mark.tmux
def test_inside_tmux_the_clipboard_is_looked_at(home, terminal, tmp_path) -> None:
    """tmux's own default keeps OSC 52 of programs to itself, and doctor says so."""
    tmux = ("tmux", "-S", str(tmp_path / "t"), "-f", "/dev/null")
    out = tmp_path / "out"
    command = f"{sys.executable} -m rigctl doctor --json > {out}; echo told; sleep 60"
    screen = terminal("new-session", command, argv=tmux)
    try:
        screen.expect("told")
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)
        screen.wait()
    told = {each["id"]: each for each in json.loads(out.read_text())["findings"]}
    assert told["tmux-clipboard"]["severity"] == "warning"
    assert "set-clipboard is external" in told["tmux-clipboard"]["say"]
