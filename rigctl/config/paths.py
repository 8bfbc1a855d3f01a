"""Where rigctl keeps its things: one folder under RIGCTL_HOME, else the XDG places."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """The places of one rig on this machine. Nothing here exists until somebody makes it."""

    config: Path
    """The owner's rig.toml."""
    state: Path
    """Folder of state, journal, socket: survives logout, unlike the run-time folder."""
    logs: Path
    """Folder of the engines' and the daemon's own output."""

    @property
    def socket(self) -> Path:
        """The control socket."""
        return self.state / "rigctl.sock"

    @property
    def overrides(self) -> Path:
        """What keys change: sleep-on-idle and its like, written with tomli-w."""
        return self.state / "overrides.toml"

    @property
    def clients(self) -> Path:
        """Hashes of the clients' keys, written by `rigctl keys`."""
        return self.state / "clients.toml"

    @property
    def table(self) -> Path:
        """The proxy's last routing table: it serves on by it while there is no daemon."""
        return self.state / "table.json"

    @property
    def homes(self) -> Path:
        """The proxy's session homes, so that its restart makes no session cold."""
        return self.state / "homes.json"

    @property
    def state_file(self) -> Path:
        """The daemon's own memory: identities, wishes, leases, operations."""
        return self.state / "state.json"

    @property
    def journal(self) -> Path:
        """One JSON line an event."""
        return self.state / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the one daemon of this home."""
        return self.state / "daemon.lock"


def find_home(explicit: str | None = None, environ: Mapping[str, str] | None = None) -> Home:
    """The home named by `--home`, else RIGCTL_HOME, else the XDG folders."""
    env = os.environ if environ is None else environ
    folder = explicit or env.get("RIGCTL_HOME")
    if folder:
        base = Path(folder).expanduser().absolute()
        return Home(base / "rig.toml", base / "state", base / "logs")
    user = Path(env.get("HOME") or Path.home())
    config = Path(env.get("XDG_CONFIG_HOME") or user / ".config")
    state = Path(env.get("XDG_STATE_HOME") or user / ".local" / "state")
    return Home(config / "rigctl" / "rig.toml", state / "rigctl", state / "rigctl" / "logs")
