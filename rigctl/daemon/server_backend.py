"""What the control server asks of the daemon's loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rigctl.core.commands import Answer, Command
from rigctl.core.snapshot import JournalEntry
from rigctl.daemon.link import LinkConnection
from rigctl.daemon.mailbox import Broadcast
from rigctl.daemon.route_ring import RouteRing


class Backend(Protocol):
    """What the server asks of the daemon's loop; everything here is called in that loop."""

    @property
    def version(self) -> str: ...
    @property
    def epoch(self) -> str:
        """New with every daemon start."""
        ...

    @property
    def broadcast(self) -> Broadcast:
        """Where the loop publishes snapshot lines and journal entries."""
        ...

    def looked(self) -> None:
        """Somebody asked for one snapshot: the next ones should be of now."""
        ...

    async def command(self, command: Command, uid: int) -> Answer:
        """Put a command to the loop. Only called for uids that may act."""
        ...

    def journal(self, after: int, limit: int) -> Sequence[JournalEntry]: ...
    def history(self, seconds: float) -> Mapping[str, Any]:
        """`step`, `end` and `series`, as in the protocol."""
        ...

    def log_path(self, group: str, previous: int) -> Path | None:
        """The log of a group's run, 0 the present one; None where there is no such group."""
        ...

    @property
    def routes(self) -> RouteRing:
        """The endpoint's newest decisions."""
        ...

    def open_link(self, line: bytes, pid: int) -> LinkConnection:
        """The rest of the connection of a proxy that said this; WireError says why it gets none."""
        ...
