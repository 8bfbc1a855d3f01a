"""Which living processes belong to an engine we started, and how exactly those are signalled.

An engine's family is its session, everything that descends from it, and everything of both that
was seen before: a scheduler that made a session of its own and lost its parent is still ours,
because it was recorded with its start time while the tie could be seen (C01).
"""

from __future__ import annotations

import os
import signal as signals
from collections.abc import Iterable

from rigctl.adapters import proc
from rigctl.core.ids import ProcessIdentity


class Family:
    """One engine's processes, by pid and start time; names are never looked at (C02)."""

    def __init__(
        self, leader: ProcessIdentity, recorded: Iterable[ProcessIdentity] = (), token: str = ""
    ) -> None:
        """`recorded` and `token` come from the state file when an engine is adopted."""
        self.leader = leader
        self.token = token
        self._known: dict[int, ProcessIdentity] = {leader.pid: leader}
        for member in recorded:
            self._known[member.pid] = member

    def scan(self) -> tuple[int, ...]:
        """All living members, the leader first; looks at every process of the machine once."""
        if self.leader.boot_id != proc.boot_id():
            self._known = {}
            return ()
        table = {
            pid: line
            for pid, line in proc.scan().items()
            if line.living and line.start_ticks >= self.leader.start_ticks
        }
        ours = {
            pid
            for pid, known in self._known.items()
            if pid in table and table[pid].start_ticks == known.start_ticks
        }
        ours |= self._session(table, ours)
        ours -= protected()
        _add_descendants(table, ours)
        self._known = {pid: _identity(table[pid]) for pid in ours}
        return self._ordered(ours)

    def recorded(self) -> tuple[ProcessIdentity, ...]:
        """The members of the last scan, for the state file."""
        return tuple(self._known.values())

    def signal(self, number: int) -> tuple[int, ...]:
        """Signal every member found by a fresh scan; the pids that were signalled.

        Nobody is signalled where the leader leads no session: such a process we did not start.
        """
        if self.leader.session != self.leader.pid:
            return ()
        self.scan()
        return signal_each(self._known.values(), number)

    def _session(self, table: dict[int, proc.Stat], ours: set[int]) -> set[int]:
        """Members of the leader's session, unless that number may by now name another session.

        A session's id is its leader's pid, and the kernel hands a number out as a pid again only
        when no process, group or session bears it any more. So while one process we know is in
        session N, all of session N is ours. If pid N lives with another start time, then our
        session had died out before. If nobody we know is left and N is nobody's pid, session N
        may be the orphans of ours or of a later one: then the token they inherited decides.
        """
        session = self.leader.session
        if session != self.leader.pid:
            return set()  # it leads no session of its own: others live in that one
        inside = {pid for pid, line in table.items() if line.session == session}
        if not inside or ours & inside:
            return inside
        holder = proc.stat(session)
        if holder is not None:  # our leader as a zombie keeps the number taken; else recycled
            return inside if holder.start_ticks == self.leader.start_ticks else set()
        return {pid for pid in inside if self.token and proc.has_token(pid, self.token)}

    def _ordered(self, pids: set[int]) -> tuple[int, ...]:
        return tuple(sorted(pids, key=lambda pid: (pid != self.leader.pid, pid)))


def _add_descendants(table: dict[int, proc.Stat], ours: set[int]) -> None:
    """Add children and theirs. This leads to nobody protected: all above those is protected too."""
    children: dict[int, list[int]] = {}
    for line in table.values():
        children.setdefault(line.parent, []).append(line.pid)
    queue = list(ours)
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in ours:
                ours.add(child)
                queue.append(child)


def _identity(line: proc.Stat) -> ProcessIdentity:
    return ProcessIdentity(line.pid, line.start_ticks, proc.boot_id(), line.session, "")


def protected() -> set[int]:
    """Pids that are never signalled, whatever a record says: pid 1, ourselves, our ancestors."""
    return {0, 1, os.getpid(), *proc.ancestors(os.getpid())}


def signal_each(members: Iterable[ProcessIdentity], number: int) -> tuple[int, ...]:
    """Signal exactly these processes, each re-identified behind a pidfd; the pids signalled.

    The pidfd is opened first and the start time compared after: from then on the handle cannot
    come to mean another process, however fast pids are recycled.
    """
    untouchable = protected()
    signalled = []
    for member in members:
        if member.pid in untouchable or member.pid <= 1:
            continue
        try:
            handle = os.pidfd_open(member.pid)
        except OSError:
            continue  # gone: nothing left to signal
        try:
            line = proc.same(member)
            if line is None or line.session != member.session:
                continue
            signals.pidfd_send_signal(handle, number)
            signalled.append(member.pid)
        except (ProcessLookupError, PermissionError):
            continue  # it ended meanwhile, or runs as somebody else: reported by its absence
        finally:
            os.close(handle)
    return tuple(signalled)
