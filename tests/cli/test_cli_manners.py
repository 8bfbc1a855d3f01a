"""Small verbs and manners: versions, places, a broken terminal, logging out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import accept, ends, serving
from cli_views import group, rig
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl import __version__
from rigctl.cli import where
from rigctl.cli.exits import HELP
from rigctl.cli.logout import user, warning
from rigctl.cli.main import VERBS
from rigctl.cli.words import span, tokens
from rigctl.config.assets import asset
from rigctl.config.paths import find_home
from rigctl.core.commands import ConfirmState, EndLeftovers, StopDaemon, StopGroup

FOLDERS = st.one_of(st.none(), st.just(""), st.sampled_from(["/a/b", "rel", "~/x", "/a/../b", "."]))


@seed(7)
@settings(max_examples=300, deadline=None)
@given(FOLDERS, FOLDERS, FOLDERS, FOLDERS)
def test_the_quick_places_are_the_real_places(explicit, home, config, state) -> None:
    """The command line's own string work names the same files as the daemon's paths."""
    names = {"RIGCTL_HOME": home, "XDG_CONFIG_HOME": config, "XDG_STATE_HOME": state}
    before = {name: os.environ.pop(name, None) for name in names}
    try:
        os.environ.update({name: value for name, value in names.items() if value is not None})
        places = find_home(explicit)
        assert Path(where.socket_file(explicit)) == places.socket
        assert Path(where.config_file(explicit)) == places.config
        assert Path(where.logs_folder(explicit)) == places.logs
        assert Path(where.state_folder(explicit)) == places.state
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_explains_itself(rigctl, verb: str) -> None:
    """`rigctl VERB --help` works for each verb of the table, and says more than its name."""
    done = rigctl(verb, "--help")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 3


def test_what_a_verb_does_not_take_is_named(rigctl) -> None:
    """A wrong option or one word too many: exit code 2, the word, and where to look."""
    for words in (("service", "uninstall", "--yess"), ("status", "--jsn"), ("version", "now")):
        done = rigctl(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"`rigctl {words[0]}` does not take {words[-1]}" in done.stderr
        assert f"`rigctl {words[0]} --help`" in done.stderr


def test_help_lists_verbs_and_exit_codes(rigctl) -> None:
    """The whole table and the whole API of exit codes stand in --help."""
    told = rigctl("--help").stdout
    assert all(f"\n  {verb} " in told for verb in VERBS)
    assert HELP in told


def test_version_with_and_without_a_daemon(home, rigctl) -> None:
    """Both versions, and the cure where they differ; no daemon is no error."""
    alone = json.loads(rigctl("version", "--json").stdout)
    assert alone["rigctl"] == __version__
    assert alone["daemon"] is None
    assert rigctl("--version").stdout == f"rigctl {__version__}\n"
    with serving(home, rig()) as served:
        both = rigctl("version").stdout
        served.version = "9.9"
        mixed = rigctl("version").stdout
    assert both == f"rigctl {__version__}\ndaemon 0.1.0\n"
    assert "rigctl daemon stop" in mixed


@pytest.mark.case("C95")
def test_reset_terminal_undoes_what_a_killed_panel_left(terminal, rigctl) -> None:
    """Mouse, alternate screen and raw mode off, cursor on, echo back."""
    command = f"stty raw -echo; {sys.executable} -m rigctl reset-terminal; stty -a; echo end"
    screen = terminal(argv=("sh", "-c", command))
    assert screen.wait() == 0
    screen.expect("\x1b[?25h")
    for sequence in ("?1000l", "?1002l", "?1003l", "?1006l", "?1049l", "?2004l"):
        assert f"\x1b[{sequence}" in screen.seen
    flags = screen.seen.split()
    for flag in ("isig", "icanon", "iexten", "echo", "icrnl", "opost", "onlcr", "brkint"):
        assert flag in flags, screen.seen
    assert screen.seen.endswith("end\r\n")


def test_reset_terminal_without_one_says_so(rigctl) -> None:
    """No controlling terminal: exit code 1, one line."""
    done = subprocess.run(
        [sys.executable, "-m", "rigctl", "reset-terminal"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no terminal" in done.stderr


@pytest.mark.case("C93")
@pytest.mark.parametrize(
    ("env", "lingers", "warned"),
    [
        ({"SSH_CONNECTION": "10.0.0.2 22"}, False, True),
        ({"SSH_TTY": "/dev/pts/1"}, False, True),
        ({"SSH_CONNECTION": "10.0.0.2 22"}, True, False),
        ({"SSH_CONNECTION": "x", "INVOCATION_ID": "unit"}, False, False),
        ({}, False, False),
    ],
)
def test_an_ssh_login_is_told_what_logging_out_may_do(tmp_path, env, lingers, warned) -> None:
    """Started over SSH without linger and outside a service: said, with the command."""
    if lingers:
        (tmp_path / user()).touch()
    said = warning(env, str(tmp_path))
    assert bool(said) is warned
    if warned:
        assert f"loginctl enable-linger {user()}" in said
        assert "KillUserProcesses" in said


def test_daemon_stop_waits_until_it_is_gone(home, rigctl) -> None:
    """`daemon stop` returns when nobody listens any more, and says what goes on."""

    def leaves(served, command):
        answer = accept(served, command)
        served.later(0.2, lambda: (home / "state" / "rigctl.sock").unlink())
        return answer

    with serving(home, rig(), leaves) as served:
        done = rigctl("daemon", "stop")
        assert served.commands(StopDaemon) == [StopDaemon(False)]
    assert done.returncode == 0, done.stderr
    assert "the daemon has ended" in done.stderr
    assert rigctl("daemon", "stop").returncode == 3


def test_daemon_stop_with_engines_stops_them_first(home, rigctl) -> None:
    """Taking the engines along is destructive: it asks, stops each, and only then the daemon."""

    def leaves(served, command):
        if isinstance(command, StopDaemon):
            served.later(0.2, lambda: (home / "state" / "rigctl.sock").unlink())
        return accept(served, command)

    with serving(home, rig(), leaves) as served:
        assert rigctl("daemon", "stop", "--engines").returncode == 2
        assert rigctl("daemon", "stop", "--engines", "--yes", "--no-wait").returncode == 2
        assert served.asked == []
        done = rigctl("daemon", "stop", "--engines", "--yes")
        names = [group.name for group in served.snapshot.groups if group.pid]
        assert names
        assert served.asked == [*map(StopGroup, names), StopDaemon(True)]
    assert done.returncode == 0, done.stderr


def test_an_engine_that_does_not_stop_keeps_its_daemon(home, rigctl) -> None:
    """Who asked for both to end is told which engine runs on, and the daemon watches it."""
    script = ends("failed", "NVML cannot say", kind="stop")
    with serving(home, rig(), script) as served:
        done = rigctl("daemon", "stop", "--engines", "--yes")
        assert served.commands(StopDaemon) == []
    assert done.returncode == 1
    assert "NVML cannot say" in done.stderr


def test_confirm_and_leftovers_name_what_they_mean(home, rigctl) -> None:
    """Both list the processes first; both need a yes."""
    left = group("long", state="off", pid=None, leftovers=(4102, 4103))
    with serving(home, rig(groups=(group(), left))) as served:
        assert rigctl("leftovers").stdout == "long 4102\nlong 4103\n"
        refused = rigctl("leftovers", "long")
        assert refused.returncode == 2
        assert "pid 4102, 4103" in refused.stderr
        assert rigctl("leftovers", "long", "--yes", "--no-wait").returncode == 0
        assert rigctl("leftovers", "standard").returncode == 0
        confirm = rigctl("daemon", "confirm")
        assert confirm.returncode == 2
        assert "standard: ready, pid 4711, 9 processes" in confirm.stderr
        assert rigctl("daemon", "confirm", "--yes").returncode == 0
        assert served.asked == [EndLeftovers("long"), ConfirmState()]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (119.0, "119 s"),
        (120.0, "2 min"),
        (3599.0, "1h00"),
        (3600.0, "1h00"),
        (86_399.0, "1d 00h"),
        (273_600.0, "3d 04h"),
    ],
)
def test_lengths_of_time_read_well(value: float, text: str) -> None:
    """No `60 min`, no `24h00`: each unit hands over to the next."""
    assert span(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (9949, "9.9k"),
        (9950, "10k"),
        (434_000, "434k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (1_450_000, "1.45M"),
    ],
)
def test_token_counts_read_well(value: float, text: str) -> None:
    """Three digits at most before the unit, never `1000k`."""
    assert tokens(value) == text


def test_a_missing_asset_names_where_it_was_looked_for() -> None:
    """A broken installation says which file, and both places."""
    assert asset("units", "rigctl.service").exists()
    with pytest.raises(FileNotFoundError, match=r"units/nope is missing.*_assets.*assets"):
        asset("units", "nope")


@pytest.mark.parametrize(
    "words",
    [
        ("free", "--for", "9" * 400),
        ("free", "--for", "99999999999d"),
        ("power-limit", "inf"),
        ("power-limit", "nan"),
        ("power-limit", "1e300"),
    ],
)
def test_numbers_beyond_reason_are_usage(rigctl, words: tuple[str, ...]) -> None:
    """Said at once in words: no calendar has such a day, no card takes such a limit."""
    done = rigctl(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
