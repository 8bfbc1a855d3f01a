"""How a cluster stands: Up, Busy, Slowed, Suspect, Down, with the evidence named.

Busy is not dead: silence counts only where no progress of the engine explains it (C05), and an
answer alone is no life while its counters stand still over work (C07). What clients do wrong, and
an engine's full queue, never counts (C47). The daemon's table says what is so of the engines; what
the proxy sees itself may narrow that until it sees better, and never widens it.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import assert_never

from rigctl.core.clusters import Standing
from rigctl.core.evidence import (
    Answered,
    BytesSeen,
    Cancelled,
    ClusterWatch,
    Evidence,
    Looked,
    Refused,
    Reset,
    Silent,
    Slept,
    StandingPolicy,
    Told,
    Unanswered,
    watch,
)
from rigctl.core.ids import Mono
from rigctl.core.link_words import TableGroup
from rigctl.core.reading import Missing, known

__all__ = ["ClusterWatch", "StandingPolicy", "observe", "standing", "watch"]

_POLICY = StandingPolicy()
_MOVING = frozenset({"decoding", "prefilling", "stalled", "slowed"})
_READING = frozenset({"prefilling", "stalled"})
_RESETS_DOWN = 2
_ERRORS_SUSPECT = 2
_LOOKS_AFTER_RESET = 2
"""Good looks that lift a verdict for resets: one may come from a server about to die."""
_DOWN_AFTER = 3.0
"""Times the frozen time."""


def observe(
    state: ClusterWatch, evidence: Evidence, now: Mono, policy: StandingPolicy | None = None
) -> ClusterWatch:
    """Take in one piece of evidence."""
    policy = policy or StandingPolicy()
    match evidence:
        case Refused(say=say):
            state = _judge(state, Standing.DOWN, say, now, looks=1)
        case Reset(say=say):
            state = _reset(state, say, now, policy)
        case Answered() if evidence.queue_full or 300 <= evidence.status < 500:
            return replace(state, unanswered=0)  # somebody is there; whether it works is not told
        case Answered():
            state = _answered(state, evidence, now, policy)
        case Cancelled():
            return state
        case BytesSeen():
            state = _moved(replace(state, unanswered=0), now)
        case Silent(requests=requests):
            state = _work(state, now, own=requests > 0)
        case Looked():
            state = _looked(state, evidence, now)
        case Unanswered(say=say):
            state = _unanswered(state, say, now, policy)
        case Told():
            state = _told(state, evidence, now)
        case Slept():
            state = replace(state, moved_at=now, resets=(), errors=(), unanswered=0, frozen=False)
            state = replace(state, untried=True)
            say = "the machine slept; it is looked at before it is trusted"
            return _judge(state, Standing.SUSPECT, say, now, looks=1, anew=True)
        case _:
            assert_never(evidence)
    return _frozen(state, now, policy)


def standing(
    state: ClusterWatch, row: TableGroup | None, now: Mono, policy: StandingPolicy = _POLICY
) -> tuple[Standing, Mono | None, str]:
    """How it stands, since when (None: as long as the table says so), and why."""
    if row is None:
        return Standing.OFF, None, "it is not in the table"
    by_table = _by_table(row)
    if by_table is not None:
        return by_table, None, row.say or row.state
    if state.run == row.run and state.verdict is not Standing.UP:
        return state.verdict, state.since, state.say
    if state.run != row.run:
        return Standing.UP, None, ""
    told = state.progress
    if told is not None and now - state.progress_at <= policy.fresh:
        since = state.busy_since
        if told.doing in _READING:
            return Standing.BUSY, since, f"reads a prompt{_left(told.tokens_left, told.eta)}"
        if told.doing == "slowed":
            return Standing.SLOWED, since, "answers go on at a fraction of their pace"
        return Standing.UP, state.since, ""
    if state.waiting_tokens:
        return Standing.BUSY, state.busy_since, f"reads a prompt{_left(state.waiting_tokens, None)}"
    return Standing.UP, state.since, ""


def good_until(state: ClusterWatch, now: Mono, policy: StandingPolicy = _POLICY) -> float:
    """When a standing changes by time alone: the daemon's word on progress grows old."""
    if state.progress is None or now - state.progress_at > policy.fresh:
        return inf
    return state.progress_at + policy.fresh


