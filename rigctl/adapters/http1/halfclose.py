"""A client that ended its sending side: does it still read, or is it gone? (C31)

Its FIN says the same either way. What tells is something written: who is gone answers it with a
reset, and the reset shows in the state of the socket, without a further write.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

LOOK_SECONDS: Final = 0.25
"""Between two looks at the state of the socket."""
PROBE_SECONDS: Final = (5.0, 30.0, 120.0)
"""After the first probe: when the next ones are written; the last of these spans repeats."""

_CLOSED: Final = 7  # TCP_CLOSE in linux/tcp_states.h


class HalfClosed:
    """Watches one half-closed connection until it is stopped, or its peer is gone."""

    INTERIM: Final = 4
    """Interim answers written at most: Go's client takes five."""

    def __init__(self, transport: asyncio.Transport, probe: Callable[[int], bool]) -> None:
        """`probe(times)` writes something harmless; False when there is nothing to do for it."""
        self._transport = transport
        self._probe = probe
        self._times = 0
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time()
        self._timer = self._loop.call_soon(self._look)

    def stop(self) -> None:
        """The connection has ended."""
        self._timer.cancel()

    def _look(self) -> None:
        if self._transport.is_closing():
            return
        if self._is_reset():
            self._transport.abort()
            return
        now = self._loop.time()
        if now >= self._next and self._probe(self._times):
            self._next = now + PROBE_SECONDS[min(self._times, len(PROBE_SECONDS) - 1)]
            self._times += 1
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def _is_reset(self) -> bool:
        sock = self._transport.get_extra_info("socket")
        state: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        return state[0] == _CLOSED
