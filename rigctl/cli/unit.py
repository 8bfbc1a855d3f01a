"""The text of the systemd user unit, and which containers a reload of systemd could hurt."""

from __future__ import annotations

import os
import re
from pathlib import Path

LONGEST_STOP = 300.0
"""Seconds: at least this much, so that a config without groups has a sane limit too."""

_CONTAINER = re.compile(r"docker|libpod|containerd|kubepods|crio|lxc|machine\.slice|nspawn")
"""What the cgroup path of a container's process has in it."""


def unit(template: str, command: list[str], path: str, stop_seconds: float) -> str:
    """The unit with its command line, search path and limit filled in."""
    return (
        template.replace("@COMMAND@", " ".join(quoted(word) for word in command))
        .replace("@PATH@", quoted(f"PATH={path}", expands=False))
        .replace("@STOP_SECONDS@", f"{stop_seconds:.0f}")
    )


def quoted(word: str, *, expands: bool = True) -> str:
    """One word as systemd reads it back; only command lines have `$` filled in."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    word = word.replace("$", "$$") if expands else word
    return f'"{word}"' if re.search(r"[\s\"'\\;]", word) or not word else word


def container_pids(processes: Path = Path("/proc")) -> list[int]:
    """Processes in containers that have a card open, as far as our rights show it (C90)."""
    found = []
    for folder in processes.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            group = (folder / "cgroup").read_text(errors="replace")
        except OSError:
            continue
        if _CONTAINER.search(group) and _has_card_open(folder / "fd"):
            found.append(int(folder.name))
    return sorted(found)


def _has_card_open(descriptors: Path) -> bool:
    try:
        names = list(descriptors.iterdir())
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(name).startswith("/dev/nvidia"):
                return True
        except OSError:
            continue
    return False
