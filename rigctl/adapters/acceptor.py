"""Takes in connections on a listening socket, and forgets none when it is closed.

Not asyncio's own Server: closed between the accept and the making of the transport, it drops the
accepted socket without closing it, and that client waits for ever.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from rigctl.adapters.os_words import reason

_log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds until clients are taken in again after the process ran out of files."""

_AT_ONCE = 64


class Acceptor:
    """Owns a listening socket in the running loop; `make` gives each client its protocol."""

    def __init__(self, listener: socket.socket, make: Callable[[], asyncio.BaseProtocol]) -> None:
        """The listener does not block, and is ours from here on."""
        self._listener = listener
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._taking: set[asyncio.Task[None]] = set()
        self._closed = False
        self._loop.add_reader(listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of files: who waits goes on waiting, and the loop does not spin on it.
                _log.warning("cannot take in a client: %s", reason(error))
                self._loop.remove_reader(self._listener)
                self._loop.call_later(AGAIN, self._listen_again)
                return
            task = self._loop.create_task(self._take(accepted))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    def _listen_again(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listener, self._accept)

    async def _take(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._make, accepted)
        except OSError:
            accepted.close()  # it left while it was taken in

    def stop(self) -> None:
        """Close our end of the listening socket; who was accepted still gets its protocol.

        A successor that holds the same socket goes on taking in who waits in its queue.
        """
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._listener)
            self._listener.close()

    async def close(self) -> None:
        """Stop listening; returns when everyone accepted has its protocol."""
        self.stop()
        await asyncio.gather(*self._taking, return_exceptions=True)
