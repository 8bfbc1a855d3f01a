"""Opens the address that clients know, or says in a sentence why it cannot be opened."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from rigctl.adapters import proc
from rigctl.adapters.listeners import holder, listening
from rigctl.adapters.os_words import reason

BACKLOG = 1024
"""Connections that may wait while one proxy takes over from another."""

_LOOPBACK = ("127.0.0.1", "localhost")
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


def open_address(
    host: str, port: int, own: Sequence[socket.socket] = ()
) -> tuple[socket.socket, ...]:
    """Listening sockets for the address, made for a child to inherit; loopback in both families.

    `own` are those that we have open now: `host` may move to one that covers them, while they are
    still served from. OSError's `strerror` is a sentence; of a taken port it names the holder and
    what to do.
    """
    made: list[socket.socket] = []
    beside = any(each.getsockname()[1] == port for each in own)
    for each in own:
        # Only now and only for this: two servers of one user must not share a port unseen.
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, beside)
    try:
        if host in _LOOPBACK:
            made.append(_listen(socket.AF_INET, "127.0.0.1", port, beside))
            # A client that says `localhost` may try ::1 first and must not meet another program.
            try:
                made.append(_listen(socket.AF_INET6, "::1", port, beside))
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
        else:
            family, address = _resolve(host, port)
            made.append(_listen(family, address, port, beside))
    except BaseException:
        for each in made:
            each.close()
        raise
    finally:
        for each in own:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, False)
    return tuple(made)


def same_address(sockets: tuple[socket.socket, ...], host: str, port: int) -> bool:
    """Whether these sockets are the ones that this address would open."""
    if not sockets or any(each.getsockname()[1] != port for each in sockets):
        return False
    wanted = "127.0.0.1" if host in _LOOPBACK else host
    try:
        address = wanted if host in _LOOPBACK else _resolve(host, port)[1]
    except OSError:
        return False
    return any(each.getsockname()[0] == address for each in sockets)


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(
            host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise OSError(
            errno.EADDRNOTAVAIL,
            f"`host` {host!r} of [proxy] is no address of this machine: {reason(error)}",
        ) from error
    family, _kind, _protocol, _name, address = found[0]
    return family, str(address[0])


def _listen(family: socket.AddressFamily, host: str, port: int, beside: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, beside)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        made.bind((host, port))
        made.listen(BACKLOG)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, False)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise OSError(error.errno or errno.EIO, _why(host, port, error)) from error
    return made


def _why(host: str, port: int, error: OSError) -> str:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        pid = holder(listening(port))
        who = "another program" if pid is None else f"pid {pid} ({_name(pid)})"
        look = f"`ss -ltnp 'sport = {port}'`"
        return (
            f"{shown} is taken by {who}: end that ({look} shows it), or write another `port` under "
            "[proxy] in rig.toml"
        )
    if error.errno == errno.EACCES:
        return f"{shown} needs rights that rigctl has not: write a `port` over 1023 under [proxy]"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{shown} is no address of this machine: write another `host` under [proxy]"
    return f"{shown} cannot be opened: {reason(error)}"


def _name(pid: int) -> str:
    line = proc.stat(pid)
    return "?" if line is None else line.comm
