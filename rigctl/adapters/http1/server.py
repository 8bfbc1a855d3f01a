"""The listening end: takes connections in, minds their time, and stops without losing one."""

from __future__ import annotations

import asyncio
import socket

from rigctl.adapters.acceptor import Acceptor
from rigctl.adapters.http1.connection import Connection, Handler, Wording
from rigctl.adapters.http1.messages import Limits

BACKLOG = 512
"""Connections the kernel completes before we take them in."""


def plain(status: int, say: str, target: bytes) -> tuple[bytes, bytes]:
    """A refusal as a line of text."""
    return b"text/plain", say.encode("utf-8", "replace") + b"\n"


class HttpServer:
    """Listens, and gives each request to `handler`."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits | None = None,
        *,
        half_close: bool = False,
        word: Wording = plain,
    ) -> None:
        """`word` puts refusals into the client's words.

        `half_close`: an HTTP/1.1 client that ended its sending side after its request still waits
        for the answer. Without it that client counts as gone, as uvicorn has it.
        """
        self.handler = handler
        self.limits = limits or Limits()
        self.half_close = half_close
        self.word = word
        self.connections: set[Connection] = set()
        self.retired_at: float | None = None
        """Loop time from which unused connections are closed, once nothing new is taken in."""
        self._acceptors: list[Acceptor] = []
        self._sockets: list[socket.socket] = []
        self._emptied: asyncio.Future[None] | None = None
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The listening sockets: a successor that is sent them takes in who waits there."""
        return tuple(self._sockets)

    async def listen(self, host: str, port: int) -> int:
        """Bind and accept on every address of `host`; the port (chosen where 0 was asked).

        OSError when it is taken.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        bound = port
        for family, _, _, _, address in dict.fromkeys(found):
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind((address[0], bound, *address[2:]))
                sock.listen(BACKLOG)
            except OSError:
                sock.close()
                raise
            bound = sock.getsockname()[1]
            await self.adopt(sock)
        return bound

    async def adopt(self, sock: socket.socket) -> None:
        """Accept on a socket that already listens; it is ours from here on."""
        sock.setblocking(False)
        self._sockets.append(sock)
        self._acceptors.append(Acceptor(sock, lambda: Connection(self)))

    def stop_accepting(self, patience: float = 0.0) -> None:
        """Close our listening sockets; exchanges in progress go on, and are the last of theirs.

        Connections without a request are closed after `patience` seconds: time for the question
        that is on its way from a client which was taken in just now.
        """
        for acceptor in self._acceptors:
            acceptor.stop()
        self._sockets.clear()
        now = asyncio.get_running_loop().time()
        self.retired_at = now + patience
        for connection in tuple(self.connections):
            connection.retire(now)

    async def close(self, grace: float = 0.0) -> None:
        """Stop accepting, let exchanges finish for `grace` seconds, then break the rest."""
        if self.retired_at is None:
            self.stop_accepting()
        for acceptor in self._acceptors:
            await acceptor.close()
        loop = asyncio.get_running_loop()
        self._emptied = loop.create_future()
        if self.connections and grace > 0:
            await asyncio.wait([self._emptied], timeout=grace)
        for connection in tuple(self.connections):
            connection.abort()
            connection.cancel()
        if self.connections:
            await self._emptied
        if self._sweep is not None:
            self._sweep.cancel()

    def admit(self, connection: Connection) -> None:
        """A connection has begun. While there is one, all are looked at now and then."""
        self.connections.add(connection)
        if self._sweep is None:
            self._look_later()

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        if not self.connections and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _look_later(self) -> None:
        limits = self.limits
        shortest = min(
            limits.head_seconds,
            limits.idle_seconds,
            limits.body_idle_seconds,
            limits.body_grace_seconds,
            limits.stalled_write_seconds,
        )
        period = max(0.02, min(0.5, shortest / 4))
        self._sweep = asyncio.get_running_loop().call_later(period, self._look)

    def _look(self) -> None:
        self._sweep = None
        now = asyncio.get_running_loop().time()
        for connection in tuple(self.connections):
            connection.look(now)
        if self.connections:
            self._look_later()
