"""How the process keeps house with its memory, so that no request pays for it."""

from __future__ import annotations

import ctypes
import gc

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
MIB = 1 << 20
KEPT = 16 * MIB
"""Bytes of freed memory that malloc keeps: a large prompt else gives its pages back, and the next
one has them cleared anew by the kernel, some hundred faults each time."""
APART = 4 * MIB
"""Blocks from this size on are mapped by themselves, and given back at once."""
COLLECT = (10_000, 20, 50)
"""The collector looks after so many new objects (Python: 700): a request leaves few cycles."""


def settle_memory() -> None:
    """Call once everything is loaded."""
    # What was loaded lives as long as the process: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc's; others have no such thing
        mallopt(_M_MMAP_THRESHOLD, APART)
        mallopt(_M_TRIM_THRESHOLD, KEPT)
