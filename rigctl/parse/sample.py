"""One engine as one poll saw it: `/metrics`, `/v1/loads` and what the log told, merged.

Each source has its own timer and may be silent (C76): what only a silent source could tell is
Missing, what another knows is taken from there, and what never changes is kept from the start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rigctl.core.engine_sample import EngineSample, TokenPool
from rigctl.core.ids import GroupName, Mono, Wall
from rigctl.core.log_facts import Capacity, LogFact, MambaPool, Retracted, SlotsCapped, ZombieOutput
from rigctl.core.reading import NOT_YET, Missing, Reading, Why
from rigctl.parse import loads as loads_text
from rigctl.parse import metrics as metrics_text
from rigctl.parse.loads import Loads
from rigctl.parse.metrics import Metrics

_SILENT_METRICS = Missing(Why.FAILED, "/metrics did not answer")
_SILENT_LOADS = Missing(Why.FAILED, "/v1/loads did not answer")
_NO_STATE_POOL = Missing(Why.UNSUPPORTED, "this model keeps no recurrent state")


@dataclass(frozen=True, slots=True)
class StaticFacts:
    """What the log and the command line have told of this engine since its start."""

    version: str = ""
    model: str = ""
    pool_tokens: Reading = NOT_YET
    context_length: Reading = NOT_YET
    chunk_tokens: Reading = NOT_YET
    slots: Reading = NOT_YET
    mamba_slots: Reading = NOT_YET
    zombies: float = 0.0
    """Lines seen so far that speak of an answer whose client has gone."""
    retracted: float = 0.0
    """Requests thrown back so far, by the log: the stand-in where the counter is not served."""


def learn(known: StaticFacts, fact: LogFact) -> StaticFacts:
    """What is known after one more log line. A new start begins from a new `StaticFacts`."""
    match fact:
        case Capacity():
            # The cap of the mamba pool is printed before this line and already in its figure.
            return replace(
                known,
                pool_tokens=_first(fact.pool_tokens, known.pool_tokens),
                context_length=_first(fact.context_length, known.context_length),
                chunk_tokens=_first(fact.chunk_tokens, known.chunk_tokens),
                slots=_first(fact.slots, known.slots),
            )
        case SlotsCapped():
            return replace(
                known,
                slots=_first(fact.slots, known.slots),
                mamba_slots=_first(fact.mamba_slots, known.mamba_slots),
            )
        case MambaPool():
            return replace(known, mamba_slots=_first(fact.slots, known.mamba_slots))
        case ZombieOutput():
            return replace(known, zombies=known.zombies + 1)
        case Retracted():
            gained = 1.0 if isinstance(fact.requests, Missing) else fact.requests
            return replace(known, retracted=known.retracted + gained)
        case _:
            return known


def merge(
    group: GroupName,
    at: Mono,
    wall: Wall,
    metrics: str | bytes | None,
    loads: str | bytes | None,
    known: StaticFacts,
) -> EngineSample:
    """One sample of what answered; None for a source that did not. `at` and `wall` are now."""
    m = None if metrics is None else metrics_text.parse(metrics)
    if m is not None and not m.answered:
        m = None  # 200 with nothing of an engine in it (another server, --enable-metrics missing)
    load = None if loads is None else loads_text.parse(loads, wall)
    told = load or Loads()
    no_loads = _SILENT_LOADS if load is None else None
    counted = m or _NOTHING
    silent = _SILENT_METRICS if m is None else None
    total = _first(
        _size(counted.value("pool_total")), _size(told.pool_total), _size(known.pool_tokens)
    )
    context = _first(_size(counted.value("context_length")), _size(known.context_length))
    return EngineSample(
        group=group,
        at=at,
        source_age=no_loads or told.age,
        version=told.version or known.version,
        model=counted.model or known.model,
        kv=_kv(counted, told, total, silent),
        mamba=_mamba(counted, known, silent),
        running=_or(silent, _first(counted.value("running"), told.running)),
        queued=_or(silent, _first(counted.value("queued"), told.queued)),
        active=silent or counted.active(),
        slots=_first(told.slots, known.slots),
        context_length=context,
        decode_tokens=silent or counted.counted_tokens("decode"),
        prefill_tokens=silent or counted.counted_tokens("prefill_compute"),
        cached_tokens=silent or counted.counted_tokens("prefill_cache"),
        waiting_tokens=no_loads or told.waiting_tokens,
        prefill_busy_seconds=no_loads or told.prefill_busy_seconds,
        chunk_tokens=known.chunk_tokens,
        accept_length=_accept_length(counted, silent),
        scheduler_idle_seconds=silent or counted.value("scheduler_idle_seconds"),
        retracted=silent or _first(counted.value("retracted"), known.retracted),
        zombies=known.zombies,
        missing=counted.absent if m is not None else (),
    )


def _kv(counted: Metrics, told: Loads, total: Reading, silent: Missing | None) -> TokenPool:
    """The KV pool; versions before 0.5.15 tell what is used, not how the rest divides."""
    # `num_used_tokens` counts pinned tokens of the KV pool alone, in both sources.
    used = _or(
        silent,
        _first(
            counted.value("kv_used"),
            counted.value("used_tokens"),
            told.used_tokens,
            _share_of(total, counted.value("token_usage")),
        ),
    )
    # The plain gauge comes last: from 0.5.15 on it is the fullest of all pools (C74).
    usage = _or(
        silent,
        _first(counted.value("kv_usage"), told.token_usage, counted.value("token_usage")),
    )
    return TokenPool(
        total=total,
        used=used,
        cached=silent or _pool_part(counted, "kv_cached"),
        free=silent or _pool_part(counted, "kv_free"),
        usage=usage,
    )


def _pool_part(counted: Metrics, name: str) -> Reading:
    found = counted.value(name)
    if isinstance(found, Missing):
        return Missing(Why.UNSUPPORTED, "this version does not tell cached tokens from free ones")
    return found


def _mamba(counted: Metrics, known: StaticFacts, silent: Missing | None) -> TokenPool:
    """The recurrent-state pool. All its gauges at 0 with no size known is a model without one."""
    used, cached, free = (counted.value(f"mamba_{part}") for part in ("used", "cached", "free"))
    usage = counted.value("mamba_usage")
    if isinstance(used, Missing) or isinstance(cached, Missing) or isinstance(free, Missing):
        total = known.mamba_slots
        derived = _share_of(total, usage)
        if isinstance(total, Missing) and (isinstance(usage, Missing) or usage == 0):
            return _pool_of(silent or _NO_STATE_POOL)
        untold = silent or Missing(Why.UNSUPPORTED, "metric missing")
        return TokenPool(total, silent or derived, untold, untold, silent or usage)
    total = used + cached + free
    if total == 0:
        if isinstance(known.mamba_slots, Missing):
            return _pool_of(_NO_STATE_POOL)
        return TokenPool(known.mamba_slots, NOT_YET, NOT_YET, NOT_YET, usage)
    # The gauges leave out what sessions hold; the log's size is the whole pool.
    return TokenPool(_first(known.mamba_slots, total), used, cached, free, usage)


def _pool_of(missing: Missing) -> TokenPool:
    return TokenPool(missing, missing, missing, missing, missing)


def _accept_length(counted: Metrics, silent: Missing | None) -> Reading:
    """0 is what the gauge holds when nothing was ever drafted; a real one is at least 1."""
    found = silent or counted.value("accept_length")
    if isinstance(found, Missing):
        return found
    return found if found > 0 else Missing(Why.OFF, "no speculative decoding so far")


def _share_of(total: Reading, usage: Reading) -> Reading:
    if isinstance(total, Missing):
        return total
    return usage if isinstance(usage, Missing) else total * usage


def _size(reading: Reading) -> Reading:
    """A size of 0 is a gauge that nobody has set yet."""
    if not isinstance(reading, Missing) and reading <= 0:
        return Missing(Why.IMPLAUSIBLE, "served as 0")
    return reading


def _first(*readings: Reading) -> Reading:
    """The first that is there; the first one's reason when none is."""
    return next((each for each in readings if not isinstance(each, Missing)), readings[0])


def _or(silent: Missing | None, reading: Reading) -> Reading:
    """The reading of whichever source has it; the silence of the main one as its reason."""
    return silent if silent is not None and isinstance(reading, Missing) else reading


_NOTHING = Metrics({}, {}, {}, "", (), False)
