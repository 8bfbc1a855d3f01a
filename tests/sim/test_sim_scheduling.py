"""The simulated scheduler and its pool: prefill first, chunks, ceilings, and sums that hold."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.sim.sglang.batching import Batcher, BatchLimits, Decode, Prefill, Request
from rigctl.sim.sglang.pool import KvPool
from rigctl.sim.sglang.prompts import Prompt, chat_prompt, cut, plain_prompt

LIMITS = BatchLimits(running=3, chunk=1000, prefill_requests=2, decode_interval=0)


def request(rid: str, prompt: Prompt, limit: int = 20) -> Request:
    return Request(rid, prompt, limit, limit, 0.0)


def mark(tokens: int, name: str) -> Prompt:
    return plain_prompt(f"tok:{tokens}:{name}")


def run(batcher: Batcher, rounds: int = 100_000, tokens: float = 3.9) -> list[Request]:
    """Run until nothing is left; the ended requests in order."""
    ended: list[Request] = []
    for _ in range(rounds):
        batch = batcher.next()
        if batch is None:
            break
        if isinstance(batch, Prefill):
            batcher.prefilled(batch)
        else:
            batcher.decoded(batch, tokens)
        for over in batcher.over():
            batcher.remember(over, [])
            ended.append(over)
        assert batcher.pool.pinned + batcher.pool.cached + batcher.pool.free == batcher.pool.total
        assert batcher.pool.pinned >= 0 <= batcher.pool.cached
        assert batcher.pool.free >= 0
        assert len(batcher.running) <= batcher.limits.running
    return ended


def test_a_prefill_holds_every_answer_still() -> None:
    """While a long prompt is cut in chunks no decode runs: the wall."""
    batcher = Batcher(LIMITS, KvPool(100_000))
    batcher.add(request("short", mark(100, "a"), 500))
    first = batcher.next()
    assert isinstance(first, Prefill)
    batcher.prefilled(first)
    assert isinstance(batcher.next(), Decode)
    batcher.add(request("long", mark(5500, "b")))
    chunks = []
    while isinstance(batch := batcher.next(), Prefill):
        chunks.append(batch.tokens)
        batcher.prefilled(batch)
        assert [r.rid for r in batcher.running][:1] == ["short"]
    assert chunks == [1000] * 5 + [500]
    assert isinstance(batch, Decode)
    assert len(batch.requests) == 2


def test_a_decode_interval_lets_answers_breathe() -> None:
    """`--prefill-decode-interval 2`: two decode rounds between two chunks."""
    limits = BatchLimits(3, 1000, 0, 2)
    batcher = Batcher(limits, KvPool(100_000))
    batcher.add(request("short", mark(100, "a"), 500))
    batcher.prefilled(batcher.next())  # type: ignore[arg-type]
    batcher.add(request("long", mark(3000, "b")))
    kinds = []
    for _ in range(9):
        batch = batcher.next()
        kinds.append(type(batch).__name__)
        if isinstance(batch, Prefill):
            batcher.prefilled(batch)
        else:
            batcher.decoded(batch, 1)  # type: ignore[arg-type]
    assert kinds == ["Decode"] * 2 + (["Prefill"] + ["Decode"] * 2) * 2 + ["Prefill"]


def test_the_next_turn_is_cached() -> None:
    """A session's second prompt costs what it adds; another session's costs all of it."""
    batcher = Batcher(LIMITS, KvPool(100_000))
    turn = [{"role": "user", "content": "read tok:8000:files"}]
    batcher.add(request("one", chat_prompt(turn)))
    (first,) = run(batcher)
    assert first.cached == 0
    more = [*turn, {"role": "user", "content": "and tok:500:more"}]
    batcher.add(request("two", chat_prompt(more)))
    (second,) = run(batcher)
    assert second.cached >= 8000
    batcher.add(request("three", chat_prompt([{"role": "user", "content": "tok:8000:other"}])))
    (third,) = run(batcher)
    assert third.cached < 10


def test_a_full_pool_evicts_what_was_used_longest_ago() -> None:
    """Old prefixes give way to new work, the newest stay."""
    batcher = Batcher(LIMITS, KvPool(10_000))
    for name in "abcd":
        batcher.add(request(name, mark(3000, name)))
        run(batcher)
    assert batcher.pool.evicted > 0
    kept = {name: len(batcher.pool.match(mark(3000, name).pieces)) for name in "abcd"}
    whole = len(mark(3000, "a").pieces) - 1
    assert kept["a"] < whole
    assert kept["b"] == kept["c"] == kept["d"] == whole


def test_a_request_waits_for_a_slot() -> None:
    """Pool and request limit are two ceilings: the fourth waits though the pool is empty."""
    batcher = Batcher(LIMITS, KvPool(1_000_000))
    for number in range(4):
        batcher.add(request(str(number), mark(100, str(number)), 1000))
    for _ in range(3):
        batch = batcher.next()
        if isinstance(batch, Prefill):
            batcher.prefilled(batch)
    assert len(batcher.running) == 3
    assert [r.rid for r in batcher.waiting] == ["3"]
    assert batcher.waiting_tokens == 100


def test_an_aborted_prefill_gives_everything_back() -> None:
    """An abort in mid-prompt frees the slots after the running chunk."""
    batcher = Batcher(LIMITS, KvPool(100_000))
    long = request("long", mark(5000, "x"))
    batcher.add(long)
    batcher.prefilled(batcher.next())  # type: ignore[arg-type]
    assert batcher.pool.pinned == 1000
    long.finish = "abort"
    assert batcher.over() == [long]
    assert batcher.pool.pinned == 0
    again = request("again", mark(5000, "y"))
    batcher.add(again)
    batch = batcher.next()
    again.finish = "abort"  # while its chunk runs
    batcher.prefilled(batch)  # type: ignore[arg-type]
    assert batcher.over() == [again]
    assert batcher.pool.pinned == 0
    assert batcher.idle


def test_a_retraction_pays_for_the_token_it_makes_room_for() -> None:
    """The starved answer's new slots are taken from the pool, not conjured."""
    batcher = Batcher(BatchLimits(3, 1000, 2, 4), KvPool(4500))
    batcher.add(request("short", mark(798, "b"), 390))
    batcher.add(request("long", mark(3118, "a"), 390))
    assert len(run(batcher)) == 2
    assert batcher.retracted
    assert batcher.pool.pinned == 0


