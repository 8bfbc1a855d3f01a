"""One minute of watts for each card, in four-second steps: the sparklines of the overview."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rigctl.core.reading import NOT_YET, Missing, Reading
from rigctl.core.snapshot import Snapshot

STEP = 4.0
"""Seconds a step: the picture moves every four seconds, not with every snapshot."""


class WattRings:
    """Means of whole steps only, so that a finished sign never changes."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._means: dict[str, dict[int, float]] = {}
        self._open: dict[str, tuple[int, float, int]] = {}
        self._now = 0

    def add(self, snapshot: Snapshot) -> None:
        """Take one snapshot's watts into the step that is open."""
        step = int(snapshot.wall // STEP)
        self._now = max(self._now, step)
        for card in snapshot.cards:
            watts = card.watts
            at, total, count = self._open.get(card.uuid, (step, 0.0, 0))
            if at != step:
                self._close(card.uuid, at, total, count)
                at, total, count = step, 0.0, 0
            if not isinstance(watts, Missing):
                total, count = total + watts, count + 1
            self._open[card.uuid] = (at, total, count)

    def prime(self, history: Mapping[str, Any]) -> None:
        """Fill what lies before the first snapshot from the daemon's history."""
        step, end = float(history.get("step", 0) or 0), float(history.get("end", 0) or 0)
        series = history.get("series", {})
        if step <= 0 or not isinstance(series, Mapping):
            return
        for name, values in series.items():
            if not name.startswith("card.") or not name.endswith(".watts"):
                continue
            means = self._means.setdefault(name[len("card.") : -len(".watts")], {})
            found: dict[int, list[float]] = {}
            for place, value in enumerate(reversed(values)):
                if value is not None:
                    found.setdefault(int((end - place * step) // STEP), []).append(value)
            for at, group in found.items():
                if at < self._now or not self._now:
                    means.setdefault(at, sum(group) / len(group))

    def series(self, uuid: str) -> tuple[Reading, ...]:
        """The last whole steps, oldest first; a step without a reading is Missing."""
        means = self._means.get(uuid, {})
        first = self._now - self._steps
        return tuple(means.get(at, NOT_YET) for at in range(first, self._now))

    def _close(self, uuid: str, at: int, total: float, count: int) -> None:
        means = self._means.setdefault(uuid, {})
        if count:
            means[at] = total / count
        for old in [step for step in means if step < self._now - self._steps]:
            del means[old]
