"""The life of the proxy's process: a table-like function of phase and event, with no I/O.

Rules, in the order they matter:

1. At most one spawn in flight: its answer is awaited before anything else is decided.
2. Whoever serves goes on serving until a successor has said hello; only then is it asked to leave.
3. Every process that was started is followed until its exit is seen.
4. The listening socket is let go only where nobody is to serve from it: otherwise whoever connects
   between two proxies waits in its backlog and is refused by nobody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from rigctl.core.endpoint_states import (
    Absent,
    BackingOff,
    Event,
    Exited,
    Failed,
    HandOver,
    Keeper,
    KeeperOrder,
    Kill,
    Leaver,
    Linked,
    Opening,
    Patience,
    Phase,
    ReleaseSocket,
    RestartAsked,
    Serving,
    Spawn,
    Spawned,
    SpawnFailed,
    Spawning,
    Terminate,
    Tick,
    Unlinked,
    Unwanted,
    Wanted,
)
from rigctl.core.ids import Mono, ProcessIdentity

Step = tuple[Keeper, tuple[KeeperOrder, ...]]

NO_HELLO = "did not say hello in time"


def step(keeper: Keeper, event: Event, now: Mono, patience: Patience) -> Step:
    """Take one event; say the next phase and what the shell must do about it."""
    phase = keeper.phase
    match event:
        case Wanted():
            return _want(keeper, now)
        case Unwanted(why):
            return _unwant(keeper, why, now, patience)
        case RestartAsked():
            match phase:
                case Serving():
                    return replace(keeper, phase=Spawning(now, phase)), (Spawn(),)
                case BackingOff() | Failed():
                    return Keeper(Spawning(now), keeper.leavers), (Spawn(),)
                case _:
                    return keeper, ()
        case Spawned(process):
            return _spawned(keeper, process, now, patience)
        case SpawnFailed(why, final):
            return _spawn_failed(keeper, why, final, now, patience)
        case Linked(pid):
            return _linked(keeper, pid, now, patience)
        case Unlinked(pid):
            return replace(keeper, phase=_link(phase, pid, False, now)), ()
        case Exited(process, why):
            return _exited(keeper, process, why, now, patience)
        case Tick():
            return _tick(keeper, now, patience)
        case _:
            assert_never(event)


def _want(keeper: Keeper, now: Mono) -> Step:
    match keeper.phase:
        case Absent() | BackingOff() | Failed():
            return Keeper(Spawning(now), keeper.leavers), (Spawn(),)
        case Spawning(abort=True) as phase:
            return replace(keeper, phase=replace(phase, abort=False)), ()
        case _:
            return keeper, ()


def _unwant(keeper: Keeper, why: str, now: Mono, patience: Patience) -> Step:
    phase = keeper.phase
    match phase:
        case Absent():
            return replace(keeper, phase=replace(phase, why=why)), ()
        case BackingOff() | Failed():
            return Keeper(Absent(now, why), keeper.leavers), (ReleaseSocket(),)
        case Spawning(before=before):
            keeper = replace(keeper, phase=replace(phase, before=None, abort=True))
            if before is None:
                return keeper, ()
            return _leaves(keeper, before.process, now, patience), (Terminate(before.process),)
        case Opening(process=process, before=before):
            keeper = _leaves(keeper, process, now, patience)
            ends: tuple[KeeperOrder, ...] = (Terminate(process),)
            if before is not None:
                keeper = _leaves(keeper, before.process, now, patience)
                ends = (*ends, Terminate(before.process))
            return Keeper(Absent(now, why), keeper.leavers), (*ends, ReleaseSocket())
        case Serving(process=process):
            keeper = _leaves(keeper, process, now, patience)
            ends = (Terminate(process), ReleaseSocket())
            return Keeper(Absent(now, why), keeper.leavers), ends
        case _:
            assert_never(phase)


def _leaves(keeper: Keeper, process: ProcessIdentity, now: Mono, patience: Patience) -> Keeper:
    leaver = Leaver(process, now, Mono(now + patience.drain + patience.leave))
    return replace(keeper, leavers=(*keeper.leavers, leaver))


def _spawned(keeper: Keeper, process: ProcessIdentity, now: Mono, patience: Patience) -> Step:
    phase = keeper.phase
    if not isinstance(phase, Spawning):
        return _leaves(keeper, process, now, patience), (Terminate(process),)
    if phase.abort:
        keeper = _leaves(keeper, process, now, patience)
        ends = (Terminate(process), ReleaseSocket())
        return replace(keeper, phase=Absent(now, "not wanted any more")), ends
    opening = Opening(now, process, Mono(now + patience.open), phase.before)
    return replace(keeper, phase=opening), ()


def _spawn_failed(keeper: Keeper, why: str, final: bool, now: Mono, patience: Patience) -> Step:
    phase = keeper.phase
    if not isinstance(phase, Spawning):
        return keeper, ()
    if phase.abort:
        return replace(keeper, phase=Absent(now, "not wanted any more")), (ReleaseSocket(),)
    if phase.before is not None:
        return replace(keeper, phase=phase.before), ()
    if final:
        return replace(keeper, phase=Failed(now, why)), (ReleaseSocket(),)
    # What keeps it from being started (a taken port) may pass: it is tried for ever, at leisure.
    crashes = (*_recent(keeper, now, patience), now)
    pause = max(patience.pauses[min(len(crashes), len(patience.pauses)) - 1], 5.0)
    waits = BackingOff(now, Mono(now + pause), len(crashes), why)
    return replace(keeper, phase=waits, crashes=crashes), ()


def _linked(keeper: Keeper, pid: int, now: Mono, patience: Patience) -> Step:
    phase = keeper.phase
    if not isinstance(phase, Opening) or phase.process.pid != pid:
        return replace(keeper, phase=_link(phase, pid, True, now)), ()
    keeper = replace(keeper, phase=Serving(now, phase.process, True, now))
    before = phase.before
    if before is None:
        return keeper, ()
    keeper = _leaves(keeper, before.process, now, patience)
    return keeper, (HandOver(before.process, before.linked),)


def _link(phase: Phase, pid: int, linked: bool, now: Mono) -> Phase:
    """The same phase, knowing whether its serving process is linked."""
    if isinstance(phase, Serving):
        if phase.process.pid == pid and phase.linked is not linked:
            return replace(phase, linked=linked, moved=now)
        return phase
    if isinstance(phase, Spawning | Opening) and phase.before is not None:
        before = _link(phase.before, pid, linked, now)
        assert isinstance(before, Serving)
        return replace(phase, before=before)
    return phase


def _exited(
    keeper: Keeper, process: ProcessIdentity, why: str, now: Mono, patience: Patience
) -> Step:
    staying = tuple(each for each in keeper.leavers if each.process != process)
    if len(staying) != len(keeper.leavers):
        return replace(keeper, leavers=staying), ()
    phase = keeper.phase
    match phase:
        case Serving() if phase.process == process:
            return _crashed(keeper, why, now, patience)
        case Opening() if phase.process == process:
            if phase.before is not None:
                return replace(keeper, phase=phase.before), ()
            return _crashed(keeper, why, now, patience)
        case Opening() | Spawning() if phase.before is not None:
            if phase.before.process == process:
                return replace(keeper, phase=replace(phase, before=None)), ()
            return keeper, ()
        case _:
            return keeper, ()


def _recent(keeper: Keeper, now: Mono, patience: Patience) -> tuple[Mono, ...]:
    return tuple(at for at in keeper.crashes if now - at <= patience.window)


def _crashed(keeper: Keeper, why: str, now: Mono, patience: Patience) -> Step:
    crashes = (*_recent(keeper, now, patience), now)
    if len(crashes) >= patience.limit:
        failed = Failed(now, why)
        return replace(keeper, phase=failed, crashes=crashes), (ReleaseSocket(),)
    pause = patience.pauses[min(len(crashes), len(patience.pauses)) - 1]
    if pause <= 0:
        return replace(keeper, phase=Spawning(now), crashes=crashes), (Spawn(),)
    waits = BackingOff(now, Mono(now + pause), len(crashes), why)
    return replace(keeper, phase=waits, crashes=crashes), ()


def _tick(keeper: Keeper, now: Mono, patience: Patience) -> Step:
    orders: tuple[KeeperOrder, ...] = ()
    late = tuple(each for each in keeper.leavers if now >= each.kill_at)
    if late:
        again = Mono(now + patience.leave)
        leavers = tuple(
            replace(each, kill_at=again) if each in late else each for each in keeper.leavers
        )
        keeper = replace(keeper, leavers=leavers)
        orders = tuple(Kill(each.process) for each in late)
    phase = keeper.phase
    if isinstance(phase, BackingOff) and now >= phase.retry_at:
        return replace(keeper, phase=Spawning(now)), (*orders, Spawn())
    if isinstance(phase, Opening) and now >= phase.until:
        # It has no answers to finish: what does not begin to serve is not waited for.
        leaver = Leaver(phase.process, now, Mono(now + patience.leave))
        keeper = replace(keeper, leavers=(*keeper.leavers, leaver))
        orders = (*orders, Terminate(phase.process))
        if phase.before is not None:
            return replace(keeper, phase=phase.before), orders
        keeper, more = _crashed(keeper, NO_HELLO, now, patience)
        return keeper, (*orders, *more)
    return keeper, orders
