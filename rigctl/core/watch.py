"""Watches one engine through its counters: busy, stalled, slowed, hung or broken, and since when.

A pure machine. Samples, log lines and process lists go in; a new `Watch` comes out, with the
facts that are worth a line in the journal.
"""

from __future__ import annotations

from dataclasses import replace

from rigctl.core import rates as rate
from rigctl.core import stall
from rigctl.core.engine_sample import EngineSample
from rigctl.core.log_facts import Decoded, LogFact, Prefilled
from rigctl.core.reading import Missing
from rigctl.core.reading import Reading as Number
from rigctl.core.watch_facts import (
    BrokenSeen,
    HungSeen,
    Recovered,
    SlowedBegan,
    SlowedEnded,
    StallBegan,
    StallEnded,
    WatchFact,
    WatchPolicy,
)
from rigctl.core.watch_intake import take
from rigctl.core.watch_state import Doing, Stall, Watch, begin
from rigctl.core.watch_view import flow, rates

__all__ = [
    "BrokenSeen",
    "Doing",
    "HungSeen",
    "Recovered",
    "SlowedBegan",
    "SlowedEnded",
    "StallBegan",
    "StallEnded",
    "Watch",
    "WatchFact",
    "WatchPolicy",
    "begin",
    "finish",
    "flow",
    "log_seen",
    "observe",
    "processes_seen",
    "rates",
    "resumed",
    "unanswered",
]

Outcome = tuple[Watch, tuple[WatchFact, ...]]


def observe(
    watch: Watch,
    sample: EngineSample,
    now: float,
    policy: WatchPolicy | None = None,
    resumed: bool = False,
) -> Outcome:
    """Take in one answered poll. `resumed`: the machine slept since the last one (C91)."""
    facts: tuple[WatchFact, ...] = ()
    if policy is not None and policy != watch.policy:
        watch = replace(watch, policy=policy)
    if resumed:
        watch = _patient_again(watch, now)
    if _fell(sample.decode_tokens, watch.decode) or _fell(sample.prefill_tokens, watch.prefill):
        facts = finish(watch, now, "the engine was restarted")
        watch = begin(now, watch.policy, watch.costs)
    watch = take(watch, sample, now)
    watch, more = _settle(watch, now)
    return watch, facts + more


def resumed(watch: Watch, now: float) -> Watch:
    """The machine slept: no silence that began before counts (C91)."""
    return _patient_again(watch, now)


def unanswered(watch: Watch, now: float) -> Watch:
    """A poll was not answered. That alone says nothing of the engine: its front may be busy."""
    return watch if watch.silent_since is not None else replace(watch, silent_since=now)


def log_seen(watch: Watch, fact: LogFact, now: float) -> Watch:
    """A batch line is progress too, also where polls fail; other lines are not."""
    match fact:
        case Prefilled():
            pending = fact.pending_tokens
            return replace(
                watch,
                progress_at=now,
                pending=watch.pending if isinstance(pending, Missing) else pending,
            )
        case Decoded():
            return replace(watch, progress_at=now)
        case _:
            return watch


def processes_seen(watch: Watch, expected: int, missing: tuple[str, ...], now: float) -> Outcome:
    """The engine's processes were looked at; `missing` names the ones that are gone.

    Said at the first look: a pid that was there and is not has ended. `expected` of 0 means that
    nobody knows yet which there should be, and nothing is concluded.
    """
    if expected == 0 and missing:
        return watch, ()
    return _settle(replace(watch, missing=missing), now)


def finish(watch: Watch, now: float, why: str = "the engine ended") -> tuple[WatchFact, ...]:
    """What ends with the engine: no stall stays open in the journal."""
    return _stall_ended(watch, now, why) + _slowed_ended(watch, now)


# ---- what follows from it --------------------------------------------------------------


def _settle(watch: Watch, now: float) -> Outcome:
    """Judge, and say what has begun and what has ended."""
    facts: list[WatchFact] = []
    if watch.stall is not None:
        over = _stall_over(watch)
        if over:
            facts += _stall_ended(watch, now, over)
            watch = replace(watch, stall=None)
    was = watch.doing
    doing = stall.judge(watch, now)
    if doing is Doing.STALLED and watch.stall is not None:
        most = max(watch.stall.waiting, stall.running(watch))
        watch = replace(watch, stall=replace(watch.stall, waiting=most))
    if doing is not Doing.STALLED and watch.stall is not None:
        facts += _stall_ended(watch, now, f"the engine is {doing.value}")
        watch = replace(watch, stall=None)
    if doing is not Doing.SLOWED:
        facts += _slowed_ended(watch, now)
        watch = replace(watch, slowed_since=None)
    if doing is was:
        return watch, tuple(facts)
    if was in (Doing.HUNG, Doing.BROKEN) and doing not in (Doing.HUNG, Doing.BROKEN):
        facts.append(Recovered(was.value, now - watch.since))
    since = now
    match doing:
        case Doing.STALLED:
            since = now - stall.decode_flat_for(watch, now)
            waiting = stall.running(watch)
            read = watch.stretch.done if watch.stretch is not None else 0.0
            watch = replace(watch, stall=Stall(since, (watch.prefill or 0.0) - read, waiting))
            facts.append(StallBegan(since, waiting, stall.waiting_tokens(watch)))
        case Doing.SLOWED:
            usual = rate.normal_decode(watch.history, watch.policy.median_least)
            pace = watch.stretch.per_answer if watch.stretch is not None else 0.0
            watch = replace(watch, slowed_since=now)
            facts.append(SlowedBegan(pace, usual or 0.0))
        case Doing.HUNG:
            silent = stall.silence(watch, now)
            since = now - silent
            facts.append(HungSeen(silent, stall.longest_chunk(watch)))
        case Doing.BROKEN:
            facts.append(BrokenSeen(watch.missing))
        case Doing.PREFILLING if watch.stretch is not None:
            since = watch.stretch.since
        case _:
            pass
    return replace(watch, doing=doing, since=since), tuple(facts)


def _stall_over(watch: Watch) -> str:
    if watch.stall is None:
        return ""
    if watch.decode_at is not None and watch.decode_at > watch.stall.since:
        return "decode goes on"
    if stall.running(watch) <= 0 or not stall.has_work(watch):
        return "the answers ended"
    return ""


def _stall_ended(watch: Watch, now: float, why: str) -> tuple[WatchFact, ...]:
    if watch.stall is None:
        return ()
    read = max(0.0, (watch.prefill or 0.0) - watch.stall.prefill)
    return (StallEnded(max(0.0, now - watch.stall.since), read, watch.stall.waiting, why),)


def _slowed_ended(watch: Watch, now: float) -> tuple[WatchFact, ...]:
    return () if watch.slowed_since is None else (SlowedEnded(now - watch.slowed_since),)


def _patient_again(watch: Watch, now: float) -> Watch:
    return replace(
        watch,
        progress_at=max(watch.progress_at, now),
        work_since=None if watch.work_since is None else now,
        running_since=None if watch.running_since is None else now,
        silent_since=None,
    )


def _fell(reading: Number, before: float | None) -> bool:
    return before is not None and not isinstance(reading, Missing) and reading < before
