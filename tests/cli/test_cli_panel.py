"""`rigctl` alone: the panel on a terminal, the plain status elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cli_rig import serving
from cli_views import rig

from rigctl.cli.commands.panel import own_keys

WIDE = {"COLUMNS": "", "TERM": "xterm-256color", "NO_COLOR": "1"}


@pytest.mark.parametrize("args", [(), ("--read-only",), ("panel", "--no-mouse")])
def test_on_a_terminal_it_opens_the_panel(home, terminal, args) -> None:
    """The alternate screen with the groups on it; q leaves with 0 and gives the screen back."""
    with serving(home, rig()):
        screen = terminal(*args, env=WIDE)
        screen.expect("\x1b[?1049h")
        screen.expect("standard")
        screen.type("q")
        assert screen.wait() == 0
    assert "\x1b[?1049l" in screen.seen
    assert ("\x1b[?1003h" in screen.seen) is ("--no-mouse" not in args)


@pytest.mark.case("C97")
@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_place_text_gets_the_status(home, terminal, term: str) -> None:
    """TERM=dumb or none: the plain page, why, and no escape codes."""
    with serving(home, rig()):
        screen = terminal(env={"TERM": term})
        assert screen.wait() == 0
    assert "no panel here: TERM is" in screen.seen
    assert "standard   ready" in screen.seen
    assert "\x1b" not in screen.seen


@pytest.mark.case("C100")
def test_piped_input_or_output_is_no_terminal(home, terminal) -> None:
    """`echo | rigctl` and `rigctl | cat` print the status instead of a broken panel."""
    rigctl = f"{sys.executable} -m rigctl"
    with serving(home, rig()):
        for command in (f"echo q | {rigctl}", f"{rigctl} | cat", f"{rigctl} </dev/null"):
            screen = terminal(argv=("sh", "-c", command), env=WIDE)
            assert screen.wait() == 0
            assert "standard   ready" in screen.seen
            assert "\x1b[?1049h" not in screen.seen


def test_no_daemon_and_no_terminal_is_3(home) -> None:
    """In cron without a daemon: exit code 3, and none is started."""
    done = subprocess.run(
        [sys.executable, "-m", "rigctl"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert not (home / "state").exists()


def test_the_owners_keys_are_read_and_a_bad_file_is_none(tmp_path) -> None:
    """`[keys]` of rig.toml; a broken or missing file leaves the panel's own keys."""
    file = tmp_path / "rig.toml"
    assert own_keys(str(file)) == {}
    file.write_text('[keys]\nfree = "f"\n')
    assert own_keys(str(file)) == {"free": "f"}
    for text in ("[keys", "keys = 3\n"):
        file.write_text(text)
        assert own_keys(str(file)) == {}
