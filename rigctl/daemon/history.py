"""Rings of figures for the plots: fixed memory, two resolutions, nothing kept on disk."""

from __future__ import annotations

import math
from array import array
from typing import Any

FINE_STEP, FINE_SPAN = 2.0, 900.0
"""Seconds a value, seconds kept: the last quarter of an hour."""
COARSE_STEP, COARSE_SPAN = 20.0, 86_400.0
"""The last day."""

ABSENT = math.nan


class Ring:
    """One series at one resolution; slots between two values are absent, not repeated."""

    __slots__ = ("_last", "_size", "_step", "_values")

    def __init__(self, step: float, span: float) -> None:
        self._step = step
        self._size = int(span / step)
        self._values = array("f", [ABSENT]) * self._size
        self._last = -1
        """Number of the newest slot, counted from monotonic zero."""

    def put(self, now: float, value: float) -> None:
        """Store a value at its slot; the newest of one slot wins."""
        slot = int(now / self._step)
        if self._last >= 0:
            for skipped in range(max(self._last + 1, slot - self._size), slot):
                self._values[skipped % self._size] = ABSENT
        self._values[slot % self._size] = value
        self._last = max(slot, self._last)

    def read(self, now: float, seconds: float) -> list[float | None]:
        """The values of the last `seconds`, oldest first; None where there was none."""
        end = int(now / self._step)
        count = min(self._size, max(1, int(seconds / self._step)))
        found: list[float | None] = []
        for slot in range(end - count + 1, end + 1):
            if slot > self._last or slot <= self._last - self._size or self._last < 0:
                found.append(None)
                continue
            value = self._values[slot % self._size]
            found.append(None if math.isnan(value) else round(value, 2))
        return found


class History:
    """All series of the rig, by name."""

    def __init__(self) -> None:
        self._fine: dict[str, Ring] = {}
        self._coarse: dict[str, Ring] = {}

    def put(self, name: str, now: float, value: float) -> None:
        """Store one value of one series."""
        if name not in self._fine:
            self._fine[name] = Ring(FINE_STEP, FINE_SPAN)
            self._coarse[name] = Ring(COARSE_STEP, COARSE_SPAN)
        self._fine[name].put(now, value)
        self._coarse[name].put(now, value)

    def read(self, now: float, wall: float, seconds: float) -> dict[str, Any]:
        """The protocol's `history` answer: step, wall time of the last value, series."""
        fine = seconds <= FINE_SPAN
        rings = self._fine if fine else self._coarse
        step = FINE_STEP if fine else COARSE_STEP
        series = {name: ring.read(now, seconds) for name, ring in rings.items()}
        return {"step": step, "end": wall, "series": series}
