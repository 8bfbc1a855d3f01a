"""What `/v1/loads` says, in its three shapes, and the older `/get_load`.

0.5.9 has an `aggregate` and asks the scheduler; 0.5.15 reads shared memory; from 0.5.17 on each
load carries the time of its publication, and `/get_load` answers with a bare list until 0.5.20.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from rigctl.core.ids import Wall
from rigctl.core.reading import Missing, Reading, Why
from rigctl.parse.metrics import MOST

_UNTOLD = Missing(Why.UNSUPPORTED, "/v1/loads does not tell it")


@dataclass(frozen=True, slots=True)
class Loads:
    """Data-parallel rank 0 of one answer; what a shape lacks is Missing."""

    version: str = ""
    age: Reading = _UNTOLD
    """Seconds since the scheduler published it."""
    running: Reading = _UNTOLD
    queued: Reading = _UNTOLD
    waiting_tokens: Reading = _UNTOLD
    used_tokens: Reading = _UNTOLD
    pool_total: Reading = _UNTOLD
    token_usage: Reading = _UNTOLD
    """Of the KV pool alone from 0.5.17 on; before, the fullest of all pools."""
    slots: Reading = _UNTOLD
    """The limit in force, after the mamba pool's cap."""
    prefill_busy_seconds: Reading = _UNTOLD
    accept_length: Reading = _UNTOLD
    """Mean since the engine's start."""


def parse(text: str | bytes, wall: Wall) -> Loads | None:
    """The load of rank 0, or None for a text that is no such answer; `wall` is the time now."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(answer, list):
        return _get_load(answer)
    if not isinstance(answer, dict):
        return None
    loads = answer.get("loads")
    load = _rank_zero(loads) if isinstance(loads, list) else None
    if load is None:
        return None
    version = answer.get("version")
    published = _number(load, "timestamp")
    speculative = load.get("speculative")
    busy = _number(load, "total_prefill_busy_us")
    return Loads(
        version=version if isinstance(version, str) else "",
        # The two clocks are one host's, but the wall clock may step: an age is never negative.
        age=published if isinstance(published, Missing) else max(0.0, wall - published),
        running=_number(load, "num_running_reqs"),
        queued=_number(load, "num_waiting_reqs"),
        waiting_tokens=_number(load, "num_waiting_uncached_tokens"),
        used_tokens=_number(load, "num_used_tokens"),
        pool_total=_number(load, "max_total_num_tokens"),
        token_usage=_number(load, "token_usage"),
        slots=_number(load, "max_running_requests"),
        prefill_busy_seconds=busy if isinstance(busy, Missing) else busy / 1e6,
        accept_length=(
            _number(speculative, "accept_length") if isinstance(speculative, dict) else _UNTOLD
        ),
    )


def _get_load(answer: list[object]) -> Loads | None:
    load = _rank_zero(answer)
    if load is None:
        return None
    total, queued = _number(load, "num_reqs"), _number(load, "num_waiting_reqs")
    if isinstance(total, Missing) or isinstance(queued, Missing):
        return Loads(queued=queued)
    return Loads(running=max(0.0, total - queued), queued=queued)


def _rank_zero(loads: list[object]) -> dict[str, object] | None:
    for load in loads:
        if isinstance(load, dict) and load.get("dp_rank", 0) in (0, None):
            return load
    return None


def _number(load: dict[str, object], key: str) -> Reading:
    value = load.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
        return _UNTOLD
    return float(value)
