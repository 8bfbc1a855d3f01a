"""Fault lines of an engine's log as journal entries: each of them once, however often it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rigctl.core.ids import Mono
from rigctl.core.orders import Order, WriteJournal
from rigctl.core.state import GroupState

PAUSE = 60.0
"""Seconds in which the same words are not said again."""
MOST = 5
"""Different ones told in that time; the others are counted."""
_MORE = ""
"""Stands for those among the words said lately."""


def told_faults(
    group: GroupState, says: Sequence[str], now: Mono
) -> tuple[GroupState, tuple[Order, ...]]:
    """What of these is worth an entry, and the group that remembers it (C68)."""
    if not says:
        return group, ()
    known = {say: at for say, at in group.faults_told if now - at < PAUSE}
    fresh = [(say, count) for say, count in Counter(says).items() if say not in known]
    told = fresh[: max(0, MOST - len(known))]
    name = group.spec.name
    orders: list[Order] = [
        WriteJournal(name, "engine-fault", say if count == 1 else f"{say} (× {count})")
        for say, count in told
    ]
    known |= {say: now for say, _ in told}
    if len(fresh) > len(told) and _MORE not in known:
        more = f"and {len(fresh) - len(told)} more; see `rigctl logs {name}`"
        orders.append(WriteJournal(name, "engine-fault", more))
        known[_MORE] = now
    return replace(group, faults_told=tuple(known.items())), tuple(orders)
