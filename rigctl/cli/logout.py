"""What logging out of SSH may do to a daemon that no user service keeps (C93)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

LINGER = "/var/lib/systemd/linger"
"""One empty file for each user whose services outlive the login."""


def warning(environ: Mapping[str, str] | None = None, lingering: str = LINGER) -> str:
    """The warning for a daemon just started from this login, or empty."""
    env = os.environ if environ is None else environ
    if not (env.get("SSH_CONNECTION") or env.get("SSH_TTY")):
        return ""
    if env.get("INVOCATION_ID") or os.path.exists(os.path.join(lingering, user())):
        return ""
    return (
        "This is an SSH login without lingering: where systemd ends a user's processes at logout "
        "(KillUserProcesses=yes), logging out ends this daemon and its engines.\n"
        f"To keep them: `loginctl enable-linger {user()}`, and `rigctl service install` for after "
        "a reboot."
    )


def user() -> str:
    """The login name by our uid, which no variable can misstate."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