def _by_table(row: TableGroup) -> Standing | None:
    """What the daemon's word rules out; None: it may be sent to."""
    if row.lent:
        return Standing.LENT
    match row.state:
        case "ready":
            return None if row.gate == "open" else Standing.DRAINING
        case "starting":
            return Standing.STARTING
        case "draining" | "stopping":
            return Standing.DRAINING
        case "backing_off":
            return Standing.DOWN
        case _:
            return Standing.OFF


# ---- one piece of evidence each ----------------------------------------------------------------


def _reset(state: ClusterWatch, say: str, now: Mono, policy: StandingPolicy) -> ClusterWatch:
    recent = (*(at for at in state.resets if now - at <= policy.memory), now)
    state = replace(state, resets=recent[-_RESETS_DOWN:])
    if len(recent) >= _RESETS_DOWN:
        say = f"{say}, the second time within {policy.memory:.0f} s"
        return _judge(state, Standing.DOWN, say, now, looks=_LOOKS_AFTER_RESET)
    return _judge(state, Standing.SUSPECT, say, now, looks=_LOOKS_AFTER_RESET)


def _answered(
    state: ClusterWatch, evidence: Answered, now: Mono, policy: StandingPolicy
) -> ClusterWatch:
    """Only a good answer shows that it works."""
    if evidence.status < 300:
        state = _moved(replace(state, errors=(), unanswered=0), now)
        # One good answer outweighs one reset, not two: others may have been lost meanwhile.
        return _up(state, now) if state.verdict is Standing.SUSPECT else state
    recent = (*(at for at in state.errors if now - at <= policy.memory), now)
    state = replace(state, errors=recent[-_ERRORS_SUSPECT:])
    if len(recent) < _ERRORS_SUSPECT:
        return state
    say = evidence.say or f"answers {evidence.status}"
    return _judge(state, Standing.SUSPECT, say, now, looks=_LOOKS_AFTER_RESET)


def _looked(state: ClusterWatch, look: Looked, now: Mono) -> ClusterWatch:
    """Answered. Whether it moves is told by its counters and the time of their publication."""
    waiting = None if isinstance(look.waiting_tokens, Missing) else look.waiting_tokens
    published = None if isinstance(look.age, Missing) else now - look.age
    before, was = state.published, state.waiting_tokens
    moved = (published is not None and before is not None and published > before + 0.5) or (
        waiting is not None and was is not None and waiting < was
    )
    busy = bool(waiting)
    state = replace(
        state,
        unanswered=0,
        looked_at=now,
        published=published if published is not None else before,
        waiting_tokens=waiting,
        busy_since=(state.busy_since or now) if busy else _told_busy(state, now),
    )
    work = known(look.running, 0.0) > 0 or known(look.queued, 0.0) > 0 or busy
    state = _work(state, now, engine=work)
    if moved:
        state = _moved(state, now)
    if state.verdict is Standing.UP or state.frozen:
        return state
    left = state.looks_needed - 1
    if left <= 0:
        return _up(state, now)
    say = state.say if state.verdict is Standing.SUSPECT else f"answers again; {state.say}"
    return replace(_judge(state, Standing.SUSPECT, say, now, looks=left, anew=True))


def _unanswered(state: ClusterWatch, say: str, now: Mono, policy: StandingPolicy) -> ClusterWatch:
    missed = state.unanswered + 1
    state = replace(state, unanswered=missed)
    say = f"{say or 'no answer to /v1/loads'}, {missed} times in a row"
    if missed >= policy.looks_down:
        return _judge(state, Standing.DOWN, say, now, looks=1)
    if missed >= policy.looks_suspect:
        return _judge(state, Standing.SUSPECT, say, now, looks=1)
    return state


