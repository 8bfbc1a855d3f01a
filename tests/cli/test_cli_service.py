"""`rigctl service`: the unit's text, systemd's own opinion of it, and what is told when."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_rig import serving
from cli_views import rig

from rigctl.cli.unit import container_pids, quoted

UNIT = Path(".config/systemd/user/rigctl.service")


@pytest.fixture
def login(tmp_path: Path, home: Path) -> dict[str, str]:
    """The environment of a user with a folder of their own."""
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}


@pytest.fixture
def systemctl(tmp_path: Path, login: dict[str, str]) -> Callable[[], list[str]]:
    """A systemctl that notes what it is told and says the unit is inactive."""
    folder = tmp_path / "bin"
    folder.mkdir()
    seen = tmp_path / "seen"
    program = folder / "systemctl"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {seen}\n'
        'case "$2" in is-active) echo inactive; exit 3 ;; is-enabled) exit 1 ;; esac\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return lambda: seen.read_text().splitlines() if seen.exists() else []


def settings(text: str) -> dict[str, str]:
    """The unit's settings by name."""
    lines = (line for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def test_the_unit_keeps_engines_and_cards(rigctl, home) -> None:
    """KillMode=process, restarts, a limit above the drain, default.target, no hardening."""
    done = rigctl("service", "install", "--print")
    unit = settings(done.stdout)
    assert unit["KillMode"] == "process"
    assert unit["Restart"] == "on-failure"
    assert unit["WantedBy"] == "default.target"
    assert unit["OOMPolicy"] == "continue"
    assert float(unit["TimeoutStopSec"]) >= 300
    assert unit["ExecStart"].startswith("/")
    assert unit["ExecStart"].endswith(f"--home {home} daemon")
    assert unit["Environment"].startswith("PATH=")
    for name in (
        "PrivateDevices",
        "ProtectSystem",
        "DeviceAllow",
        "DevicePolicy",
        "NoNewPrivileges",
    ):
        assert name not in unit


def test_the_stop_limit_is_above_the_configs_drain(rigctl, home) -> None:
    """A rig.toml with a long drain gets a longer limit."""
    (home / "rig.toml").write_text(
        'schema_version = 1\n[[group]]\nname = "long"\ncards = ["GPU-1"]\nport = 30000\n'
        'model = "m"\ndrain = 900\nstop_grace = 90\n'
    )
    unit = settings(rigctl("service", "install", "--print").stdout)
    assert float(unit["TimeoutStopSec"]) == 900 + 90 + 60


def test_systemd_finds_nothing_to_say(rigctl, tmp_path) -> None:
    """`systemd-analyze --user verify` prints nothing, for an odd home too."""
    home = tmp_path / "a b%c$d"
    home.mkdir()
    text = rigctl("--home", str(home), "service", "install", "--print").stdout
    assert '"' in settings(text)["ExecStart"]
    tool = shutil.which("systemd-analyze")
    if tool is None:
        return  # its syntax is held by the other tests; only systemd itself can say more
    unit = tmp_path / "rigctl.service"
    unit.write_text(text)
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    done = subprocess.run(
        [tool, "--user", "verify", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(run)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout + done.stderr).strip() == ""


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/usr/bin/rigctl", "/usr/bin/rigctl"),
        ("a b", '"a b"'),
        ("50%", "50%%"),
        ("$HOME", "$$HOME"),
        ('a"b\\', '"a\\"b\\\\"'),
        ("", '""'),
    ],
)
def test_words_survive_systemds_reading(word: str, written: str) -> None:
    """Quotes, percent and dollar signs are written so that systemd reads the word back."""
    assert quoted(word) == written


@pytest.mark.case("C59")
def test_install_writes_enables_forgets_failures_and_starts(rigctl, login, systemctl, home) -> None:
    """reset-failed comes before the start: a unit in start-limit-hit would refuse it."""
    done = rigctl("service", "install", env=login)
    assert done.returncode == 0, done.stderr
    unit = Path(login["HOME"]) / UNIT
    assert "KillMode=process" in unit.read_text()
    told = [line for line in systemctl() if "is-" not in line]
    assert told == [
        "--user daemon-reload",
        "--user enable rigctl.service",
        "--user reset-failed rigctl.service",
        "--user start rigctl.service",
    ]
    assert "enable-linger" in done.stderr


def test_a_second_install_changes_nothing(rigctl, login, systemctl) -> None:
    """Installed twice: the same file, no restart."""
    rigctl("service", "install", env=login)
    unit = Path(login["HOME"]) / UNIT
    before = unit.stat().st_mtime_ns
    done = rigctl("service", "install", env=login)
    assert done.returncode == 0
    assert unit.stat().st_mtime_ns == before
    assert not any("restart" in line for line in systemctl())


def test_a_daemon_outside_the_service_is_left_alone(rigctl, login, systemctl, home) -> None:
    """One runs already: it is not doubled, and the hand-over command is said."""
    with serving(home, rig()):
        done = rigctl("service", "install", env=login)
    assert done.returncode == 0
    assert "rigctl daemon stop && systemctl --user start" in done.stderr
    assert not any(line.endswith("start rigctl.service") for line in systemctl())


def test_without_a_user_manager_the_commands_are_printed(rigctl, login) -> None:
    """systemctl that cannot reach a bus: exit code 1, what it said, and what to do by hand."""
    login = {**login, "XDG_RUNTIME_DIR": "/nowhere", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/no"}
    done = rigctl("service", "install", env=login)
    assert done.returncode == 1
    assert (Path(login["HOME"]) / UNIT).exists()
    assert "systemctl --user enable --now" in done.stderr


def test_status_and_uninstall(rigctl, login, systemctl) -> None:
    """status says how the unit stands with exit code 3 while it does not run; uninstall ends it."""
    told = json.loads(rigctl("service", "status", "--json", env=login).stdout)
    assert (told["installed"], told["active"]) == (False, "inactive")
    rigctl("service", "install", env=login)
    status = rigctl("service", "status", env=login)
    assert status.returncode == 3
    assert "active: inactive" in status.stdout
    done = rigctl("service", "uninstall", env=login)
    assert done.returncode == 0
    assert not (Path(login["HOME"]) / UNIT).exists()
    assert "--user disable --now rigctl.service" in systemctl()
    assert "nothing to remove" in rigctl("service", "uninstall", env=login).stderr


@pytest.mark.case("C90")
def test_containers_that_hold_cards_are_seen(tmp_path: Path) -> None:
    """A process is counted when its cgroup is a container's and it has a card open."""
    for pid, cgroup, link in (
        (10, "0::/system.slice/docker-abc.scope", "/dev/nvidia0"),
        (11, "0::/system.slice/docker-abc.scope", "/dev/null"),
        (12, "0::/user.slice/user-1000.slice", "/dev/nvidia0"),
        (13, "0::/user.slice/libpod-conmon-1.scope", "/dev/nvidiactl"),
    ):
        descriptors = tmp_path / str(pid) / "fd"
        descriptors.mkdir(parents=True)
        (tmp_path / str(pid) / "cgroup").write_text(cgroup + "\n")
        (descriptors / "5").symlink_to(link)
    assert container_pids(tmp_path) == [10, 13]


def test_our_own_processes_are_no_containers() -> None:
    """On this machine nothing of the tests holds a card."""
    assert os.getpid() not in container_pids()
