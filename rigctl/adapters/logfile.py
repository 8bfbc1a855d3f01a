"""The engines' log files: a new one for each run, all bounded while an engine writes to them.

The engine holds its file open and appends. Renaming a held file would rotate nothing, so the old
part of a long log is punched out: its blocks go back to the disk, size and offsets stay, and
neither the engine nor a follower notices. Where the disk cannot do that, the newest part is
copied and the file cut. Room for the next lines is reserved, because `print` on a full disk
raises, and that ends the server.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from rigctl.adapters import diskspace
from rigctl.adapters.os_words import reason

CAP_BYTES = 32 * 1024 * 1024
"""Blocks one run's log may take."""

KEEP_BYTES = 16 * 1024 * 1024
"""What is left of a log that reached the cap: the newest part."""

RESERVE_BYTES = 1024 * 1024
"""Room kept after the end of a log that is written to."""

SCARCE_BYTES = 128 * 1024
"""What is left of it when the disk is full: the log then pays for its own reserve."""

RUNS = 5
"""Logs kept of a group, the present one included."""

_EARLIER = re.compile(r".\.\d+$")
"""How the name of an earlier run's log ends."""

_CANNOT = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV)


class LogFiles:
    """`standard.log` for this run, `standard.1.log` for the one before, and so on."""

    def __init__(
        self,
        folder: Path,
        *,
        cap: int = CAP_BYTES,
        keep: int = KEEP_BYTES,
        reserve: int = RESERVE_BYTES,
        runs: int = RUNS,
    ) -> None:
        self._folder = folder
        self._cap = cap
        self._keep = keep
        self._reserve = reserve
        self._runs = runs
        self._reserved: dict[Path, int] = {}
        """End of the room reserved so far, by file."""
        self._punched: dict[Path, int] = {}
        """Up to where a file has been emptied."""

    def path(self, group: str, previous: int = 0) -> Path:
        """The log of a run: 0 the present or last one, 1 the one before. It need not exist."""
        return self._folder / (f"{group}.{previous}.log" if previous else f"{group}.log")

    def begin(self, group: str) -> Path:
        """Step the older logs back and make an empty one for a new run. Never raises.

        Where the disk refuses, the new run goes on in the file that is there: the spawn that
        opens it will say what is wrong, if it is.
        """
        path = self.path(group)
        self._reserved.pop(path, None)
        self._punched.pop(path, None)
        try:
            if path.exists() and path.stat().st_size > 0:
                self._settle(path)
                self.path(group, self._runs - 1).unlink(missing_ok=True)
                for number in range(self._runs - 1, 0, -1):
                    older = self.path(group, number - 1)
                    if older.exists():
                        older.rename(self.path(group, number))
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError:
            return path
        self._look_after(path)
        return path

    def tidy(self) -> str:
        """Keep every present log under its cap and its reserve in place; what is wrong, or empty.

        To be called every few seconds while an engine runs.
        """
        try:
            logs = sorted(
                entry for entry in self._folder.glob("*.log") if not _EARLIER.search(entry.stem)
            )
        except OSError as error:
            return f"cannot read the log folder {self._folder}: {reason(error)}"
        troubles = [trouble for path in logs if (trouble := self._look_after(path))]
        return troubles[0] if troubles else ""

    def _look_after(self, path: Path) -> str:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            return f"cannot look after the log {path}: {reason(error)}"
        try:
            if os.fstat(descriptor).st_size - self._punched.get(path, 0) > self._cap:
                self._shorten(path, descriptor, self._keep)
            return self._keep_reserve(path, descriptor)
        except OSError as error:
            return f"cannot keep the log {path} short: {reason(error)}"
        finally:
            os.close(descriptor)

    def _keep_reserve(self, path: Path, descriptor: int) -> str:
        if self._reserve == 0:
            return ""
        size = os.fstat(descriptor).st_size
        reserved = self._reserved.get(path, 0)
        if size + self._reserve // 2 <= reserved <= size + 2 * self._reserve:
            return ""
        try:
            diskspace.reserve(descriptor, size, self._reserve)
        except OSError as error:
            if error.errno in _CANNOT:
                self._reserve = 0  # all logs lie on one disk, and this one cannot
                return ""
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._shorten(path, descriptor, SCARCE_BYTES)
            try:
                diskspace.reserve(descriptor, size, self._reserve)
                self._reserved[path] = size + self._reserve
            except OSError:
                pass
            return (
                f"the disk is full: {path.name} is cut to its newest {SCARCE_BYTES // 1024} KiB "
                f"so that the engine can go on; free some space (`df -h {self._folder}`)"
            )
        self._reserved[path] = size + self._reserve
        return ""

    def _shorten(self, path: Path, descriptor: int, keep: int) -> None:
        size = os.fstat(descriptor).st_size
        begin = self._punched.get(path, 0)
        end = (size - keep) // 4096 * 4096
        if end <= begin:
            return
        try:
            diskspace.punch(descriptor, begin, end - begin)
            self._punched[path] = end
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            # Lines that the engine writes between these calls may come before the copied ones;
            # none of them is lost.
            newest = os.pread(descriptor, keep, size - keep)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, newest[newest.find(b"\n") + 1 :])
            self._punched.pop(path, None)

    def _settle(self, path: Path) -> None:
        """A finished log becomes a plain file: no hole before its text, no reserve behind it."""
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                start = os.lseek(file.fileno(), 0, os.SEEK_DATA)
            except OSError:
                start = 0
            if start == 0:
                os.truncate(path, size)  # gives the reserve back
                return
            file.seek(start)
            file.readline()  # most likely half of one
            fresh = path.with_name(path.name + ".settling")
            try:
                with open(fresh, "wb", opener=_private) as copy:
                    while block := file.read(1 << 20):
                        copy.write(block)
                fresh.rename(path)
            except OSError:
                fresh.unlink(missing_ok=True)  # no room: it stays as it is, with its hole


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
