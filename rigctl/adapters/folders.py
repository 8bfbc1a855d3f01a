"""Makes the rig's own folders, and takes others' rights to write in them away."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from rigctl.adapters.os_words import worded

_OTHERS_WRITE = 0o022


def own_folder(folder: Path) -> None:
    """The folder exists, is ours, and nobody else can put a socket or a state file into it.

    Whoever writes there decides which processes the daemon takes for its engines. OSError (its
    `strerror` is a sentence) where it belongs to another user or cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid != os.getuid():
            raise OSError(
                errno.EPERM,
                f"{folder} belongs to uid {found.st_uid}, not to you (uid {os.getuid()}): run "
                "rigctl as its owner, or name a folder of your own with --home or RIGCTL_HOME",
            )
        mode = stat.S_IMODE(found.st_mode)
        if mode & _OTHERS_WRITE:
            folder.chmod(mode & ~_OTHERS_WRITE)
    except OSError as error:
        if error.filename is None:
            raise
        raise worded(error, f"cannot use {folder}") from error
