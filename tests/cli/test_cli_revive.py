"""Under an open panel a daemon that died is started anew; one that was ended stays ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigctl.cli.revive import reviver
from rigctl.config.paths import find_home
from rigctl.control import start


def test_what_a_person_ended_stays_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that ends takes its socket's file along: nothing is started then."""
    monkeypatch.setattr(start, "ensure_daemon", lambda *_: pytest.fail("a daemon was started"))
    assert reviver(find_home(str(tmp_path)))() == ""


def test_a_start_that_fails_is_said(tmp_path: Path) -> None:
    """The socket's file is there and nobody answers: the command is run, and its end is told."""
    home = find_home(str(tmp_path))
    home.state.mkdir()
    home.logs.mkdir()
    home.socket.touch()
    said = reviver(home, ["false"])()
    assert "died and could not be started anew" in said
