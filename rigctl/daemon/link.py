"""The daemon's end of the link: one connection a proxy, whole values, the newest wins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from rigctl import __version__
from rigctl.control import link_wire
from rigctl.control.wire import WireError
from rigctl.core.facts import (
    EndpointLinked,
    EndpointRefused,
    EndpointSaid,
    EndpointUnlinked,
    Fact,
)
from rigctl.core.ids import GroupName
from rigctl.core.link_words import GateState, Progress, Routes, Table, ToDaemon, ToProxy

log = logging.getLogger(__name__)

GATE_EVERY = 0.25
"""Seconds between two counts of a gate that only counts; a gate that moves is told at once."""
_MOST_WAITING = 256
"""Lines a proxy that does not read may have waiting, tables and progress not counted."""


class LinkHub:
    """Every linked proxy: the serving one, and those that finish what they have."""

    def __init__(
        self,
        *,
        post: Callable[[Fact], None],
        knows: Callable[[int], bool],
        draining: Callable[[GroupName], bool],
        routes: Callable[[Routes], None],
        greeted: Callable[[int], None],
    ) -> None:
        """`knows` says whether a pid is a proxy of ours, `draining` whether a person waits for a
        group's gate; `greeted` is told of each proxy that has said hello."""
        self._post = post
        self._knows = knows
        self._draining = draining
        self._routes = routes
        self._greeted = greeted
        self._links: dict[int, LinkConnection] = {}
        self._table: Table | None = None
        self._closed = False

    @property
    def any(self) -> bool:
        """Whether anybody listens."""
        return bool(self._links)

    def open(self, line: bytes, pid: int) -> LinkConnection:
        """A connection for the proxy that said this hello; WireError says why it gets none."""
        if self._closed:
            raise WireError("this daemon is just ending; the next one takes the link", "busy")
        if not self._knows(pid):
            raise WireError(
                f"process {pid} is no proxy that this daemon started; `rigctl endpoint restart` "
                "starts one that is",
                "not-allowed",
            )
        try:
            hello = link_wire.decode_hello(line, __version__)
        except WireError as error:
            if error.code == "version":
                self._post(EndpointRefused(pid, error.say))
            raise
        before = self._links.pop(pid, None)
        if before is not None:
            before.close()
        made = self._links[pid] = LinkConnection(self, pid)
        self._post(EndpointLinked(pid, hello))
        return made

    def began(self, link: LinkConnection) -> None:
        """Its transport is there: it begins with the whole table."""
        if self._table is not None:
            link.send(self._table)
        self._greeted(link.pid)

    def lost(self, link: LinkConnection) -> None:
        """Its connection has ended."""
        if self._links.get(link.pid) is link:
            del self._links[link.pid]
            self._post(EndpointUnlinked(link.pid))

    def tell(self, pid: int, message: ToProxy) -> None:
        """One word to one proxy; lost where it has no link."""
        link = self._links.get(pid)
        if link is not None:
            link.send(message)

    def tell_all(self, message: ToProxy) -> None:
        """A table or a progress, to every proxy that still has answers."""
        if isinstance(message, Table):
            self._table = message
        for link in tuple(self._links.values()):
            link.send(message)

    def heard(self, link: LinkConnection, message: ToDaemon) -> None:
        """What a proxy said, on its way to the state; routes go to the shell's ring."""
        if self._links.get(link.pid) is not link:
            return
        if isinstance(message, Routes):
            self._routes(message)
        else:
            self._post(EndpointSaid(link.pid, message))

    def urgent(self, group: GroupName) -> bool:
        """Whether somebody waits for this group's gate."""
        return self._draining(group)

    def close(self) -> None:
        """The proxies serve on; the next daemon hears from them."""
        self._closed = True
        for link in tuple(self._links.values()):
            link.close()
        self._links.clear()


class LinkConnection(asyncio.Protocol):
    """One proxy's line. It holds up nobody: what it has not taken is replaced or bounded."""

    def __init__(self, hub: LinkHub, pid: int) -> None:
        self.pid = pid
        self._hub = hub
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._full = False
        self._table: bytes = b""
        self._progress: dict[GroupName, bytes] = {}
        self._words: list[bytes] = []
        self._gates: dict[GroupName, GateState] = {}
        """As last passed on."""
        self._counts: dict[GroupName, GateState] = {}
        """Newer ones that only count, and wait a moment."""
        self._timer: asyncio.TimerHandle | None = None

    # ---- out ---------------------------------------------------------------------------

    def send(self, message: ToProxy) -> None:
        """Write now, or as soon as the proxy has taken what came before."""
        if self._transport is None or self._transport.is_closing():
            return
        try:
            line = link_wire.encode(message)
        except WireError as error:
            log.error("not sent to the proxy: %s", error.say)
            return
        if not self._full:
            self._transport.write(line)
        elif isinstance(message, Table):
            self._table = line
        elif isinstance(message, Progress):
            self._progress[message.group] = line
        elif len(self._words) < _MOST_WAITING:
            self._words.append(line)
        else:
            log.warning("the proxy (pid %d) does not read; its link is cut", self.pid)
            self._transport.abort()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        waiting = [self._table, *self._words, *self._progress.values()]
        self._table, self._words, self._progress = b"", [], {}
        if self._transport is not None:
            self._transport.write(b"".join(waiting))

    # ---- in ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits()
        self._hub.began(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        for line in lines:
            if line.strip():
                self._line(bytes(line))
        if len(self._buffer) > link_wire.LINK_LIMIT:
            log.warning("the proxy (pid %d) sent a line without end; its link is cut", self.pid)
            self.close()

    def _line(self, line: bytes) -> None:
        try:
            message = link_wire.decode_to_daemon(line)
        except WireError as error:
            log.warning("from the proxy (pid %d): %s", self.pid, error.say)
            return
        if isinstance(message, GateState):
            self._gate(message)
        elif message is not None:
            self._hub.heard(self, message)

    def _gate(self, gate: GateState) -> None:
        """A busy endpoint's counts are conflated; what a drain waits for is passed on at once."""
        before = self._gates.get(gate.group)
        moved = before is None or (before.gate, before.drain) != (gate.gate, gate.drain)
        if moved or self._hub.urgent(gate.group):
            self._counts.pop(gate.group, None)
            self._pass_on(gate)
            return
        self._counts[gate.group] = gate
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(GATE_EVERY, self._flush)

    def _flush(self) -> None:
        self._timer = None
        counts, self._counts = self._counts, {}
        for gate in counts.values():
            if gate != self._gates.get(gate.group):
                self._pass_on(gate)

    def _pass_on(self, gate: GateState) -> None:
        self._gates[gate.group] = gate
        self._hub.heard(self, gate)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._hub.lost(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
