"""Logs stay short while no daemon looks after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigctl.adapters.logfile import LogFiles
from rigctl.core.ids import Mono
from rigctl.proxy.log_keeper import PAUSE, LogKeeper

CAP, KEEP = 256 * 1024, 64 * 1024


def blocks(path: Path) -> int:
    """Bytes that a file takes on the disk."""
    return path.stat().st_blocks * 512


def test_a_long_log_is_shortened_only_where_no_daemon_does_it(tmp_path: Path) -> None:
    """Its newest lines stay, an engine's beside it is shortened too, and none too often."""
    linked = True
    keeper = LogKeeper(tmp_path, lambda: linked)
    keeper.files = LogFiles(tmp_path, cap=CAP, keep=KEEP, reserve=0)
    logs = [tmp_path / "proxy.log", tmp_path / "standard.log"]
    for path in logs:
        path.write_bytes(b"a line of log\n" * 40_000 + b"the newest\n")
    long = blocks(logs[0])
    keeper.look(Mono(100.0))
    assert blocks(logs[0]) == long
    linked = False
    keeper.look(Mono(200.0))
    for path in logs:
        assert blocks(path) <= CAP
        assert path.read_bytes().endswith(b"the newest\n")
    with logs[0].open("ab") as file:
        file.write(b"more\n" * 200_000)
    long = blocks(logs[0])
    keeper.look(Mono(200.0 + PAUSE / 2))
    assert blocks(logs[0]) == long
    keeper.look(Mono(200.0 + PAUSE))
    assert blocks(logs[0]) < long


def test_a_log_that_cannot_be_looked_after_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder in its place: one warning, not one every ten seconds."""
    (tmp_path / "odd.log").mkdir()
    keeper = LogKeeper(tmp_path, lambda: False)
    for turn in range(1, 4):
        keeper.look(Mono(turn * PAUSE))
    assert caplog.text.count("cannot look after the log") == 1
