"""Accepted commands on their way to an outcome: kept so that a reconnecting client learns it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rigctl.core.ids import GroupName, Mono, OperationId

KEPT = 24
"""Ended operations that stay in the snapshot."""


@dataclass(frozen=True, slots=True)
class Operation:
    id: OperationId
    kind: str
    group: GroupName | None
    by: str
    since: Mono
    state: str = "running"
    """running, done, partly, failed, cancelled."""
    say: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    ended: Mono | None = None
    marks: dict[str, float] = field(default_factory=dict)
    """When its stages were seen first: `term`, `gone`, `free`, `ready` (monotonic)."""
    holder: str = ""
    """For a free: who gets the cards."""
    for_seconds: float | None = None
    """For a free: how long the lease is to last, counted from when the cards are free."""
    pending: tuple[str, ...] = ()
    """For a power limit: cards that have not answered; for others unused."""

    @property
    def running(self) -> bool:
        """Whether its outcome is still open."""
        return self.state == "running"


def mark(operation: Operation, stage: str, now: Mono) -> Operation:
    """Remember when a stage was first seen."""
    if stage in operation.marks:
        return operation
    return replace(operation, marks={**operation.marks, stage: now})


def end(
    operation: Operation, state: str, say: str, now: Mono, figures: dict[str, float] | None = None
) -> Operation:
    """Give the operation its outcome; `total_seconds` is added to the figures."""
    measured = {"total_seconds": now - operation.since, **operation.figures, **(figures or {})}
    return replace(operation, state=state, say=say, ended=now, figures=measured)


def put(operations: Iterable[Operation], changed: Operation) -> tuple[Operation, ...]:
    """Replace or add one operation; the oldest ended ones fall away."""
    kept = [changed if each.id == changed.id else each for each in operations]
    if all(each.id != changed.id for each in kept):
        kept.append(changed)
    surplus = sum(not each.running for each in kept) - KEPT
    for each in list(kept):
        if surplus <= 0:
            break
        if not each.running:
            kept.remove(each)
            surplus -= 1
    return tuple(kept)


def running_for(operations: Iterable[Operation], group: GroupName) -> tuple[Operation, ...]:
    """The open operations of one group, oldest first."""
    return tuple(each for each in operations if each.running and each.group == group)
