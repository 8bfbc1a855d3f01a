"""Hands listening sockets from one process to another, as descriptors over a Unix socket.

A daemon that was restarted did not open the address its proxy listens on. It asks for copies, so
that after the proxy's death the next one goes on with the same backlog.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from rigctl.control.address import connect, peer

MOST = 8
"""Sockets in one hand-over: an address has one a family."""
_SECONDS = 2.0


def give(path: Path, sockets: Sequence[socket.socket]) -> None:
    """Send copies of our sockets to who awaits them at `path`. OSError when nobody does."""
    with connect(path, _SECONDS) as link:
        socket.send_fds(link, [b"S"], [each.fileno() for each in sockets])


def take(waiting: socket.socket, pid: int) -> tuple[socket.socket, ...]:
    """The listening sockets that the process `pid` gives on an accepted connection.

    Empty where somebody else connected or what came is no listening stream socket.
    """
    if peer(waiting)[0] != pid:
        return ()
    waiting.settimeout(_SECONDS)
    _data, ancillary, _flags, _address = waiting.recvmsg(1, socket.CMSG_LEN(MOST * 4))
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    given = [_as_socket(descriptor) for descriptor in found]
    kept = tuple(each for each in given if each is not None and _listens(each))
    for each in given:
        if each is not None and each not in kept:
            each.close()
    return kept


def _as_socket(descriptor: int) -> socket.socket | None:
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        return None


def _listens(made: socket.socket) -> bool:
    return bool(made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
