"""Where the rig's socket and files lie, by string work alone.

The same answers as `config.paths.find_home`, which a test holds together: that module costs half of
the time a `rigctl status` may take.
"""

from __future__ import annotations

import os


def _base(home: str | None) -> str:
    folder = home or os.environ.get("RIGCTL_HOME") or ""
    if not folder:
        return ""
    return os.path.join(os.getcwd(), os.path.expanduser(folder))


def config_file(home: str | None) -> str:
    """The owner's rig.toml."""
    base = _base(home)
    if base:
        return os.path.join(base, "rig.toml")
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(_user(), ".config")
    return os.path.join(folder, "rigctl", "rig.toml")


def state_folder(home: str | None) -> str:
    """State, journal and socket."""
    base = _base(home)
    if base:
        return os.path.join(base, "state")
    folder = os.environ.get("XDG_STATE_HOME") or os.path.join(_user(), ".local", "state")
    return os.path.join(folder, "rigctl")


def logs_folder(home: str | None) -> str:
    """Output of the engines and of the daemon."""
    base = _base(home)
    return os.path.join(base or state_folder(home), "logs")


def socket_file(home: str | None) -> str:
    """The daemon's control socket."""
    return os.path.join(state_folder(home), "rigctl.sock")


def _user() -> str:
    return os.environ.get("HOME") or os.path.expanduser("~")
