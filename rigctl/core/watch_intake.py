"""Takes one answered poll into the watch: what moved, how far the prompt in work has come."""

from __future__ import annotations

from dataclasses import replace

from rigctl.core import rates as rate
from rigctl.core import stall
from rigctl.core.chunks import ChunkCosts, finished, sized
from rigctl.core.engine_sample import EngineSample
from rigctl.core.reading import UNSUPPORTED, Missing, Reading
from rigctl.core.watch_state import Stretch, Watch


def take(watch: Watch, sample: EngineSample, now: float) -> Watch:
    """The watch with this sample's gains, moments and rates in it; nothing judged yet."""
    decode = _known(sample.decode_tokens, watch.decode)
    prefill = _known(sample.prefill_tokens, watch.prefill)
    cached = _known(sample.cached_tokens, watch.cached)
    idle = _known(sample.scheduler_idle_seconds, watch.idle)
    busy = _known(sample.prefill_busy_seconds, watch.busy)
    decoded, computed = _gain(watch.decode, decode), _gain(watch.prefill, prefill)
    hits = _gain(watch.cached, cached)
    first = watch.sample is None
    lives = (
        decoded > 0
        or computed > 0
        or hits > 0
        or _gain(watch.idle, idle) > 0
        or _gain(watch.busy, busy) > 0
        or (not first and _differs(watch.sample, sample))
    )
    counted = decoded > 0 or computed > 0 or hits > 0
    costs = watch.costs
    if not isinstance(sample.chunk_tokens, Missing) and sample.chunk_tokens > 0:
        costs = sized(costs, sample.chunk_tokens)
    before = watch
    watch = replace(
        watch,
        sample=sample,
        decode=decode,
        prefill=prefill,
        cached=cached,
        idle=idle,
        busy=busy,
        decode_at=now if decoded > 0 else watch.decode_at,
        moved_at=now if counted else watch.moved_at,
        progress_at=now if lives or first else watch.progress_at,
        silent_since=None,
        costs=costs,
    )
    watch = replace(
        watch,
        running_since=_since(watch.running_since, stall.running(watch) > 0, now),
        work_since=_since(watch.work_since, stall.has_work(watch), now),
    )
    watch = _read_on(before, watch, computed, hits, now)
    if decode is not None and prefill is not None:
        point = rate.Point(now, decode, prefill, cached or 0.0)
        history = rate.add(watch.history, point, watch.policy.rate_window, watch.policy.hit_window)
        watch = _normal(before, replace(watch, history=history), decoded, computed, now)
    return watch


def _read_on(before: Watch, watch: Watch, computed: float, hits: float, now: float) -> Watch:
    """Follow the prompt that is read: where it stands, what its chunks cost."""
    stretch = watch.stretch
    if stall.active(watch) is None and stall.waiting_tokens(watch) is None:
        # This version tells of no prompt in work; the chunks it finishes do.
        wanted = stall.queued(watch) > 0 or computed > 0 or stall.prefill_moves(watch, now)
    else:
        wanted = stall.reads_prompt(watch)
    if stretch is None and (wanted or computed > 0):
        # What is seen waiting now may have waited since the look before, no longer.
        stretch = Stretch(now if before.sample is None or computed == 0 else before.sample.at)
    if stretch is None:
        return watch
    if computed > 0:
        watch, stretch = _chunk_ended(before, watch, stretch, computed, hits, now)
    left = stall.waiting_tokens(watch) or 0.0
    stretch = replace(stretch, most=max(stretch.most, stretch.done + left))
    return replace(watch, stretch=stretch if wanted else None)


def _chunk_ended(
    before: Watch, watch: Watch, stretch: Stretch, computed: float, hits: float, now: float
) -> tuple[Watch, Stretch]:
    began = stretch.last_end if stretch.last_end is not None else stretch.since
    seconds = max(now - began, 0.0)
    poll = now - before.sample.at if before.sample is not None else 0.0
    decode = watch.decode or 0.0
    spent, busy = seconds, _gain(before.busy, watch.busy)
    alone = decode == (before.decode if stretch.decode_at_end is None else stretch.decode_at_end)
    exact = busy > 0 and alone and abs(busy - seconds) <= 2 * poll
    if exact:
        spent = busy  # the engine's own clock, to the microsecond, where nothing was decoded
    start = _place(watch, stretch, computed, hits, seconds + poll)
    costs, block = _measured(watch, stretch, start, computed, spent, exact)
    slow, per_answer = stretch.slow_chunks, stretch.per_answer
    if stretch.decode_at_end is not None and seconds > 0:
        slow, per_answer = _pace(watch, stretch, decode - stretch.decode_at_end, seconds)
    history = rate.add_chunk(watch.history, rate.Chunk(now, computed, spent))
    last_of_prompt = computed < costs.tokens
    stretch = replace(
        stretch,
        last_end=now,
        position=None if last_of_prompt else start + computed,
        block=block,
        done=stretch.done + computed,
        decode_at_end=decode,
        slow_chunks=slow,
        per_answer=per_answer,
    )
    return replace(watch, costs=costs, history=history), stretch


