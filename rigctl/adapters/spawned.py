"""Finds engines by the token that every spawn carries, where the state file cannot tell."""

from __future__ import annotations

import os

from rigctl.adapters import proc


def find_by_group(tag: str, name: str) -> int | None:
    """The oldest session leader of our own uid that this home spawned for this group.

    Tokens read `HOME.GROUP.EPOCH.SECONDS`, the seconds with three decimals; a group's name may have
    dots too. Children inherit them, so leaders alone are looked at.
    """
    own = os.getuid()
    leaders = [
        line
        for line in proc.scan().values()
        if line.living and line.session == line.pid and proc.owner(line.pid) == own
    ]
    for line in sorted(leaders, key=lambda each: each.start_ticks):
        if _token(line.pid).rsplit(".", 3)[0] == f"{tag}.{name}":
            return line.pid
    return None


def _token(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return ""
    prefix = f"{proc.TOKEN_VARIABLE}=".encode()
    for each in raw.split(b"\0"):
        if each.startswith(prefix):
            return each.removeprefix(prefix).decode("utf-8", "replace")
    return ""
