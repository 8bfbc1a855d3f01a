"""One group as people see it: state in words, the next command, figures with their reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from rigctl.core import lease as leases
from rigctl.core import phases
from rigctl.core.card_use import uses
from rigctl.core.engine_sample import TokenPool
from rigctl.core.engine_states import (
    BackingOff,
    Draining,
    Failed,
    Loading,
    Off,
    Ready,
    Spawning,
    Stage,
    Stopping,
    ThenCrash,
    ThenOff,
    Waiting,
    deadline_of,
)
from rigctl.core.ids import Mono, Wall
from rigctl.core.on_engine import in_flight
from rigctl.core.progress import ending
from rigctl.core.reading import NOT_YET, OFF, Missing, Reading, Total, Why, known, total
from rigctl.core.snapshot import (
    Flow,
    GroupView,
    Lease,
    PowerView,
    Rates,
    SleepOnIdle,
    Slots,
)
from rigctl.core.state import GroupState, RigState
from rigctl.core.view_endpoint import row, stalled_by
from rigctl.core.watch import flow, rates


def view_group(state: RigState, group: GroupState, power: PowerView, now: Mono) -> GroupView:
    """The slice of the snapshot that one group's panel draws."""
    spec = group.spec
    name, say, advice = state_words(state, group, now)
    engine = group.engine.state
    runs = isinstance(engine, Loading | Ready | Draining) or _foreign(group)
    since = engine.since
    due = deadline_of(engine)
    sample = group.sample if runs else None
    off = OFF if not runs else NOT_YET
    return GroupView(
        name=spec.name,
        cards=spec.cards,
        state=name,
        seconds=max(0.0, now - since),
        say=say,
        advice=advice,
        url=spec.url,
        model=spec.model,
        window=_window(group),
        stretched=spec.stretched,
        wanted=group.wanted,
        watched=_foreign(group),
        adopted=group.adopted,
        phases=() if group.startup is None else phases.phases(group.startup, now),
        start_estimate=sum(group.usual.values()) if group.usual else NOT_YET,
        countdown=NOT_YET if due is None else max(0.0, due - now),
        pid=_pid(group),
        process_count=len(group.pids),
        up_seconds=now - since if isinstance(engine, Ready) else off,
        in_flight=_in_flight(state, group, off),
        crashes=group.crashes,
        last_exit=group.last_exit,
        lease=_lease(state, group),
        kv=TokenPool(off, off, off, off, off) if sample is None else sample.kv,
        mamba=TokenPool(off, off, off, off, off) if sample is None else sample.mamba,
        window_share=_window_share(group),
        slots=_slots(group, off),
        rates=Rates(off, off, off, off) if group.watch is None else rates(group.watch, now),
        flow=_flow(state, group, now) if runs else Flow(),
        sleep=_sleep(group),
        power=power,
        scheduler_cpu=_watched(group, "scheduler_cpu", off),
        cpu=_watched(group, "cpu_cores", off),
        memory=_watched(group, "memory", off),
        engine_version="" if sample is None else sample.version,
        command=group.command or spec.command,
        differs=group.differs,
        log=spec.log,
        sample_age=off if sample is None else now - sample.at,
        drain_limit=spec.drain,
        missing_metrics=() if sample is None else sample.missing,
        leftovers=engine.leftovers if isinstance(engine, Stopping) else (),
    )


def _foreign(group: GroupState) -> bool:
    return group.process is None and group.foreign is not None and group.foreign.pid is not None


def _pid(group: GroupState) -> int | None:
    if group.process is not None:
        return group.process.pid
    return group.foreign.pid if group.foreign is not None else None


def state_words(state: RigState, group: GroupState, now: Mono) -> tuple[str, str, str]:
    """State word, what is so, and the next command that makes sense."""
    name = group.spec.name
    engine = group.engine.state
    if _foreign(group) and group.foreign is not None:
        say = f"runs outside rigctl as pid {group.foreign.pid}: watched, never signalled"
        return "ready", say, f"end it, then `rigctl start {name}` takes over"
    match engine:
        case Off(why=why):
            if group.lost_card:
                return "off", group.lost_card, f"reboot, then rigctl start {name}"
            if group.lease is not None:
                return "off", f"lent to “{group.lease.holder}”", f"rigctl reclaim {name}"
            return "off", why, f"rigctl start {name}"
        case Waiting() if group.lost_card:
            return "starting", f"waits: {group.lost_card}", f"reboot, then rigctl start {name}"
        case Waiting(on=on):
            return "starting", f"waits: {on}" if on else "waits for its turn", f"rigctl stop {name}"
        case Spawning():
            return "starting", "process is being started", f"rigctl stop {name}"
        case Loading():
            phase = "" if group.startup is None else phases.say(group.startup, now)
            return "starting", phase or "starts", f"rigctl logs {name} -f"
        case Ready():
            return "ready", "adopted from an earlier daemon" if group.adopted else "serving", ""
        case Draining():
            say = f"{ending(group, now)}; {_witnesses(state)}"
            keep = "start" if group.lease is None else "reclaim"
            return "draining", say, f"rigctl {keep} {name} keeps it"
        case Stopping(then=then):
            say = ending(group, now)
            if isinstance(then, ThenCrash):
                say = f"{then.why}; {say}"
            return "stopping", say, _stopping_advice(group, engine)
        case BackingOff(why=why, attempt=attempt, retry_at=retry_at):
            say = f"crash {attempt}, tries again in {max(0.0, retry_at - now):.0f} s: {why}"
            return "backing_off", say, group.remedy or f"rigctl logs {name}"
        case Failed(why=why):
            return "failed", why, _failed_advice(group)
        case _:
            assert_never(engine)


