"""One daemon a home: a file lock that the kernel lets go of when its holder dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class AlreadyRunningError(Exception):
    """Another daemon holds this home; says which pid and what to do."""


def take_lock(path: Path) -> int:
    """Lock the file and write our pid into it; the descriptor, to be kept open for life."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise AlreadyRunningError(
            f"a daemon already runs on {path.parent} (pid {holder}); "
            "`rigctl status` talks to it, `rigctl daemon stop` ends it"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
