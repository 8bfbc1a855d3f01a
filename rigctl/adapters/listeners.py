"""Who listens on a TCP port of this host, by the kernel's own tables."""

from __future__ import annotations

import os

_LISTEN = "0A"


def listener(port: int) -> int | None:
    """The pid that listens on the port; None when nobody does or it cannot be told.

    A socket's owner is found among the processes whose descriptors we may read: our own uid's.
    Of several holders (a server and the children it forked) the oldest pid is named.
    """
    inodes = _listening(port)
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    found = [pid for pid in _pids() if _holds(pid, wanted)]
    return min(found, default=None)


def listens(port: int) -> bool:
    """Whether anybody listens on the port, whoever it is."""
    return bool(_listening(port))


def _listening(port: int) -> set[str]:
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
                found.add(fields[9])
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _holds(pid: int, wanted: set[str]) -> bool:
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
