"""How much memory simulated cards hold: a process's share outlives it for a while (C64)."""

from __future__ import annotations

import time
from pathlib import Path

from rigctl.sim.cardfile import CardState, Holder

_TRUSTED = 0.05
"""Seconds that a look at /proc holds: one sweep asks several times about the same pids."""


class HeldMemory:
    """Remembers when each process was first seen dead."""

    def __init__(self) -> None:
        self._died: dict[tuple[str, int, int], float] = {}
        self._looked: dict[tuple[int, int], tuple[float, bool]] = {}

    def used(self, card: CardState) -> int:
        """Bytes in use beside the driver's reserve."""
        return card.memory_used + sum(self._share(card, holder) for holder in card.processes)

    def listed(self, card: CardState) -> tuple[tuple[int, int], ...]:
        """NVML's process list: pid and bytes; the dead are not in it though their memory is."""
        if card.listed is not None:
            return card.listed
        return tuple(
            (holder.pid, holder.used_bytes) for holder in card.processes if self._lives(holder)
        )

    def _share(self, card: CardState, holder: Holder) -> int:
        """Whole while it lives and at first after, then less than half, then nothing."""
        key = (card.uuid, holder.pid, holder.start_ticks)
        if self._lives(holder):
            self._died.pop(key, None)
            return holder.used_bytes
        now = time.monotonic()
        since = now - self._died.setdefault(key, now)
        if card.release_seconds is None or since < card.release_seconds * 0.4:
            return holder.used_bytes
        return holder.used_bytes * 2 // 5 if since < card.release_seconds else 0

    def _lives(self, holder: Holder) -> bool:
        key, now = (holder.pid, holder.start_ticks), time.monotonic()
        at, lives = self._looked.get(key, (float("-inf"), False))
        if now - at >= _TRUSTED:
            lives = _alive(holder)
            self._looked[key] = (now, lives)
        return lives


def _alive(holder: Holder) -> bool:
    """Whether the very process lives; a zombie has given its memory back."""
    try:
        stat = Path(f"/proc/{holder.pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    after_name = stat[stat.rindex(")") + 2 :].split()
    same = not holder.start_ticks or int(after_name[19]) == holder.start_ticks
    return same and after_name[0] not in "ZX"
