"""A disk that is full: a tmpfs of 64 KiB where root may mount one, else a file size limit."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(folder: Path, kib: int = 64) -> Iterator[bool]:
    """Mount a tmpfs on `folder`; yields False where that is not allowed."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Write a file until the disk takes no more; its path, to be removed to make room again."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    return path


@contextmanager
def no_room(folder: Path, limit: int = 0) -> Iterator[None]:
    """Inside, no file in `folder` can grow past `limit` bytes: by a full tmpfs or by rlimit."""
    if os.path.ismount(folder):
        filler = fill(folder)
        try:
            yield
        finally:
            filler.unlink()
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
