"""fallocate(2) with its modes, which Python's os module lacks: holes, and room kept in reserve."""

from __future__ import annotations

import ctypes
import errno
import os

_KEEP_SIZE = 0x01
_PUNCH_HOLE = 0x02

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def _fallocate(descriptor: int, mode: int, offset: int, length: int) -> None:
    while _libc.fallocate(descriptor, mode, offset, length) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def punch(descriptor: int, offset: int, length: int) -> None:
    """Give the blocks of a part back to the disk; the file's size and all offsets stay.

    OSError EOPNOTSUPP where the file system cannot.
    """
    _fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, offset, length)


def reserve(descriptor: int, offset: int, length: int) -> None:
    """Take blocks for a part beyond the end, its size unchanged: later appends cannot fail there.

    OSError ENOSPC where the disk is full, EOPNOTSUPP where the file system cannot.
    """
    _fallocate(descriptor, _KEEP_SIZE, offset, length)
