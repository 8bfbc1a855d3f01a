"""Which driver runs and which NVML library is installed: the two halves of a mismatch (C16)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

Versions = Callable[[], tuple[str, str]]
"""The kernel module's version and the library file's; empty where it cannot be told."""

_FOLDERS = tuple(
    Path(folder)
    for folder in (
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/wsl/lib",
        "/usr/local/nvidia/lib64",
    )
)


def versions(
    module: Path = Path("/proc/driver/nvidia/version"),
    maps: Path = Path("/proc/self/maps"),
    folders: Iterable[Path] = _FOLDERS,
) -> tuple[str, str]:
    """Read both versions: the loaded module's, and the library's from its file name."""
    return module_version(_text(module)), library_version(_text(maps)) or _installed(folders)


def module_version(text: str) -> str:
    """`520.56.06` out of /proc/driver/nvidia/version, of the open module too."""
    found = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", text, re.MULTILINE)
    return found.group(1) if found else ""


def library_version(text: str) -> str:
    """`525.85.12` out of any text with the library's full file name in it."""
    found = re.search(r"libnvidia-ml\.so\.(\d+\.\d+(?:\.\d+)?)", text)
    return found.group(1) if found else ""


def _installed(folders: Iterable[Path]) -> str:
    for folder in folders:
        link = folder / "libnvidia-ml.so.1"
        if version := library_version(str(link.resolve())):
            return version
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
