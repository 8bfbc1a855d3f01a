"""Binds, connects and checks the control socket: any path length, explicit rights, known peers."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 107
"""Bytes of a path that fit into `sockaddr_un`, the closing NUL left out."""


class SocketTakenError(OSError):
    """Somebody answers at this address: another daemon of the same home."""


@contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """The path itself, or one by way of the opened folder where it is too long for AF_UNIX."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect(path: Path, timeout: float | None = None) -> socket.socket:
    """A connected socket with that timeout; OSError when nobody answers there."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout)
        with _reachable(path) as name:
            made.connect(name)
    except BaseException:
        made.close()
        raise
    return made


def listen(path: Path, group: int | None = None) -> socket.socket:
    """Bind and listen, mode 0600, or 0660 for the group with that id.

    Raises SocketTakenError when somebody answers there, OSError for anything that is not a socket.
    A socket file that nobody answers on is a dead daemon's and is replaced.
    """
    remove_stale(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux gives the file the socket's own mode, so it is never open to others for a moment.
        os.fchmod(made.fileno(), 0o600)
        with _reachable(path) as name:
            made.bind(name)
            if group is not None:
                os.chown(name, -1, group)
            os.chmod(name, 0o600 if group is None else 0o660)
        made.listen(64)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def remove_stale(path: Path) -> None:
    """Remove a dead daemon's socket; SocketTakenError when it lives, OSError when it is none."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(
            errno.EEXIST, f"{path} is not a socket; move it away, rigctl puts its own there"
        )
    try:
        connect(path, 2.0).close()
    except (ConnectionRefusedError, FileNotFoundError):
        path.unlink(missing_ok=True)
    except OSError as error:
        # EAGAIN or a timeout: a full queue has a daemon behind it, if a busy one.
        raise SocketTakenError(
            error.errno, f"a daemon holds {path} but is too busy to answer"
        ) from error
    else:
        raise SocketTakenError(errno.EADDRINUSE, f"a daemon already answers on {path}")


def peer(connected: socket.socket) -> tuple[int, int]:
    """Pid and uid of the process at the other end, as the kernel saw it connect."""
    size = struct.calcsize("3i")
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, uid, _gid = struct.unpack("3i", raw)
    return int(pid), int(uid)
