"""What the control server asks of the running daemon: commands, journal, history, logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rigctl import __version__
from rigctl.adapters import proc
from rigctl.adapters.journal import Journal
from rigctl.adapters.nvml_processes import user_name
from rigctl.core.commands import Answer, Command, FreeGroup, LendStarted, Refused
from rigctl.core.ids import ProcessIdentity
from rigctl.core.snapshot import JournalEntry
from rigctl.daemon.engine_logs import EngineLogs
from rigctl.daemon.history import History
from rigctl.daemon.link import LinkConnection, LinkHub
from rigctl.daemon.loop import Loop
from rigctl.daemon.mailbox import Broadcast
from rigctl.daemon.route_ring import RouteRing
from rigctl.daemon.watched_holders import Holders
from rigctl.ports import Clock


class RigBackend:
    """Implements `server.Backend` over the loop and its shell."""

    version = __version__

    def __init__(
        self,
        *,
        loop: Loop,
        broadcast: Broadcast,
        journal: Journal,
        history: History,
        logs: EngineLogs,
        clock: Clock,
        holders: Holders,
        looked: Callable[[], None],
        read_files: Callable[[], None],
        routes: RouteRing,
        links: LinkHub,
    ) -> None:
        self._loop = loop
        self._broadcast = broadcast
        self._journal = journal
        self._history = history
        self._logs = logs
        self._clock = clock
        self._holders = holders
        self._looked = looked
        self._read_files = read_files
        self._routes = routes
        self._links = links

    @property
    def epoch(self) -> str:
        """New with every daemon start."""
        return self._loop.state.epoch

    @property
    def broadcast(self) -> Broadcast:
        """Where snapshots and journal entries go out."""
        return self._broadcast

    def looked(self) -> None:
        """Somebody asked for one snapshot: whatever is not of now is looked at again."""
        self._looked()

    async def command(self, command: Command, uid: int) -> Answer:
        """Put a command to the loop; a process it names is identified first."""
        holder: ProcessIdentity | None = None
        pid = _named_pid(command)
        if pid is not None:
            holder = proc.identity(pid)
            if holder is None:
                return Refused(f"there is no process {pid} any more", "gone")
            if proc.owner(pid) != uid and uid != 0:
                return Refused(f"process {pid} is not yours", "not-allowed")
        by = user_name(uid)
        self._read_files()
        answer = await self._loop.ask(command, by, holder)
        if holder is not None and not isinstance(answer, Refused):
            assert isinstance(command, FreeGroup | LendStarted)
            self._holders.watch(command.group, holder)
        return answer

    def journal(self, after: int, limit: int) -> Sequence[JournalEntry]:
        """Entries after a number, oldest first; the newest `limit` where `after` is 0."""
        return self._journal.tail(limit) if after <= 0 else self._journal.after(after, limit)

    def history(self, seconds: float) -> Mapping[str, Any]:
        """Series for the plots."""
        return self._history.read(self._clock.now(), self._clock.wall(), seconds)

    @property
    def routes(self) -> RouteRing:
        """The endpoint's newest decisions."""
        return self._routes

    def open_link(self, line: bytes, pid: int) -> LinkConnection:
        """The rest of the connection of a proxy that said this; WireError says why it gets none."""
        return self._links.open(line, pid)

    def log_path(self, group: str, previous: int) -> Path | None:
        """The log of a group's run; None where there is no such group."""
        if self._loop.state.group(group) is None and group != "proxy":
            return None
        return self._logs.path(group, previous)


def _named_pid(command: Command) -> int | None:
    match command:
        case FreeGroup(holder_pid=pid):
            return pid
        case LendStarted(pid=pid):
            return pid
        case _:
            return None
