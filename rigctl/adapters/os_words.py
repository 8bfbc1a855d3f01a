"""Turns an OSError into a sentence a person can act on, errno kept."""

from __future__ import annotations

import errno
import os

_WORDS = {
    errno.ENOSPC: "the disk is full; free some space on it (`df -h`) and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.EROFS: "the file system is mounted read-only; remount it (`mount -o remount,rw …`) "
    "or move the folder with RIGCTL_HOME",
    errno.EFBIG: "the file size limit is reached (`ulimit -f`)",
    errno.EACCES: "permission denied; check owner and mode with `ls -l`",
    errno.EPERM: "not permitted; check owner and mode with `ls -l`",
    errno.EMFILE: "this process has too many open files (`ulimit -n`)",
    errno.ENFILE: "the machine has too many open files",
    errno.EAGAIN: "the limit on processes is reached (`ulimit -u`)",
    errno.ENOMEM: "there is not enough memory",
    errno.EIO: "the disk reports an input/output error; look at `dmesg`",
}


def reason(error: OSError) -> str:
    """Why a call on a file or process failed, in words, with the next step where one is known."""
    number = error.errno
    if number is None:
        return str(error)
    return _WORDS.get(number, os.strerror(number).lower())


def worded(error: OSError, what: str) -> OSError:
    """The same error (class and errno kept) whose `strerror` reads `what: why`."""
    return OSError(error.errno or errno.EIO, f"{what}: {reason(error)}")