def _stopping_advice(group: GroupState, engine: Stopping) -> str:
    name = group.spec.name
    if engine.stage is Stage.CLEAR and engine.leftovers:
        return f"rigctl leftovers {name} ends exactly these"
    if engine.stage is Stage.TERM and isinstance(engine.then, ThenOff) and group.lease is None:
        return f"rigctl stop {name} --drain 0 does not wait for it"
    return "rigctl status --watch"


def _failed_advice(group: GroupState) -> str:
    """The remedy of its cause, ending in the command that starts it again."""
    name = group.spec.name
    look = group.remedy or f"rigctl logs {name}"
    if group.lost_card:
        return f"reboot, then rigctl start {name}"
    if f"rigctl start {name}" in look or f"rigctl restart {name}" in look:
        return look
    return f"{look}, then rigctl start {name}"


def _witnesses(state: RigState) -> str:
    """By whose word the drain ends."""
    if state.endpoint.linked:
        return "clients that go past the endpoint cannot be refused"
    if state.endpoint.spec is not None:
        return "by the engine's counters alone, since the endpoint is not linked"
    return "clients that connect directly cannot be refused"


def _in_flight(state: RigState, group: GroupState, off: Missing) -> Reading:
    """Of the endpoint's count and the engine's the larger: gauges lag, and some go past it."""
    engine = group.engine.state
    if isinstance(engine, Draining):
        counted = engine.in_flight
    else:
        counted = off if group.sample is None else in_flight(group)
    gate = state.endpoint.gate(group.spec.name) if state.endpoint.linked else None
    if gate is None or not isinstance(engine, Ready | Draining):
        return counted
    return max(float(gate.in_flight), known(counted, 0.0))


def _flow(state: RigState, group: GroupState, now: Mono) -> Flow:
    """The watch's word; where others wait, who is read and who waits, by the endpoint's."""
    if group.watch is None:
        return Flow()
    seen = flow(group.watch, now)
    if seen.state not in ("stalled", "slowed", "prefilling"):
        return seen
    names = stalled_by(row(state.endpoint, group.spec.name, now))
    return replace(seen, say=f"{seen.say}: {names}" if seen.say else names) if names else seen


def _window(group: GroupState) -> int:
    """The configured window, else the one the engine says it has; 0 while neither is known."""
    told = None if group.sample is None else group.sample.context_length
    if group.spec.window or told is None or isinstance(told, Missing):
        return group.spec.window
    return int(told)


def _window_share(group: GroupState) -> Reading:
    pool: Reading = OFF if group.sample is None else group.sample.kv.total
    if isinstance(pool, Missing):
        if group.spec.pool is None:
            return pool
        pool = float(group.spec.pool)
    if pool <= 0:
        return Missing(Why.IMPLAUSIBLE, "the pool has no size")
    return _window(group) / pool


def _slots(group: GroupState, off: Missing) -> Slots:
    configured: Reading = OFF if group.spec.slots is None else float(group.spec.slots)
    sample = group.sample
    if sample is None:
        return Slots(off, configured, off, off, off)
    note = ""
    if (
        not isinstance(sample.slots, Missing)
        and not isinstance(configured, Missing)
        and sample.slots < configured
    ):
        note = (
            f"{sample.slots:.0f} of {configured:.0f} configured: the engine's pools allow no more"
        )
    return Slots(sample.slots, configured, sample.running, sample.queued, sample.active, note)


def _sleep(group: GroupState) -> SleepOnIdle:
    wanted, running = group.sleep_on_idle, group.running_sleep
    word = "on" if wanted else "off"
    if running is None or running == wanted:
        return SleepOnIdle(wanted, running, word)
    return SleepOnIdle(wanted, running, f"{word} (after restart)")


def _watched(group: GroupState, field: str, off: Missing) -> Reading:
    if group.watched is None:
        return off
    value: Reading = getattr(group.watched, field)
    return value


def _lease(state: RigState, group: GroupState) -> Lease | None:
    lease = group.lease
    if lease is None:
        return None
    held = uses(group.spec.cards, state.sweep, (), state.baselines)
    parts = [NOT_YET if each.kind in ("unseen", "lost") else each.held for each in held]
    worker = lease.worker.pid if lease.worker is not None else None
    command = ""
    for card in () if state.sweep is None else state.sweep.cards:
        if card.uuid not in group.spec.cards or isinstance(card.processes, Missing):
            continue
        for process in card.processes:
            if process.pid in group.mine:
                continue  # the engine's own, on its way out
            if worker is None or process.pid == worker:
                worker, command = process.pid, process.name
    held_bytes: Total = total(parts)
    return Lease(
        holder=lease.holder,
        since=lease.since,
        until=lease.until,
        overdue=leases.overdue(lease, Wall(state.wall)),
        pid=worker,
        command=command,
        held_bytes=held_bytes,
    )
