"""Where the NVML worker is: a few bytes in memory shared with the daemon, which outlive a crash."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

VARIABLE = "RIGCTL_NVML_MARK"
"""Names the file descriptor of the shared bytes to the worker."""

_BYTES = 64


def new_mark() -> int:
    """Memory that both processes hold by a file descriptor; the caller closes its own."""
    descriptor = os.memfd_create("rigctl-nvml-mark")
    os.ftruncate(descriptor, _BYTES)
    return descriptor


def read_mark(descriptor: int) -> str:
    """The place marked last."""
    return os.pread(descriptor, _BYTES, 0).rstrip(b"\0").decode(errors="replace")


def marker(environ: Mapping[str, str]) -> Callable[[str], None]:
    """Marks a place where the environment names such memory; else does nothing."""
    named = environ.get(VARIABLE, "")
    if not named.isdigit():
        return lambda _place: None
    descriptor = int(named)

    def mark(place: str) -> None:
        os.pwrite(descriptor, place.encode()[:_BYTES].ljust(_BYTES, b"\0"), 0)

    return mark
