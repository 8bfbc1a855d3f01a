"""What a person should know now, each with its next step; worst first."""

from __future__ import annotations

from collections.abc import Iterator

from rigctl.core import lease as leases
from rigctl.core.ids import CardId, Mono, Wall
from rigctl.core.pace import costs_watts, say_polling_cost
from rigctl.core.power import limit_deviations, say_deviations, say_remedy
from rigctl.core.reading import Missing
from rigctl.core.snapshot import Notice
from rigctl.core.state import GroupState, RigState
from rigctl.core.view_endpoint import endpoint_notices
from rigctl.core.watch import flow

LEAST_DISK = 1024**3
"""Bytes free where the logs go, under which it is said."""

_ORDER = {"error": 0, "warning": 1, "info": 2}


def notices(state: RigState, now: Mono) -> tuple[Notice, ...]:
    """All standing notices."""
    found = [
        *_rig(state, now),
        *(each for group in state.groups for each in _group(state, group, now)),
    ]
    return tuple(sorted(found, key=lambda each: _ORDER[each.level]))


def _rig(state: RigState, now: Mono) -> Iterator[Notice]:
    if not state.confirmed:
        yield Notice(
            "unconfirmed",
            "error",
            "the state file could not be read; what runs was found by its start token and is only "
            "watched: look at it, then `rigctl daemon confirm`",
        )
    for trouble in state.troubles:
        yield Notice(trouble.id, trouble.level, trouble.say)
    yield from endpoint_notices(state.endpoint, now)
    error = "" if state.sweep is None else state.sweep.error
    wanted = any(group.spec.cards or group.spec.missing for group in state.groups)
    if error and wanted and not state.nvml_paused:
        yield Notice("nvml-silent", "error", f"{error}; engines and requests are not affected")
    yield from _limits(state)
    for card in () if state.sweep is None else state.sweep.cards:
        if card.lost:
            say = f"card {card.index} is lost: {card.lost}; a reboot brings it back"
            yield Notice("card-lost", "error", say, card=card.uuid)
    host = state.host
    if not isinstance(host.disk_free, Missing) and host.disk_free < LEAST_DISK:
        free = host.disk_free / 1024**2
        yield Notice(
            "disk-full", "warning", f"{free:.0f} MiB left where the logs go ({state.spec.home})"
        )
    if costs_watts(state.polling):
        say = f"idle cards draw {say_polling_cost(state.polling)}; close panels that nobody reads"
        yield Notice("polling-cost", "info", say)
    if "without" in host.last_boot:
        yield Notice("last-boot", "warning", f"the last boot {host.last_boot}")


def _limits(state: RigState) -> Iterator[Notice]:
    """Limits that a reboot or driver reload took back (C09)."""
    if state.sweep is None:
        return
    wanted: dict[CardId, float] = {
        card: group.spec.power_limit
        for group in state.groups
        if group.spec.power_limit is not None
        for card in group.spec.cards
    }
    deviations = limit_deviations(state.sweep.cards, wanted)
    if deviations:
        say = f"{say_deviations(deviations)}; {say_remedy(deviations)}"
        yield Notice("power-limits", "error", say)


def _group(state: RigState, group: GroupState, now: Mono) -> Iterator[Notice]:
    name = group.spec.name
    if group.verdict is not None and group.lease is None:
        yield Notice("idle-but-hot", "warning", f"{name} {group.verdict.say}", group=name)
    lease = group.lease
    if lease is not None and leases.overdue(lease, Wall(state.wall)):
        say = f"the lease of “{lease.holder}” on {name} is over; `rigctl reclaim {name}`"
        yield Notice("overdue", "warning", say, group=name)
    if group.watch is not None and group.process is not None:
        seen = flow(group.watch, now)
        if seen.state in ("hung", "broken"):
            say = f"{name} is {seen.state}: {seen.say}; `rigctl restart {name}`"
            yield Notice(seen.state, "error", say, group=name)
    if group.spec.missing and group.process is None:
        yield Notice("card-missing", "error", "; ".join(group.spec.missing), group=name)
