"""The merged sample: every version gives one picture, and every gap says why it is one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from rigctl.core.engine_sample import EngineSample, TokenPool
from rigctl.core.ids import GroupName, Mono, Wall
from rigctl.core.log_facts import Capacity, MambaPool, Retracted, SlotsCapped, ZombieOutput
from rigctl.core.reading import Missing, Why
from rigctl.parse.sample import StaticFacts, learn, merge

DATA = Path(__file__).parents[1] / "data" / "metrics"
VERSIONS = ("0.5.9", "0.5.15", "0.5.18", "0.5.20", "0.5.23")
GROUP = GroupName("standard")
KNOWN = StaticFacts(context_length=262_144.0, chunk_tokens=4096.0, slots=6.0, mamba_slots=30.0)


def sample_of(version: str, known: StaticFacts = KNOWN) -> EngineSample:
    return merge(
        GROUP,
        Mono(5.0),
        Wall(1795982566.25),
        (DATA / f"sglang-{version}.prom").read_bytes(),
        (DATA / f"sglang-{version}.loads.json").read_bytes(),
        known,
    )


def merged(metrics: str | None, loads: str | None = None) -> EngineSample:
    return merge(GROUP, Mono(5.0), Wall(0.0), metrics, loads, StaticFacts())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_one_picture(version: str) -> None:
    """The same engine state reads the same from 0.5.9 to 0.5.23, whatever the series are called."""
    sample = sample_of(version)
    assert (sample.running, sample.queued, sample.slots) == (3, 1, 6)
    assert sample.kv.total == 800_000
    assert sample.kv.used == 112_000
    assert sample.kv.usage == 0.14
    assert sample.mamba.usage == 0.2
    assert sample.mamba.total == 30
    assert sample.mamba.used == pytest.approx(6)
    assert sample.context_length == 262_144
    assert sample.chunk_tokens == 4096
    assert sample.accept_length == 3.9
    assert (sample.decode_tokens, sample.prefill_tokens) == (40_311, 168_222)
    assert sample.cached_tokens == 1_514_336
    assert sample.model == "qwen3.8-27b"
    assert sample.version.startswith(version)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_the_pool_adds_up(version: str) -> None:
    """Used, cached and free are told apart and sum to the pool; so do the state slots."""
    sample = sample_of(version)
    for pool in (sample.kv, sample.mamba):
        parts = (pool.used, pool.cached, pool.free)
        assert all(isinstance(part, float) for part in parts)
        assert sum(part for part in parts if isinstance(part, float)) == pool.total
    assert sample.active == 5
    assert sample.waiting_tokens == 46_401


def test_the_oldest_version_says_what_it_cannot_tell() -> None:
    """0.5.9 does not divide the rest of the pool: cached and free are absent with that reason."""
    sample = sample_of("0.5.9")
    for part in (sample.kv.cached, sample.kv.free):
        assert isinstance(part, Missing)
        assert "cached" in part.note
    assert isinstance(sample.active, Missing)
    assert isinstance(sample.waiting_tokens, Missing)
    assert isinstance(sample.source_age, Missing)
    assert "kv_used_tokens" in sample.missing


@pytest.mark.case("C74")
def test_the_fullest_pool_is_not_the_kv_pool() -> None:
    """token_usage 0.20 on a hybrid model is the state pool's; the KV pool stands at 0.14."""
    sample = sample_of("0.5.23")
    assert sample.kv.usage == 0.14
    assert sample.mamba.usage == 0.2
    assert sample.kv.cached == 610_000


@pytest.mark.case("C74")
def test_a_usage_over_one_is_kept_as_it_came() -> None:
    """103 % is printed as 103 %: nothing is clamped on the way in."""
    sample = merged("sglang:full_token_usage 1.03\nsglang:kv_used_tokens 824000\n")
    assert sample.kv.usage == 1.03
    assert sample.kv.used == 824_000