def _told(state: ClusterWatch, told: Told, now: Mono) -> ClusterWatch:
    progress = told.progress
    state = replace(state, progress=progress, progress_at=now)
    state = replace(state, busy_since=_told_busy(state, now))
    if progress.doing == "broken":
        return _judge(state, Standing.DOWN, "processes of the engine are gone", now, looks=1)
    if progress.doing == "hung":
        state = _judge(state, Standing.SUSPECT, "its counters stand still over work", now)
        return replace(state, frozen=True)
    if progress.doing in _MOVING:
        ago = known(progress.moved, 0.0)
        at = Mono(now - max(0.0, ago))
        # A chunk in work moves nothing; the daemon has held it against what a chunk may take.
        if at > state.moved_at or progress.doing in _READING:
            return _moved(state, max(at, state.moved_at, key=float))
    return state


# ---- what follows ------------------------------------------------------------------------------


def _work(
    state: ClusterWatch, now: Mono, own: bool | None = None, engine: bool | None = None
) -> ClusterWatch:
    own = state.own_work if own is None else own
    engine = state.engine_work if engine is None else engine
    has = own or engine
    since = (state.work_since if state.work_since is not None else now) if has else None
    return replace(state, own_work=own, engine_work=engine, work_since=since)


def _moved(state: ClusterWatch, at: Mono) -> ClusterWatch:
    state = replace(state, moved_at=max(state.moved_at, at))
    return _up(state, at) if state.frozen else state


def _frozen(state: ClusterWatch, now: Mono, policy: StandingPolicy) -> ClusterWatch:
    """Work is there and nothing moves: suspect, and down when it lasts."""
    if state.work_since is None:
        return _up(state, now) if state.frozen else state
    told = state.progress
    if told is None and state.published is None and state.waiting_tokens is None:
        return state  # an engine that tells nothing of its work cannot be caught at doing none
    explained = (
        told is not None and told.doing in _READING and now - state.progress_at <= policy.fresh
    )
    still = now - max(state.moved_at, state.work_since)
    if explained or still <= policy.frozen:
        return state
    say = f"no byte and no counter moved for {still:.0f} s, with requests under way"
    worst = Standing.DOWN if still > _DOWN_AFTER * policy.frozen else Standing.SUSPECT
    if state.verdict is Standing.DOWN and not state.frozen:
        return state
    return replace(_judge(state, worst, say, now), frozen=True)


def _judge(
    state: ClusterWatch,
    verdict: Standing,
    say: str,
    now: Mono,
    looks: int = 1,
    *,
    anew: bool = False,
) -> ClusterWatch:
    """A verdict, unless a worse one stands; `anew`: whatever stood before."""
    if state.verdict is Standing.DOWN and verdict is Standing.SUSPECT and not anew:
        return replace(state, looks_needed=max(state.looks_needed, looks))
    since = state.since if state.verdict is verdict else now
    needed = looks if anew else max(looks, state.looks_needed)
    return replace(state, verdict=verdict, since=since, say=say, looks_needed=needed)


def _up(state: ClusterWatch, now: Mono) -> ClusterWatch:
    since = state.since if state.verdict is Standing.UP else now
    return replace(
        state, verdict=Standing.UP, since=since, say="", frozen=False, untried=False, looks_needed=0
    )


def _told_busy(state: ClusterWatch, now: Mono) -> Mono | None:
    told = state.progress
    if told is not None and told.doing in (*_READING, "slowed"):
        return state.busy_since or now
    return state.busy_since if state.waiting_tokens else None


def _left(tokens: object, eta: object) -> str:
    said = f", {tokens:,.0f} tokens left" if isinstance(tokens, int | float) else ""
    return said + (f", about {eta:,.0f} s" if isinstance(eta, int | float) else "")
