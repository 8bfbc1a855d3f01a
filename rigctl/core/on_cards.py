"""A sweep of the cards came in: energy, baselines, lost cards, and engines that wait for memory."""

from __future__ import annotations

from dataclasses import replace

from rigctl.core import heat
from rigctl.core.card_use import engine_gone, learn_baseline
from rigctl.core.cards import CardSample, GpuSweep
from rigctl.core.energy import Moment
from rigctl.core.energy import step as book
from rigctl.core.engine_states import CardsSeen, Hopeless, Off, Ready, Stage, Stopping
from rigctl.core.ids import Mono
from rigctl.core.on_engine import in_flight
from rigctl.core.orders import Order, TellPerson, WriteJournal
from rigctl.core.pace import observe, say_polling_cost
from rigctl.core.power import watts
from rigctl.core.pstates import PstateTimes, add
from rigctl.core.reading import OFF, Missing
from rigctl.core.run_engine import Fed, feed_engine
from rigctl.core.state import GroupState, RigState, with_group


def on_sweep(state: RigState, sweep: GpuSweep, moment: Moment, now: Mono) -> Fed:
    """Take one sweep, answered or not."""
    before = state.sweep
    state = replace(state, sweep=sweep)
    if not sweep.answered or sweep.error:
        return _silent(state, before, sweep)
    state = replace(state, energy=book(state.energy, sweep, moment))
    state = replace(
        state,
        pstates={
            card.uuid: add(
                state.pstates.get(card.uuid, PstateTimes()), card.pstate, moment.day, now
            )
            for card in sweep.cards
        },
    )
    state = _baselines(state, sweep)
    interval = sweep.at - before.at if before is not None else 10.0
    state = _polled(state, sweep, interval, now)
    state = _heats(state, sweep, interval, now)
    state, orders = _lost(state, before, sweep, now)
    if before is not None and before.error:
        orders = (*orders, WriteJournal("", "nvml-back", "NVML answers again"))
    return state, orders


def releases(state: RigState, now: Mono) -> Fed:
    """Engines whose processes are gone wait for their cards; one without cards has nothing to."""
    orders: tuple[Order, ...] = ()
    for group in state.groups:
        engine = group.engine.state
        if isinstance(engine, Stopping) and engine.stage is Stage.RELEASE:
            began = engine.next_at - group.spec.policy.release
            sweep = state.sweep
            if group.spec.cards and (sweep is None or sweep.at < began):
                continue  # a look from before the processes went tells nothing
            clear = engine_gone(group.spec.cards, sweep, group.mine, state.baselines)
            state, more = feed_engine(state, group, CardsSeen(clear), now)
            orders = (*orders, *more)
    return state, orders


def _silent(state: RigState, before: GpuSweep | None, sweep: GpuSweep) -> Fed:
    said = "" if before is None else before.error
    if sweep.error and not said:
        return state, (WriteJournal("", "nvml-silent", sweep.error),)
    return state, ()


def _baselines(state: RigState, sweep: GpuSweep) -> RigState:
    """A card of a group that is off and not lent shows what it holds when nobody uses it."""
    resting = {
        card
        for group in state.groups
        if isinstance(group.engine.state, Off) and group.lease is None
        for card in group.spec.cards
    }
    found = dict(state.baselines)
    for card in sweep.cards:
        if card.uuid in resting:
            learnt = learn_baseline(card, found.get(card.uuid))
            if learnt is not None:
                found[card.uuid] = learnt
    return state if found == state.baselines else replace(state, baselines=found)


def _polled(state: RigState, sweep: GpuSweep, interval: float, now: Mono) -> RigState:
    """Book what the idle rig draws at this pace (C82); not while a part works, settles, is lent."""
    drawn = watts(sweep.cards)
    for group in state.groups:
        since = group.heat.idle_since
        if group.spec.cards and (since is None or now - since < heat.PATIENCE or group.lease):
            return state
    if not drawn.complete or not sweep.cards:
        return state
    return replace(state, polling=observe(state.polling, drawn.value, interval))


def _heats(state: RigState, sweep: GpuSweep, interval: float, now: Mono) -> RigState:
    """Cards that draw power with nothing to do, group by group; lent cards are not judged."""
    for group in state.groups:
        if group.lease is not None or not group.spec.cards:
            state = with_group(state, replace(group, heat=heat.Heat(), verdict=None))
            continue
        cards = tuple(card for card in sweep.cards if card.uuid in group.spec.cards)
        off = group.process is None and (group.foreign is None or group.foreign.pid is None)
        group = _forget_gone(group, cards)
        others = {
            f"pid {each.pid} ({each.name or 'unknown'})": None
            for card in cards
            if not isinstance(card.processes, Missing)
            for each in card.processes
            if each.pid not in group.mine and (group.pids or off)
        }
        facts = heat.HeatFacts(
            group=group.spec.name,
            cards=cards,
            requests=OFF if off else in_flight(group),
            scheduler_cpu=OFF if group.watched is None else group.watched.scheduler_cpu,
            sleep_on_idle=group.running_sleep,
            foreign=tuple(others),
            poll_seconds=interval,
            polling=say_polling_cost(state.polling),
        )
        felt, verdict = heat.step(group.heat, facts, now)
        state = with_group(state, replace(group, heat=felt, verdict=verdict))
    return state


def _forget_gone(group: GroupState, cards: tuple[CardSample, ...]) -> GroupState:
    """Drop pids that neither live in the session nor hold a card: the kernel reuses numbers."""
    if not isinstance(group.engine.state, Ready):
        return group
    listed: set[int] = set()
    for card in cards:
        if isinstance(card.processes, Missing):
            return group
        listed.update(each.pid for each in card.processes)
    mine = tuple(pid for pid in group.mine if pid in listed or pid in group.pids)
    return group if mine == group.mine else replace(group, mine=mine)


def _lost(state: RigState, before: GpuSweep | None, sweep: GpuSweep, now: Mono) -> Fed:
    """Cards that fell off the bus since the last sweep, or left NVML's list (C11)."""
    known = {} if before is None else {each.uuid: each for each in before.cards}
    here = {each.uuid: each for each in sweep.cards}
    orders: tuple[Order, ...] = ()
    for uuid, card in known.items():
        now_card = here.get(uuid)
        lost = "it left NVML's list" if now_card is None else now_card.lost
        if not lost or card.lost:
            continue
        state, more = _mark_lost(state, card, lost, now)
        orders = (*orders, *more)
    for group in state.groups:
        cards = [here.get(card) for card in group.spec.cards]
        if group.lost_card and all(card is not None and not card.lost for card in cards):
            state = with_group(state, replace(group, lost_card=""))
            note = WriteJournal(group.spec.name, "card-back", "all its cards answer again")
            orders = (*orders, note)
    return state, orders


def _mark_lost(state: RigState, card: CardSample, why: str, now: Mono) -> Fed:
    group = _owner(state, card)
    say = f"card {card.index} ({card.uuid}) is lost: {why}; a reboot brings it back"
    if group is None:
        return state, (WriteJournal("", "card-lost", say), TellPerson("card-lost", "", say))
    name = group.spec.name
    group = replace(group, lost_card=say)
    # Its engine may have died of it a moment before the card was seen to be gone.
    state, orders = feed_engine(with_group(state, group), group, Hopeless(say), now)
    told = TellPerson("card-lost", name, say)
    return state, (WriteJournal(name, "card-lost", say), told, *orders)


def _owner(state: RigState, card: CardSample) -> GroupState | None:
    for group in state.groups:
        if card.uuid in group.spec.cards:
            return group
    return None