@pytest.mark.case("C74")
def test_a_pool_size_of_zero_is_none() -> None:
    """A size of 0 is a gauge nobody has set: absent, so that nobody divides by it."""
    text = "sglang:max_total_num_tokens 0\nsglang:context_len 0\nsglang:token_usage 0.2\n"
    sample = merged(text)
    assert isinstance(sample.kv.total, Missing)
    assert isinstance(sample.context_length, Missing)
    assert sample.kv.usage == 0.2
    log = StaticFacts(pool_tokens=800_000.0, context_length=262_144.0)
    known = merge(GROUP, Mono(5.0), Wall(0.0), text, None, log)
    assert known.kv.total == 800_000
    assert known.kv.used == pytest.approx(160_000)


def test_a_model_without_state_has_no_state_pool() -> None:
    """A dense model serves mamba gauges of 0: that is no pool, not an empty one."""
    text = (DATA / "captured-0.5.23-cpu-busy.prom").read_text()
    pool = merged(text).mamba
    assert pool == TokenPool(*(5 * [pool.total]))
    assert isinstance(pool.total, Missing)
    assert pool.total.why is Why.UNSUPPORTED


def test_no_draft_no_accept_length() -> None:
    """The gauge's 0 before anything was drafted is not a length."""
    assert isinstance(merged("sglang:spec_accept_length 0.0\n").accept_length, Missing)
    assert merged("sglang:spec_accept_length 3.9\n").accept_length == 3.9


@pytest.mark.case("C76")
def test_silent_metrics_cost_only_what_they_alone_tell() -> None:
    """With /metrics silent, /v1/loads still shows requests and pool, the log its sizes."""
    loads = (DATA / "sglang-0.5.23.loads.json").read_text()
    sample = merge(GROUP, Mono(5.0), Wall(1795982570.25), None, loads, KNOWN)
    assert (sample.running, sample.queued, sample.slots) == (3, 1, 6)
    assert sample.source_age == 5.0
    assert sample.kv.used == 112_000
    assert sample.context_length == 262_144
    assert isinstance(sample.decode_tokens, Missing)
    assert sample.decode_tokens.why is Why.FAILED
    assert "/metrics" in sample.decode_tokens.note
    assert sample.missing == ()


@pytest.mark.case("C76")
def test_silent_loads_cost_only_what_they_alone_tell() -> None:
    """With /v1/loads silent, counters and pools stay; what waits is absent with that reason."""
    metrics = (DATA / "sglang-0.5.23.prom").read_text()
    sample = merge(GROUP, Mono(5.0), Wall(0.0), metrics, None, KNOWN)
    assert sample.decode_tokens == 40_311
    assert sample.slots == 6
    assert isinstance(sample.waiting_tokens, Missing)
    assert sample.waiting_tokens.why is Why.FAILED


@pytest.mark.parametrize("metrics", [None, "", "<html>login</html>"])
@pytest.mark.parametrize("loads", [None, "", '{"error":"Unauthorized"}'])
def test_nothing_is_never_zero(metrics: str | None, loads: str | None) -> None:
    """Two silent or senseless sources give an all-absent sample."""
    sample = merged(metrics, loads)
    readings = [
        getattr(sample, each.name)
        for each in fields(sample)
        if each.name not in ("group", "at", "version", "model", "kv", "mamba", "zombies", "missing")
    ]
    readings += [getattr(pool, each.name) for pool in (sample.kv, sample.mamba)
                 for each in fields(pool)]  # fmt: skip
    assert all(isinstance(reading, Missing) for reading in readings)


def test_the_log_tells_what_never_changes() -> None:
    """Sizes, the mamba cap, zombies and retractions are folded from log facts."""
    known = StaticFacts()
    for fact in (
        SlotsCapped(6.0, 30.0, 5.0),
        MambaPool(30.0),
        Capacity(800_000.0, 4096.0, 6.0, 262_144.0),
        Capacity(),
        ZombieOutput(),
        ZombieOutput(),
        Retracted(2.0),
        Retracted(),
    ):
        known = learn(known, fact)
    assert known == StaticFacts(
        pool_tokens=800_000.0,
        context_length=262_144.0,
        chunk_tokens=4096.0,
        slots=6.0,
        mamba_slots=30.0,
        zombies=2.0,
        retracted=3.0,
    )
    assert merge(GROUP, Mono(5.0), Wall(0.0), None, None, known).zombies == 2
