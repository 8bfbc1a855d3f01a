"""Sends the routing table wherever it changed, and keeps it on disk for a proxy without daemon."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from rigctl.config.secrets import replace_file
from rigctl.control import link_wire
from rigctl.control.wire import WireError
from rigctl.core.facts import EngineSampled, EngineSilent, Fact, TroubleSeen
from rigctl.core.ids import GroupName
from rigctl.core.link_words import Table
from rigctl.core.state import RigState
from rigctl.core.table import essence, lasting, progress, table
from rigctl.daemon.link import LinkHub
from rigctl.ports import Clock

WATCHED = 5.0
"""Seconds after the last look for which traffic is still wanted once a second."""
TROUBLE = "table-file"


class TableKeeper:
    """Derives the table after each fact: nothing is sent that is as it was."""

    def __init__(
        self,
        *,
        path: Path,
        clock: Clock,
        hub: LinkHub,
        state: Callable[[], RigState],
        watchers: Callable[[], int],
        post: Callable[[Fact], None],
    ) -> None:
        self._path = path
        self._clock = clock
        self._hub = hub
        self._state = state
        self._watchers = watchers
        self._post = post
        self._seq = 0
        self._sent: Table | None = None
        self._written: Table | None = None
        self._looked_at = -WATCHED
        self._timer: asyncio.TimerHandle | None = None
        self._idle: dict[GroupName, bool] = {}

    def looked(self) -> None:
        """A client looks, or has just stopped."""
        self._looked_at = self._clock.now()
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(WATCHED + 0.05, self._look_ends)
        self.update(self._state())

    def _look_ends(self) -> None:
        self._timer = None
        self.update(self._state())

    def taken(self, state: RigState, fact: Fact) -> None:
        """After each fact."""
        self.update(state)
        if isinstance(fact, EngineSampled):
            self._progress(state, fact.sample.group)
        elif isinstance(fact, EngineSilent):
            self._progress(state, fact.group)

    def update(self, state: RigState) -> None:
        """Send and write where the table is another one than before."""
        now = self._clock.now()
        watched = self._watchers() > 0 or now - self._looked_at < WATCHED
        made = table(state, now, self._seq + 1, watched)
        if made is None:
            if self._sent is not None:
                self._sent = self._written = None
                with contextlib.suppress(OSError):
                    self._path.unlink()
            return
        plain = essence(made)
        if plain == self._sent:
            return
        self._sent = plain
        self._seq += 1
        self._hub.tell_all(made)
        self._write(state, made)

    def _write(self, state: RigState, made: Table) -> None:
        """A disk that does not take it is a standing trouble, and nothing else."""
        kept = lasting(made)
        if kept == self._written:
            return
        say = ""
        try:
            replace_file(self._path, link_wire.encode(made))
            self._written = kept
        except OSError as error:
            self._written = None
            say = (
                f"{self._path} not written: {error.strerror or error}; the endpoint routes by the "
                "link, and by an older table if it starts without a daemon"
            )
        except WireError as error:
            say = f"{self._path} not written: {error.say}"
        standing = {each.id: each.say for each in state.troubles}
        if standing.get(TROUBLE, "") != say:
            self._post(TroubleSeen(TROUBLE, say))

    def retry(self) -> None:
        """Try a disk again that did not take it; called now and then."""
        if self._sent is not None and self._written is None:
            made = table(self._state(), self._clock.now(), self._seq, True)
            if made is not None:
                self._write(self._state(), made)

    def _progress(self, state: RigState, name: GroupName) -> None:
        """Once a second while work runs, and once more when it has ended."""
        group = state.group(name)
        told = None if group is None else progress(group, self._clock.now())
        if told is None or not self._hub.any:
            return
        idle = told.doing == "idle"
        if not (idle and self._idle.get(name)):
            self._hub.tell_all(told)
        self._idle[name] = idle

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