def _place(watch: Watch, stretch: Stretch, computed: float, hits: float, at_most: float) -> float:
    """Where in its prompt the chunk began that took `at_most` seconds."""
    if hits > 0 or stretch.position is None:
        return hits  # the first chunk of a prompt says how much of it was cached
    start, costs = stretch.position, watch.costs
    context = UNSUPPORTED if watch.sample is None else watch.sample.context_length
    too_far = not isinstance(context, Missing) and start + computed > context
    cheap = (
        costs.count >= watch.policy.measured_after
        and start > 4 * costs.tokens
        and at_most < costs.span(start, computed) / 2
    )
    # Prompts follow each other inside full chunks: only the place or the price tells of another.
    return 0.0 if too_far or cheap else start


def _measured(
    watch: Watch, stretch: Stretch, start: float, computed: float, seconds: float, exact: bool
) -> tuple[ChunkCosts, tuple[float, float, float]]:
    """Count the chunk in; short ones are put together, since a poll sees their ends too late."""
    costs = watch.costs
    if watch.sample is not None and isinstance(watch.sample.chunk_tokens, Missing):
        costs = sized(costs, max(costs.tokens, computed))
    nothing = (0.0, 0.0, 0.0)
    # A poll does not know when the first chunk began, and a rest tells little of a whole chunk.
    known = exact or stretch.last_end is not None
    if not known or seconds <= 0 or computed < costs.tokens / 2:
        return costs, nothing
    head, tokens, taken = stretch.block
    if tokens == 0 or start != head + tokens:
        head, tokens, taken = start, 0.0, 0.0
    tokens, taken = tokens + computed, taken + seconds
    if taken < watch.policy.measure_least and not exact:
        return costs, (head, tokens, taken)
    return finished(costs, head, tokens, taken), nothing


def _pace(watch: Watch, stretch: Stretch, decoded: float, seconds: float) -> tuple[int, float]:
    """How the answers fared during one chunk. None at all is a stall's matter, not slowness."""
    usual = rate.normal_decode(watch.history, watch.policy.median_least)
    answers = stall.running(watch)
    if usual is None or answers <= 0:
        return 0, 0.0
    per_answer = decoded / seconds / answers
    slow = 0 < per_answer < watch.policy.slowed_share * usual
    return (stretch.slow_chunks + 1 if slow else 0), per_answer


def _normal(before: Watch, watch: Watch, decoded: float, computed: float, now: float) -> Watch:
    """Remember the pace of answers that nothing disturbs: no prompt is read, none joins."""
    answers = stall.running(watch)
    if before.sample is None or before.stretch is not None or watch.stretch is not None:
        return watch
    if computed > 0 or decoded <= 0 or answers <= 0 or stall.running(before) != answers:
        return watch
    pace = decoded / (now - before.sample.at) / answers if now > before.sample.at else 0.0
    if pace <= 0:
        return watch
    return replace(watch, history=rate.add_normal(watch.history, pace, watch.policy.medians_of))


def _known(reading: Reading, before: float | None) -> float | None:
    return before if isinstance(reading, Missing) else reading


def _gain(before: float | None, after: float | None) -> float:
    return max(0.0, after - before) if before is not None and after is not None else 0.0


def _differs(before: EngineSample | None, sample: EngineSample) -> bool:
    """The running gauge is the scheduler's own; a queue also grows in front of a dead engine."""
    if before is None or isinstance(before.running, Missing) or isinstance(sample.running, Missing):
        return False
    return before.running != sample.running


def _since(since: float | None, holds: bool, now: float) -> float | None:
    if not holds:
        return None
    return now if since is None else since
