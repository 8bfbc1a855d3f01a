"""`rigctl service install|status|uninstall`: the daemon as a systemd user service."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from rigctl.cli import ask, where
from rigctl.cli.exits import FAILED, NOT_RUNNING, OK, End
from rigctl.cli.logout import LINGER, user
from rigctl.cli.talk import snapshot
from rigctl.cli.unit import LONGEST_STOP, container_pids, unit
from rigctl.cli.words import plural, say, show
from rigctl.config.assets import asset
from rigctl.config.secrets import replace_file

NAME = "rigctl.service"


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "service",
        help="the systemd user service",
        description="Runs the daemon as a systemd user service. Restarting it touches no engine.",
    )
    verbs = parser.add_subparsers(
        dest="what", metavar="install|status|uninstall", required=True, prog="rigctl service"
    )
    install = verbs.add_parser(
        "install",
        help="write, enable and start the unit",
        description="Writes the unit, enables it and starts it.",
    )
    install.add_argument("-y", "--yes", action="store_true", help="do not ask")
    install.add_argument("--print", action="store_true", help="print the unit, write nothing")
    install.set_defaults(run=run_install)
    status = verbs.add_parser(
        "status", help="is it installed, enabled, running", description="Says how the unit stands."
    )
    status.add_argument("--json", action="store_true")
    status.set_defaults(run=run_status)
    uninstall = verbs.add_parser(
        "uninstall",
        help="stop the daemon, remove the unit; engines go on",
        description="Stops the daemon and removes the unit. Engines go on.",
    )
    uninstall.set_defaults(run=run_uninstall)


def unit_file() -> Path:
    """Where the unit of this user lies."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder) / "systemd" / "user" / NAME


def run_install(args: argparse.Namespace) -> int:
    """Write and start the unit; the exit code."""
    text = unit(
        asset("units", NAME).read_text(),
        command(args.home),
        os.environ.get("PATH", os.defpath),
        stop_seconds(args.home),
    )
    if args.print:
        print(text, end="")
        return OK
    path = unit_file()
    before = path.read_text() if path.exists() else None
    if before != text:
        _mind_containers(args.yes)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text.encode())
        except OSError as error:
            raise End(FAILED, f"{path} cannot be written: {error.strerror}.") from None
        say(f"wrote {path}")
    problem = _systemctl("daemon-reload") or _systemctl("enable", NAME)
    if problem:
        raise End(FAILED, f"{path} is written, but not in use: {problem}\n{_by_hand()}")
    say("enabled: it starts with your first login after a boot." + _linger_hint())
    if _daemon_pid(args.home) and _state("is-active") != "active":
        say(
            "A daemon runs already, outside the service. To hand over (engines go on):\n"
            f"  rigctl daemon stop && systemctl --user start {NAME}"
        )
        return OK
    # A unit that failed too often refuses to start until it is told to forget that (C59).
    _systemctl("reset-failed", NAME)
    problem = _systemctl("restart" if before not in (None, text) else "start", NAME)
    if problem:
        raise End(FAILED, f"the service did not start: {problem}\nSee `rigctl logs daemon`.")
    say("started.")
    return OK


def run_status(args: argparse.Namespace) -> int:
    """Say how the unit stands; 3 when it does not run."""
    facts = {
        "schema": 1,
        "kind": "service",
        "unit": str(unit_file()),
        "installed": unit_file().exists(),
        "enabled": _state("is-enabled"),
        "active": _state("is-active"),
        "linger": lingers(),
    }
    if args.json:
        print(json.dumps(facts))
    elif not facts["installed"]:
        show("not installed (`rigctl service install`)")
    else:
        show(f"{facts['unit']}\nenabled: {facts['enabled']}\nactive: {facts['active']}")
        show(f"linger: {'on' if facts['linger'] else 'off'}" + _linger_hint())
    return OK if facts["active"] == "active" else NOT_RUNNING


def run_uninstall(args: argparse.Namespace) -> int:
    """Stop the daemon and remove the unit; the exit code."""
    path = unit_file()
    if not path.exists():
        say(f"there is no {path}: nothing to remove.")
        return OK
    problem = _systemctl("disable", "--now", NAME)
    path.unlink()
    say(f"removed {path}. Engines go on; `rigctl daemon` or any act starts a daemon again.")
    problem = problem or _systemctl("daemon-reload")
    if problem:
        say(f"systemd was not told: {problem}")
    return OK


def command(home: str | None) -> list[str]:
    """Our own command line with absolute paths, since a user manager has another PATH."""
    script = Path(sys.executable).with_name("rigctl")
    start = [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-m", "rigctl"]
    folder = home or os.environ.get("RIGCTL_HOME")
    return [*start, *(["--home", os.path.abspath(folder)] if folder else []), "daemon"]


def stop_seconds(home: str | None) -> float:
    """Longer than the longest drain and stop grace of rig.toml."""
    from rigctl.config.load import load
    from rigctl.config.paths import find_home
    from rigctl.config.schema import ConfigError

    try:
        groups = load(find_home(home).config).groups
    except (ConfigError, OSError):
        return LONGEST_STOP
    return max([LONGEST_STOP, *(group.drain + group.stop_grace + 60 for group in groups)])


def lingers() -> bool:
    """Whether this user's services start at boot and outlive the login."""
    return os.path.exists(os.path.join(LINGER, user()))


def _linger_hint() -> str:
    if lingers():
        return " It lives on after logout and starts at boot (linger is on)."
    return (
        "\nLinger is off: at your last logout systemd ends the daemon, and after a boot it waits "
        f"for your login.\nTo have it from boot on: loginctl enable-linger {user()}"
    )


def _mind_containers(yes: bool) -> None:
    pids = container_pids()
    if pids:
        who = plural(len(pids), "process", "processes")
        ask.confirm(
            "Go on?",
            [
                f"{who} in containers hold cards (pid {', '.join(map(str, pids))}).",
                "A reload of systemd can take the cards from them (NVML: Unknown Error).",
            ],
            yes=yes,
        )


def _daemon_pid(home: str | None) -> bool:
    try:
        snapshot(where.socket_file(home))
    except End:
        return False
    return True


def _systemctl(*words: str) -> str:
    """Empty when it worked, else what it said."""
    if not shutil.which("systemctl"):
        return "there is no systemctl on this machine"
    done = subprocess.run(
        ["systemctl", "--user", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()


def _state(question: str) -> str:
    """`is-active` or `is-enabled` in systemd's own word; `unknown` where it cannot be asked."""
    if not shutil.which("systemctl"):
        return "unknown"
    done = subprocess.run(
        ["systemctl", "--user", question, NAME],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def _by_hand() -> str:
    return (
        "Where a user manager runs (a login session, not su or a container):\n"
        f"  systemctl --user daemon-reload && systemctl --user enable --now {NAME}"
    )
