"""The machine itself: load, memory, the logs' disk, and how its last boot ended."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from rigctl.adapters.lastboot import last_boot
from rigctl.adapters.os_words import reason
from rigctl.core.reading import Missing, Reading, Why
from rigctl.core.snapshot import HostView


class Host:
    """Reads a few small files; the last boot is judged once, beside the caller's work."""

    def __init__(self, logs: Path) -> None:
        """`logs` is the folder whose disk is watched; it need not exist yet."""
        self._logs = logs
        self._last_boot = ""
        self._judge: threading.Thread | None = None

    def sample(self) -> HostView:
        """The host now, in under a millisecond. How the last boot ended is known a little later."""
        if self._judge is None:
            # The journal of a large disk takes seconds to open, and our caller is an event loop.
            self._judge = threading.Thread(target=self._ask_last_boot, daemon=True)
            self._judge.start()
        used, total = memory()
        free, size = self._disk()
        return HostView(
            load=_load(),
            cores=os.cpu_count() or 0,
            memory_used=used,
            memory_total=total,
            disk_free=free,
            disk_total=size,
            last_boot=self._last_boot,
        )

    def _ask_last_boot(self) -> None:
        self._last_boot = last_boot()

    def _disk(self) -> tuple[Reading, Reading]:
        """Bytes free for an ordinary user, and in all, where the logs are or will be."""
        folder = self._logs
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        try:
            disk = os.statvfs(folder)
        except OSError as error:
            missing = Missing(Why.FAILED, reason(error))
            return missing, missing
        return float(disk.f_bavail * disk.f_frsize), float(disk.f_blocks * disk.f_frsize)


def _load() -> Reading:
    try:
        return os.getloadavg()[0]
    except OSError as error:
        return Missing(Why.FAILED, reason(error))


def memory(path: Path = Path("/proc/meminfo")) -> tuple[Reading, Reading]:
    """Bytes in use and in all; page cache that the kernel calls available is not in use."""
    try:
        text = path.read_text()
    except OSError as error:
        missing = Missing(Why.FAILED, reason(error))
        return missing, missing
    kib: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        number = rest.split()
        if number and number[0].isdigit():
            kib[name] = int(number[0])
    if "MemTotal" not in kib or "MemAvailable" not in kib:
        missing = Missing(Why.UNSUPPORTED, f"{path} does not say")
        return missing, missing
    return (kib["MemTotal"] - kib["MemAvailable"]) * 1024.0, kib["MemTotal"] * 1024.0
