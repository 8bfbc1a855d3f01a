"""The life of one engine: a table-like function of state and event, with no I/O.

Rules, in the order they matter:

1. At most one process: a spawn is ordered only from `Waiting`, and its answer is awaited before
   anything else is decided, even where a stop came in between.
2. A process that has gone is not yet a free card: every end goes through `Stopping`, which waits
   for the last member of the session and then for NVML, whoever asked for the end.
3. An exit nobody asked for is a crash, whatever its code (C08); one that was asked for is none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from rigctl.core.engine_states import (
    SIGKILL,
    SIGTERM,
    AbortRequests,
    After,
    BackingOff,
    CardsSeen,
    Draining,
    Engine,
    EngineOrder,
    Event,
    Exited,
    Failed,
    GateSeen,
    Hopeless,
    InFlight,
    Loading,
    MembersSeen,
    Off,
    Policy,
    Proxied,
    Ready,
    ReadySeen,
    SignalLeader,
    SignalSession,
    Spawn,
    Spawned,
    SpawnFailed,
    Spawning,
    Stage,
    StartAsked,
    StopAsked,
    StopCancelled,
    Stopping,
    Stuck,
    ThenCrash,
    ThenOff,
    ThenStart,
    Tick,
    Waiting,
    process_of,
)
from rigctl.core.ids import Mono, ProcessIdentity
from rigctl.core.reading import Missing, Reading

Step = tuple[Engine, tuple[EngineOrder, ...]]

_QUIET = 2
"""Looks in a row that must see an engine without work (C72)."""


def step(engine: Engine, event: Event, now: Mono, policy: Policy) -> Step:
    """Take one event; say the next state and what the shell must do about it."""
    state = engine.state
    match event:
        case StartAsked():
            return _start(engine, now)
        case StopAsked():
            return _stop(engine, event, now, policy)
        case StopCancelled(why):
            return _cancel(engine, why, now)
        case GateSeen(clear, say):
            if not isinstance(state, Waiting):
                return engine, ()
            if clear:
                return replace(engine, state=Spawning(now)), (Spawn(),)
            return replace(engine, state=replace(state, on=say)), ()
        case Spawned(process):
            return _spawned(engine, process, now, policy)
        case SpawnFailed(why, final):
            return _spawn_failed(engine, why, final, now, policy)
        case ReadySeen():
            if isinstance(state, Loading):
                return replace(engine, state=Ready(now, state.process)), ()
            return engine, ()
        case InFlight(count):
            return _in_flight(engine, count, now, policy)
        case Proxied(count):
            return _proxied(engine, count, now, policy)
        case Exited():
            return _exited(engine, event, now, policy)
        case MembersSeen(process, pids):
            return _members(engine, process, pids, now, policy)
        case CardsSeen(clear):
            if isinstance(state, Stopping) and state.stage is Stage.RELEASE and clear:
                return _ended(engine, state.then, now, policy)
            return engine, ()
        case Stuck(why):
            if isinstance(state, Loading):
                return _end(engine, state.process, ThenCrash(why, final=True), now, policy)
            return engine, ()
        case Hopeless(why):
            if isinstance(state, BackingOff | Waiting):
                return replace(engine, state=Failed(now, why)), ()
            if isinstance(state, Stopping) and isinstance(state.then, ThenCrash):
                then = ThenCrash(f"{state.then.why}; {why}", final=True)
                return replace(engine, state=replace(state, then=then)), ()
            return engine, ()
        case Tick():
            return _tick(engine, now, policy)
        case _:
            assert_never(event)


def _start(engine: Engine, now: Mono) -> Step:
    """A start by a person forgives past crashes."""
    state = engine.state
    match state:
        case Off() | Failed() | BackingOff():
            return Engine(Waiting(now)), ()
        case Stopping():
            return Engine(replace(state, then=ThenStart("asked"))), ()
        case Draining():
            return Engine(_serving_on(state, now)), ()
        case Spawning():
            return Engine(replace(state, abort=None)), ()
        case Waiting() | Loading() | Ready():
            return engine, ()
        case _:
            assert_never(state)


def _stop(engine: Engine, asked: StopAsked, now: Mono, policy: Policy) -> Step:
    state = engine.state
    then: After = ThenStart(asked.why) if asked.restart else ThenOff(asked.why)
    match state:
        case Off() | Failed() | BackingOff() | Waiting():
            if asked.restart:
                return _start(engine, now)
            return replace(engine, state=Off(now, asked.why)), ()
        case Spawning():
            return replace(engine, state=replace(state, abort=then)), ()
        case Loading():
            return _end(engine, state.process, then, now, policy)
        case Ready() | Draining() if asked.drain <= 0:
            after, orders = _end(engine, state.process, then, now, policy)
            return after, (AbortRequests(), *orders)
        case Ready():
            deadline = Mono(now + asked.drain)
            draining = Draining(now, deadline, state.process, then, ready_since=state.since)
            return replace(engine, state=draining), ()
        case Draining():
            deadline = min(state.deadline, Mono(now + asked.drain))
            return replace(engine, state=replace(state, deadline=deadline, then=then)), ()
        case Stopping():
            hurried = asked.drain <= 0 and state.stage is Stage.TERM
            next_at = now if hurried else state.next_at
            return replace(engine, state=replace(state, then=then, next_at=next_at)), ()
        case _:
            assert_never(state)


def _cancel(engine: Engine, why: str, now: Mono) -> Step:
    state = engine.state
    match state:
        case Draining():
            return replace(engine, state=_serving_on(state, now)), ()
        case Stopping():
            return replace(engine, state=replace(state, then=ThenStart(why))), ()
        case Spawning():
            return replace(engine, state=replace(state, abort=None)), ()
        case Off() | Waiting() | Loading() | Ready() | BackingOff() | Failed():
            return engine, ()
        case _:
            assert_never(state)


def _serving_on(state: Draining, now: Mono) -> Ready:
    """It never stopped: its uptime goes on."""
    since = now if state.ready_since is None else state.ready_since
    return Ready(since, state.process)


def _end(engine: Engine, process: ProcessIdentity, then: After, now: Mono, policy: Policy) -> Step:
    """Ask the process to leave; a loading one has no handler yet, so its session is asked."""
    loading = isinstance(engine.state, Loading | Spawning)
    order = SignalSession(process, SIGTERM) if loading else SignalLeader(process, SIGTERM)
    state = Stopping(now, Mono(now + policy.grace), process, Stage.TERM, then)
    return replace(engine, state=state), (order,)


def _spawned(engine: Engine, process: ProcessIdentity, now: Mono, policy: Policy) -> Step:
    state = engine.state
    if not isinstance(state, Spawning):
        return engine, ()  # one spawn is in flight only while Spawning
    if state.abort is not None:
        return _end(engine, process, state.abort, now, policy)
    return replace(engine, state=Loading(now, process)), ()


def _spawn_failed(engine: Engine, why: str, final: bool, now: Mono, policy: Policy) -> Step:
    state = engine.state
    if not isinstance(state, Spawning):
        return engine, ()
    if state.abort is not None:
        return _ended(engine, state.abort, now, policy)
    return _ended(engine, ThenCrash(why, final), now, policy)


def _in_flight(engine: Engine, count: Reading, now: Mono, policy: Policy) -> Step:
    state = engine.state
    if not isinstance(state, Draining):
        return engine, ()
    if isinstance(count, Missing) or count > 0:
        return replace(engine, state=replace(state, in_flight=count, quiet=0)), ()
    quiet = min(state.quiet + 1, _QUIET)
    if quiet == _QUIET and state.proxied == 0.0:
        return _end(engine, state.process, state.then, now, policy)
    return replace(engine, state=replace(state, in_flight=count, quiet=quiet)), ()


def _proxied(engine: Engine, count: Reading, now: Mono, policy: Policy) -> Step:
    """Both witnesses must be through: the endpoint's closed gate and the engine's counters."""
    state = engine.state
    if not isinstance(state, Draining):
        return engine, ()
    if count == 0.0 and state.quiet == _QUIET:
        return _end(engine, state.process, state.then, now, policy)
    return replace(engine, state=replace(state, proxied=count)), ()


def _exited(engine: Engine, event: Exited, now: Mono, policy: Policy) -> Step:
    state = engine.state
    if process_of(state) != event.process:
        return engine, ()  # a process we no longer follow: a fact, not an error
    match state:
        case Stopping(stage=Stage.TERM | Stage.KILL):
            then = state.then
        case Draining():
            then = state.then  # it left before it was asked to, which is what was wanted
        case Loading() | Ready():
            then = ThenCrash(event.why, event.final)
        case _:
            return engine, ()
    cleared = Stopping(
        now if not isinstance(state, Stopping) else state.since,
        Mono(now + policy.clear),
        event.process,
        Stage.CLEAR,
        then,
    )
    return replace(engine, state=cleared), ()


def _members(
    engine: Engine, process: ProcessIdentity, pids: tuple[int, ...], now: Mono, policy: Policy
) -> Step:
    state = engine.state
    if not isinstance(state, Stopping) or state.process != process:
        return engine, ()
    if state.stage is Stage.CLEAR and not pids:
        next_at = Mono(now + policy.release)
        released = replace(state, stage=Stage.RELEASE, next_at=next_at, leftovers=())
        return replace(engine, state=released), ()
    if state.stage in (Stage.TERM, Stage.KILL):
        return engine, ()  # asked to leave and still leaving: nothing is left over yet
    return replace(engine, state=replace(state, leftovers=pids)), ()


def _ended(engine: Engine, then: After, now: Mono, policy: Policy) -> Step:
    """Nothing of the old process is left; do what was to follow."""
    match then:
        case ThenOff(why):
            return replace(engine, state=Off(now, why)), ()
        case ThenStart():
            return replace(engine, state=Waiting(now)), ()
        case ThenCrash(why, final):
            recent = tuple(at for at in engine.crashes if now - at <= policy.crash_window)
            crashes = (*recent, now)
            if final or len(crashes) >= policy.crash_limit:
                return Engine(Failed(now, why), crashes), ()
            pause = policy.back_off[min(len(crashes), len(policy.back_off)) - 1]
            waiting = BackingOff(now, Mono(now + pause), len(crashes), why)
            return Engine(waiting, crashes), ()
        case _:
            assert_never(then)


def _tick(engine: Engine, now: Mono, policy: Policy) -> Step:
    state = engine.state
    match state:
        case Draining() if now >= state.deadline:
            after, orders = _end(engine, state.process, state.then, now, policy)
            return after, (AbortRequests(), *orders)
        case Stopping() if now >= state.next_at:
            return _impatient(engine, state, now, policy)
        case BackingOff() if now >= state.retry_at:
            return replace(engine, state=Waiting(now)), ()
        case _:
            return engine, ()


def _impatient(engine: Engine, state: Stopping, now: Mono, policy: Policy) -> Step:
    """A stage of the end took too long."""
    match state.stage:
        case Stage.TERM | Stage.CLEAR | Stage.KILL:
            # A killed main process is reported by Exited, an emptied session by MembersSeen;
            # until then the kill is repeated: a member may have been forked meanwhile.
            stage = Stage.CLEAR if state.stage is Stage.CLEAR else Stage.KILL
            again = replace(state, stage=stage, next_at=Mono(now + policy.clear))
            return replace(engine, state=again), (SignalSession(state.process, SIGKILL),)
        case Stage.RELEASE:
            return _ended(engine, state.then, now, policy)
        case _:
            assert_never(state.stage)
