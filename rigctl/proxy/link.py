"""The link to the daemon: connects, connects again, and works on without it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from rigctl.control import link_wire
from rigctl.control.address import connect
from rigctl.control.wire import WireError
from rigctl.core.link_words import Hello, ToDaemon, ToProxy

log = logging.getLogger(__name__)

RETRY = 0.5
"""Seconds between two tries to reach the daemon."""
RETRY_VERSION = 10.0
"""… where it speaks another protocol: only a restart of one of the two changes that."""
MOST_WAITING = 4 * 1024 * 1024
"""Bytes unsent to a daemon that does not read: then the connection is given up and begun anew."""


class Link:
    """One connection at a time. `hear` gets what the daemon says, `begun` is called on each new
    connection, once the hello is out: everything level-triggered is told anew then."""

    def __init__(
        self,
        path: Path,
        hello: Callable[[], Hello],
        hear: Callable[[ToProxy], None],
        begun: Callable[[], None],
    ) -> None:
        self._path = path
        self._hello = hello
        self._hear = hear
        self._begun = begun
        self._writer: asyncio.StreamWriter | None = None
        self._said = ""
        self.changed: Callable[[], None] = lambda: None
        """Called when the link comes up or goes down."""

    @property
    def up(self) -> bool:
        """Whether a daemon is at the other end."""
        return self._writer is not None

    def tell(self, message: ToDaemon) -> None:
        """Send, where there is somebody; what is lost is told again on the next connection."""
        writer = self._writer
        if writer is None or writer.transport.is_closing():
            return
        if writer.transport.get_write_buffer_size() > MOST_WAITING:
            writer.transport.abort()
            return
        writer.write(link_wire.encode(message))

    async def run(self) -> None:
        """For ever: a daemon that ends, or is none yet, costs nothing but its news."""
        while True:
            wait = RETRY
            try:
                await self._talk()
            except WireError as problem:
                self._note(problem.say)
                wait = RETRY_VERSION if problem.code == "version" else RETRY
            except OSError as problem:
                self._note(f"no daemon at {self._path}: {problem.strerror or problem}")
            await asyncio.sleep(wait)

    def _note(self, say: str) -> None:
        """Once for each reason, not twice a second."""
        if say != self._said:
            self._said = say
            log.info("%s; serving on by the last table", say)

    async def _talk(self) -> None:
        made = connect(self._path, 0.0)  # answers at once, or not at all
        made.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=made, limit=link_wire.LINK_LIMIT)
        try:
            writer.write(link_wire.encode_hello(self._hello()))
            while line := await self._line(reader):
                message = link_wire.decode_to_proxy(line)
                if self._writer is None:
                    # Its first words: it has taken the link.
                    self._writer = writer
                    self._said = ""
                    self.changed()
                    self._begun()
                if message is not None:
                    self._hear(message)
        finally:
            was_up = self._writer is not None
            self._writer = None
            writer.transport.abort()
            if was_up:
                self.changed()

    @staticmethod
    async def _line(reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError as problem:
            raise WireError(f"a line on the link is too long: {problem}", "too-long") from problem


def listening(fds: list[int]) -> tuple[socket.socket, ...]:
    """The sockets that were handed to us by number. ValueError names one that does not listen."""
    found = []
    for fd in fds:
        made = socket.socket(fileno=fd)
        if not made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise ValueError(f"descriptor {fd} is no listening socket")
        made.setblocking(False)
        found.append(made)
    return tuple(found)
