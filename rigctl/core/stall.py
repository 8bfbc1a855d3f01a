"""The definitions: what makes an engine prefilling, stalled, slowed or hung. Reads, decides none.

Counters move at chunk ends only. So every silence is held against the chunk that is due, and a
long prefill is never taken for a dead engine (C05).
"""

from __future__ import annotations

from rigctl.core.reading import Missing, known
from rigctl.core.watch_state import Doing, Watch


def running(watch: Watch) -> float:
    return 0.0 if watch.sample is None else known(watch.sample.running, 0.0)


def queued(watch: Watch) -> float:
    return 0.0 if watch.sample is None else known(watch.sample.queued, 0.0)


def active(watch: Watch) -> float | None:
    """Open requests, or None where the engine does not tell."""
    if watch.sample is None or isinstance(watch.sample.active, Missing):
        return None
    return watch.sample.active


def waiting_tokens(watch: Watch) -> float | None:
    """Prompt tokens still to be computed, as of the last chunk end."""
    if watch.sample is not None and not isinstance(watch.sample.waiting_tokens, Missing):
        return watch.sample.waiting_tokens
    return watch.pending


def has_work(watch: Watch) -> bool:
    """Whether somebody waits for this engine. A running gauge with no open request beside it is
    one that nobody has refreshed (C72), or a client long gone."""
    open_requests = active(watch)
    if open_requests is not None:
        return open_requests > 0
    return running(watch) > 0 or queued(watch) > 0


def reads_prompt(watch: Watch) -> bool:
    """Whether a prompt waits or is in work: it is open, but does not decode yet."""
    open_requests = active(watch)
    if open_requests is not None:
        return open_requests > running(watch)
    if waiting_tokens(watch) is None and watch.stretch is not None:
        return True  # it ends with its chunks: see watch
    return queued(watch) > 0 or (waiting_tokens(watch) or 0.0) > 0


def likely_chunk(watch: Watch) -> float:
    """Seconds the chunk in work should take, as best known."""
    if watch.costs.count < watch.policy.measured_after or watch.costs.tokens <= 0:
        return watch.policy.chunk_prior
    position = watch.stretch.position if watch.stretch is not None else None
    return watch.costs.next_chunk(position or 0.0)


def longest_chunk(watch: Watch) -> float:
    """Seconds the chunk in work can take at most. When its prompt is not known (the first chunk
    of one, or one of several that wait), it may lie behind the longest cached prefix there is."""
    likely = likely_chunk(watch)
    if watch.costs.count < watch.policy.measured_after or watch.costs.tokens <= 0:
        return likely
    if watch.stretch is None and not reads_prompt(watch):
        return likely
    open_requests = active(watch)
    alone = queued(watch) == 0 and (open_requests is None or open_requests - running(watch) <= 1)
    if alone and watch.stretch is not None and watch.stretch.position is not None:
        return likely
    context = None if watch.sample is None else watch.sample.context_length
    if context is None or isinstance(context, Missing):
        return max(likely, watch.policy.chunk_prior)
    return max(likely, watch.costs.next_chunk(context))


def prefill_moves(watch: Watch, now: float) -> bool:
    """Whether the last chunk end is no older than the next one explains."""
    stretch = watch.stretch
    if stretch is None or stretch.last_end is None:
        return False
    return now - stretch.last_end <= max(watch.policy.flat, 1.5 * longest_chunk(watch))


def decode_flat_for(watch: Watch, now: float) -> float:
    """Seconds since the last decode token, counted only while there are answers to decode."""
    if watch.running_since is None:
        return 0.0
    return now - max(watch.decode_at or 0.0, watch.running_since)


def stall_limit(watch: Watch) -> float:
    return max(watch.policy.stall_least, watch.policy.stall_chunks * likely_chunk(watch))


def hung_limit(watch: Watch) -> float:
    limit = max(watch.policy.hung_least, watch.policy.hung_chunks * longest_chunk(watch))
    known_to_scheduler = (
        running(watch) > 0 or queued(watch) > 0 or (waiting_tokens(watch) or 0.0) > 0
    )
    return limit if known_to_scheduler else max(limit, watch.policy.unseen_work)


def silence(watch: Watch, now: float) -> float:
    """Seconds without progress of any kind while there was work; 0 without work."""
    if watch.work_since is None:
        return 0.0
    return now - max(watch.progress_at, watch.work_since)


def judge(watch: Watch, now: float) -> Doing:
    """What the engine does, the worst that is true first."""
    if watch.missing:
        return Doing.BROKEN
    if watch.sample is None:
        return Doing.UNKNOWN
    # What no poll has answered since is not known: silence of the front is none of the engine.
    now = min(now, watch.sample.at)
    if silence(watch, now) > hung_limit(watch):
        return Doing.HUNG
    flat = decode_flat_for(watch, now)
    if running(watch) > 0 and has_work(watch):
        if watch.stall is not None:
            return Doing.STALLED
        if flat > stall_limit(watch) and prefill_moves(watch, now):
            return Doing.STALLED
        stretch = watch.stretch
        if (
            stretch is not None
            and stretch.slow_chunks >= watch.policy.slowed_chunks
            and prefill_moves(watch, now)
        ):
            return Doing.SLOWED
    if reads_prompt(watch) and (watch.running_since is None or flat >= watch.policy.flat):
        return Doing.PREFILLING
    decoded_lately = watch.decode_at is not None and now - watch.decode_at < watch.policy.flat
    if (running(watch) > 0 and has_work(watch)) or decoded_lately:
        return Doing.DECODING
    return Doing.IDLE
