"""The folders of state, socket and logs are the owner's alone to write in."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rigctl.adapters.folders import own_folder


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_a_new_folder_is_the_owners(tmp_path: Path) -> None:
    """Whatever the umask."""
    before = os.umask(0)
    try:
        own_folder(tmp_path / "a" / "state")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a" / "state") == 0o700


def test_a_wide_folder_is_narrowed(tmp_path: Path) -> None:
    """Made by hand with a loose umask: others may look as before, and write no more."""
    tmp_path.chmod(0o777)
    own_folder(tmp_path)
    assert mode(tmp_path) == 0o755


def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner could swap the state file, and with it the processes that we signal."""
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(PermissionError, match="belongs to uid"):
        own_folder(tmp_path)


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    """One sentence with the path, no traceback."""
    (tmp_path / "state").write_text("")
    with pytest.raises(FileExistsError, match=r"cannot use .*state: file exists"):
        own_folder(tmp_path / "state")


def test_the_daemon_says_why_it_cannot_begin(tmp_path: Path) -> None:
    """Its folders first: what stands in the way is one line on stderr."""
    (tmp_path / "state").write_text("")
    command = [sys.executable, "-m", "rigctl.daemon.main", "--home", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("rigctl: ")
    assert "file exists" in done.stderr
    assert "Traceback" not in done.stderr
