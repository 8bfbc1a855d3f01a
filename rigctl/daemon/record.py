"""Puts the figures of a snapshot into the rings that the plots are drawn from."""

from __future__ import annotations

from rigctl.core.reading import Missing, Reading
from rigctl.core.snapshot import Snapshot
from rigctl.daemon.history import History


def record(history: History, snapshot: Snapshot) -> None:
    """One value a series, where there is one."""
    now = snapshot.at
    if snapshot.power.watts.complete and snapshot.power.watts.of:
        history.put("rig.watts", now, snapshot.power.watts.value)
    for card in snapshot.cards:
        _put(history, f"card.{card.uuid}.watts", now, card.watts)
    for group in snapshot.groups:
        _put(history, f"group.{group.name}.decode", now, group.rates.decode)
        _put(history, f"group.{group.name}.prefill", now, group.rates.prefill)
        _put(history, f"group.{group.name}.pool_used", now, group.kv.used)


def _put(history: History, name: str, now: float, value: Reading) -> None:
    if not isinstance(value, Missing):
        history.put(name, now, value)
