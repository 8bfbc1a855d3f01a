"""One engine as one poll saw it: counters and gauges of tp_rank 0, names already unified."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.ids import GroupName, Mono
from rigctl.core.reading import NOT_YET, Reading


@dataclass(frozen=True, slots=True)
class TokenPool:
    """A pool in tokens (KV) or state slots (mamba): used + cached + free = total (C74)."""

    total: Reading = NOT_YET
    used: Reading = NOT_YET
    """Pinned by running requests."""
    cached: Reading = NOT_YET
    """Evictable prefixes: they serve hits and give way to new work."""
    free: Reading = NOT_YET
    usage: Reading = NOT_YET
    """The engine's own 0..1 gauge for this pool; over 1 is kept as it came."""


@dataclass(frozen=True, slots=True)
class EngineSample:
    """What /metrics and /v1/loads said, merged. Counters only grow while one engine lives."""

    group: GroupName
    at: Mono
    """When the answer arrived."""
    source_age: Reading = NOT_YET
    """Seconds since the engine published its load snapshot (`/v1/loads` inner timestamp)."""
    version: str = ""
    model: str = ""
    kv: TokenPool = TokenPool()
    mamba: TokenPool = TokenPool()
    running: Reading = NOT_YET
    """Requests that decode; the one in chunked prefill is not among them."""
    queued: Reading = NOT_YET
    active: Reading = NOT_YET
    """`http_requests_active` over the generation endpoints: open requests incl. streams."""
    slots: Reading = NOT_YET
    """Effective running-request limit, after the mamba pool's cap."""
    context_length: Reading = NOT_YET
    decode_tokens: Reading = NOT_YET
    """Counter `realtime_tokens_total{mode=decode}`: moves every decode iteration."""
    prefill_tokens: Reading = NOT_YET
    """Counter `realtime_tokens_total{mode=prefill_compute}`: moves at every chunk end."""
    cached_tokens: Reading = NOT_YET
    """Counter `realtime_tokens_total{mode=prefill_cache}`: prompt tokens served from cache."""
    waiting_tokens: Reading = NOT_YET
    """`num_waiting_uncached_tokens`: the rest of the chunked prompt (exact) plus the queue."""
    prefill_busy_seconds: Reading = NOT_YET
    """Counter `total_prefill_busy_us` in seconds."""
    chunk_tokens: Reading = NOT_YET
    """Configured prefill chunk, from the start log's `chunked_prefill_size`."""
    accept_length: Reading = NOT_YET
    """Mean accepted tokens per verify over the last interval; sticky when idle."""
    scheduler_idle_seconds: Reading = NOT_YET
    retracted: Reading = NOT_YET
    """Counter of requests thrown back for lack of pool."""
    zombies: Reading = NOT_YET
    """Log lines `state was deleted in TokenizerManager` seen: clients gone, still decoding."""
    missing: tuple[str, ...] = ()
    """Metric names looked for and not served, for doctor (C69)."""