@seed(20261129)
@settings(max_examples=120, deadline=None, database=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 4000), st.sampled_from("abcde"), st.integers(1, 400)),
        min_size=1,
        max_size=12,
    ),
    st.integers(4500, 20_000),
    st.sampled_from([0, 1, 4]),
)
def test_every_request_ends_and_the_pool_adds_up(
    asks: list[tuple[int, str, int]], total: int, interval: int
) -> None:
    """Whatever comes together: used + cached + free is the pool, and nothing stays pinned."""
    limits = BatchLimits(3, 1000, 2, interval, mamba_total=15, mamba_each=5)
    batcher = Batcher(limits, KvPool(total))
    for number, (tokens, name, limit) in enumerate(asks):
        batcher.add(request(str(number), mark(tokens, name), limit))
    ended = run(batcher)
    assert len(ended) == len(asks)
    assert batcher.pool.pinned == 0
    assert batcher.mamba_used == 0
    for one in ended:
        assert one.output == one.limit or one.finish == "length"


def test_marks_stand_for_tokens() -> None:
    """`tok:N:name` is N tokens, the same name the same text, another name another."""
    assert sum(piece.tokens for piece in cut("tok:5000:a")) == 5000
    assert cut("tok:300:a")[0] == cut("tok:900:a")[0]
    assert cut("tok:300:a")[0] != cut("tok:300:b")[0]
    assert sum(piece.tokens for piece in cut("x" * 4000)) == pytest.approx(1000, abs=4)
