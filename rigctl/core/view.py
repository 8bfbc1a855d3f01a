"""The rig as clients see it: one snapshot made from one state."""

from __future__ import annotations

from rigctl.core import power
from rigctl.core.card_use import use_of
from rigctl.core.cards import CardSample
from rigctl.core.energy import used
from rigctl.core.engine_sample import TokenPool
from rigctl.core.ids import CardId, Mono
from rigctl.core.notices import notices
from rigctl.core.operations import Operation
from rigctl.core.pstates import PstateTimes, shares
from rigctl.core.reading import NOT_YET, OFF, Missing, Reading, Why
from rigctl.core.snapshot import CardView, JournalEntry, OperationView, PowerView, Snapshot
from rigctl.core.state import GroupState, RigState
from rigctl.core.view_endpoint import view_endpoint
from rigctl.core.view_group import view_group


def view(
    state: RigState, now: Mono, journal: tuple[JournalEntry, ...], version: str, seq: int
) -> Snapshot:
    """Everything a client may draw. The journal's newest entries come from its owner."""
    spec = state.spec
    cards = () if state.sweep is None else state.sweep.cards
    everything = tuple(card.uuid for card in cards)
    groups = tuple(
        view_group(state, group, _power(state, group.spec.cards), now) for group in state.groups
    )
    sweep_error = "" if state.sweep is None else state.sweep.error
    return Snapshot(
        seq=seq,
        epoch=state.epoch,
        rigctl=version,
        at=now,
        wall=state.wall,
        rig=spec.name,
        free_means=spec.free_group,
        currency=spec.currency,
        price_per_kwh=spec.price_per_kwh,
        power=_power(state, everything),
        pool=_pool(tuple(group.kv for group in groups if group.state in ("ready", "draining"))),
        pool_total_configured=sum(group.spec.pool or 0 for group in state.groups),
        groups=groups,
        cards=tuple(_card(state, card, now) for card in cards),
        host=state.host,
        operations=tuple(_operation(each, now) for each in state.operations),
        notices=notices(state, now),
        journal=journal,
        nvml=state.nvml_paused or sweep_error,
        driver="" if state.sweep is None else state.sweep.driver,
        home=spec.home,
        simulated=spec.simulated,
        free_drain_limit=spec.free_drain,
        endpoint=view_endpoint(state.endpoint, now),
    )


def _power(state: RigState, of: tuple[CardId, ...]) -> PowerView:
    cards = () if state.sweep is None else state.sweep.cards
    energy = used(state.energy, of)
    return PowerView(
        watts=power.watts(cards, of),
        limit=power.limit_watts(cards, of),
        kwh_today=energy.kwh,
        cost_today=energy.cost(state.spec.price_per_kwh),
        estimated=energy.estimated,
    )


def _pool(pools: tuple[TokenPool, ...]) -> TokenPool:
    """The running groups' pools added up; a part that one of them does not tell is not told."""
    if not pools:
        return TokenPool(OFF, OFF, OFF, OFF, OFF)

    def added(parts: tuple[Reading, ...]) -> Reading:
        for part in parts:
            if isinstance(part, Missing):
                return part
        return sum(part for part in parts if not isinstance(part, Missing))

    total = added(tuple(each.total for each in pools))
    in_use = added(tuple(each.used for each in pools))
    usage: Reading = NOT_YET
    if not isinstance(total, Missing) and not isinstance(in_use, Missing) and total > 0:
        usage = in_use / total
    cached = added(tuple(each.cached for each in pools))
    free = added(tuple(each.free for each in pools))
    return TokenPool(total, in_use, cached, free, usage)


def _owner(state: RigState, card: CardSample) -> GroupState | None:
    for group in state.groups:
        if card.uuid in group.spec.cards:
            return group
    return None


def _use(state: RigState, card: CardSample, group: GroupState | None) -> str:
    """engine, lent, free, foreign, leftover, lost or unknown."""
    if card.lost:
        return "lost"
    ours = () if group is None else group.pids
    kind = use_of(card, card.uuid, ours, state.baselines).kind
    if group is not None and group.lease is not None and group.process is None:
        return "lent"
    if kind == "ours":
        assert group is not None
        return "engine" if group.process is not None else "leftover"
    if group is not None and group.foreign is not None and kind == "foreign":
        return "foreign"
    return {"unseen": "unknown"}.get(kind, kind)


def _card(state: RigState, card: CardSample, now: Mono) -> CardView:
    group = _owner(state, card)
    age = 0.0 if state.sweep is None else max(0.0, now - state.sweep.at)
    limit: Reading = Missing(Why.UNSUPPORTED, "no power_limit in rig.toml")
    if group is not None and group.spec.power_limit is not None:
        limit = group.spec.power_limit
    return CardView(
        uuid=card.uuid,
        index=card.index,
        pci=card.pci,
        name=card.name,
        short=card.uuid.removeprefix("GPU-")[:4],
        group="" if group is None else group.spec.name,
        use=_use(state, card, group),
        lost=card.lost,
        watts=card.watts,
        limit_watts=card.limit_watts,
        wanted_limit=limit,
        default_limit_watts=card.default_limit_watts,
        pstate=card.pstate,
        utilisation=card.utilisation,
        memory_used=card.memory_used,
        memory_reserved=card.memory_reserved,
        memory_total=card.memory_total,
        celsius=card.celsius,
        fan=card.fan,
        clock_mhz=card.clock_mhz,
        memory_clock_mhz=card.memory_clock_mhz,
        throttle=card.throttle,
        pcie_rx=card.pcie_rx,
        pcie_tx=card.pcie_tx,
        pcie_generation=card.pcie_generation,
        pcie_width=card.pcie_width,
        persistence=card.persistence,
        kwh_today=used(state.energy, (card.uuid,)).kwh,
        pstate_share=shares(state.pstates.get(card.uuid, PstateTimes())),
        processes=card.processes,
        age=age,
    )


def _operation(operation: Operation, now: Mono) -> OperationView:
    return OperationView(
        id=operation.id,
        kind=operation.kind,
        group=operation.group or "",
        asked_by=operation.by,
        seconds=(operation.ended or now) - operation.since,
        state=operation.state,
        say=operation.say,
        figures=operation.figures,
    )
