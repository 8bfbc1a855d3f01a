"""The watch in words and numbers, as clients see it."""

from __future__ import annotations

from rigctl.core import rates as rate
from rigctl.core import stall
from rigctl.core.plural import answers
from rigctl.core.reading import NOT_YET, Missing, Reading, Why
from rigctl.core.snapshot import Flow, Rates
from rigctl.core.watch_state import Doing, Watch

_NO_PROMPT = Missing(Why.OFF, "no prompt is being read")


def flow(watch: Watch, now: float) -> Flow:
    """What the engine is doing, how long, and how far the prompt in work has come."""
    silent = _silent_for(watch, now)
    if silent is not None and watch.doing is not Doing.BROKEN:
        return Flow(
            state=Doing.UNKNOWN.value,
            since=silent,
            say=f"no answer for {_seconds(silent)}",
            fresh=_fresh(watch, now),
        )
    left, total, eta = _prompt(watch, now)
    waits = watch.doing in (Doing.PREFILLING, Doing.STALLED, Doing.SLOWED)
    return Flow(
        state=watch.doing.value,
        since=max(0.0, now - watch.since),
        say=_say(watch, now),
        waiting=stall.running(watch) if waits else _NO_PROMPT,
        tokens_left=left,
        tokens_total=total,
        eta=eta,
        fresh=_fresh(watch, now),
    )


def rates(watch: Watch, now: float) -> Rates:
    """Rates from counters; an idle engine's are 0, whatever its gauges still show (C72)."""
    silent = _silent_for(watch, now)
    if silent is not None:
        stale = Missing(Why.STALE, f"no answer for {_seconds(silent)}")
        return Rates(stale, stale, stale, stale)
    decode = rate.decode_rate(watch.history)
    prefill = rate.prefill_rate(
        watch.history, now, watch.policy.rate_window, stall.longest_chunk(watch)
    )
    hit = rate.hit_share(watch.history)
    if watch.sample is None:
        accept: Reading = NOT_YET
    elif stall.running(watch) > 0:
        accept = watch.sample.accept_length
    else:
        # The gauge keeps its last value for ever; without answers it is of no answer.
        accept = Missing(Why.STALE, "nothing is being decoded")
    return Rates(
        decode=NOT_YET if decode is None else decode,
        prefill=NOT_YET if prefill is None else prefill,
        accept_length=accept,
        hit=Missing(Why.OFF, "no prompt in the last minutes") if hit is None else hit,
    )


def _prompt(watch: Watch, now: float) -> tuple[Reading, Reading, Reading]:
    """Tokens left, tokens in all and seconds left of what is being read."""
    stretch = watch.stretch
    if stretch is None or watch.doing in (Doing.IDLE, Doing.UNKNOWN, Doing.BROKEN):
        return _NO_PROMPT, _NO_PROMPT, _NO_PROMPT
    left = stall.waiting_tokens(watch)
    if left is None:
        untold = Missing(Why.UNSUPPORTED, "this version does not tell what waits")
        return untold, untold, untold
    total = max(stretch.most, left)
    if watch.costs.count == 0:
        return left, total, Missing(Why.NOT_YET, "no chunk measured yet")
    return left, total, _eta(watch, left, now)


def _eta(watch: Watch, left: float, now: float) -> float:
    """Later chunks cost more than earlier ones; of prompts that wait only the sum is known, so it
    is shared out evenly, each beginning at its own head."""
    assert watch.stretch is not None
    prompts = 1.0 + stall.queued(watch)
    share = left / prompts
    seconds = watch.costs.span(watch.stretch.position or 0.0, share)
    seconds += (prompts - 1.0) * watch.costs.span(0.0, share)
    began = watch.stretch.last_end if watch.stretch.last_end is not None else watch.stretch.since
    return max(0.0, seconds - min(now - began, stall.likely_chunk(watch)))


def _say(watch: Watch, now: float) -> str:
    running = stall.running(watch)
    match watch.doing:
        case Doing.BROKEN:
            gone = ", ".join(watch.missing)
            return f"{gone} {'is' if len(watch.missing) == 1 else 'are'} gone"
        case Doing.HUNG:
            return (
                f"no progress for {_seconds(stall.silence(watch, now))}, "
                f"expected a chunk after {_seconds(stall.longest_chunk(watch))}"
            )
        case Doing.STALLED:
            return f"{answers(running, 'waits', 'wait')} while a prompt is read"
        case Doing.SLOWED:
            pace = watch.stretch.per_answer if watch.stretch is not None else 0.0
            usual = rate.normal_decode(watch.history, watch.policy.median_least) or 0.0
            return f"{pace:.0f} tok/s an answer, usually {usual:.0f}, while a prompt is read"
        case Doing.PREFILLING if running > 0:
            return answers(running, "waits", "wait")
        case Doing.IDLE if running > 0:
            return f"a gauge still says {running:.0f} running, but no request is open"
        case _:
            return ""


def _fresh(watch: Watch, now: float) -> Reading:
    return NOT_YET if watch.moved_at is None else max(0.0, now - watch.moved_at)


def _silent_for(watch: Watch, now: float) -> float | None:
    """Seconds without an answer, once that is longer than a hiccup."""
    if watch.silent_since is None:
        return None
    began = watch.silent_since if watch.sample is None else watch.sample.at
    silent = now - min(began, watch.silent_since)
    return silent if now - watch.silent_since >= watch.policy.silent_after else None


def _seconds(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"
