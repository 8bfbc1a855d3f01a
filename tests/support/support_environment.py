"""Gives every test a home of its own and an environment that no desktop or login has coloured."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")
"""Would send loopback traffic elsewhere (C44); the tests about them set them again."""

DROPPED = (
    "COLORTERM",
    "COLUMNS",
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "FORCE_COLOR",
    "LINES",
    "NO_COLOR",
    "RIGCTL_SPAWN",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "TMUX",
    "TMUX_PANE",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_ID",
)
"""Variables of the developer's own session that change what rigctl shows or whom it speaks to."""

_folder = pytest.StashKey[Path]()
_number = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported: a HOME that is nobody's, and no coloured variables.

    The folder lies directly under the temporary folder, because socket paths end at 108 bytes.
    """
    # A shell's background job ignores ctrl+c, and so would every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in PROXIES:
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
    for name in DROPPED:
        os.environ.pop(name, None)
    home = Path(tempfile.mkdtemp(prefix="rigctl-"))
    config.stash[_folder] = home
    os.environ["HOME"] = str(home)
    os.environ["XDG_CONFIG_HOME"] = str(home / ".config")
    os.environ["XDG_STATE_HOME"] = str(home / ".local" / "state")
    os.environ["XDG_CACHE_HOME"] = str(home / ".cache")
    os.environ["XDG_DATA_HOME"] = str(home / ".local" / "share")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    folder = config.stash.get(_folder, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _rig_home(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """RIGCTL_HOME names a folder that no other test has and that does not exist yet."""
    monkeypatch.setenv("RIGCTL_HOME", str(pytestconfig.stash[_folder] / f"rig{next(_number)}"))
