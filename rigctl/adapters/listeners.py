"""Who listens on a TCP port of this host, by the kernel's own tables."""

from __future__ import annotations

import os
import socket

_LISTEN = "0A"


def listener(port: int) -> int | None:
    """The pid that listens on the port; None when nobody does or it cannot be told."""
    return holder(listening(port))


def holder(inodes: frozenset[str]) -> int | None:
    """The pid that holds one of these sockets, among processes whose descriptors we may read.

    Those are our own uid's. Of several holders (a server and the children it forked) the oldest
    pid is named.
    """
    if not inodes:
        return None
    return min((pid for pid in _pids() if holds(pid, inodes)), default=None)


def taken(host: str, port: int) -> bool:
    """Whether a listener keeps this address from being bound; it notices nothing of the try."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def listens(port: int) -> bool:
    """Whether anybody listens on the port, whoever it is."""
    return bool(listening(port))


def listening(port: int) -> frozenset[str]:
    """The sockets that listen on the port, named as /proc/PID/fd shows them."""
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return frozenset(found)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def holds(pid: int, wanted: frozenset[str]) -> bool:
    """Whether the process has one of these sockets open."""
    try:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{descriptor}") in wanted:
                    return True
            except OSError:
                continue
    except OSError:
        return False
    return False
