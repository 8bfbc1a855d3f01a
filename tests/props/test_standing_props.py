"""Standing under any evidence: not wider than the table, not dead while it moves, always back."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.core.clusters import Standing
from rigctl.core.evidence import (
    Answered,
    BytesSeen,
    Cancelled,
    Evidence,
    Looked,
    Refused,
    Reset,
    Silent,
    Slept,
    Told,
    Unanswered,
)
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import Progress, TableGroup
from rigctl.core.reading import NOT_YET
from rigctl.core.standing import observe, standing, watch

READY = TableGroup(
    GroupName("standard"), "127.0.0.1", 30_000, "m", state="ready", gate="open", run="s1"
)

readings = st.just(NOT_YET) | st.floats(0, 500)
doings = st.sampled_from(
    ["idle", "decoding", "prefilling", "stalled", "slowed", "hung", "broken", "unknown"]
)
clients = st.one_of(
    st.builds(Answered, st.sampled_from([400, 404, 413, 422, 429, 499])),
    st.just(Answered(503, queue_full=True)),
    st.just(Cancelled()),
)
evidence = st.one_of(
    clients,
    st.builds(Refused, st.just("connection refused")),
    st.builds(Reset, st.just("connection reset")),
    st.builds(Answered, st.sampled_from([200, 500, 502])),
    st.just(BytesSeen()),
    st.builds(Silent, st.floats(0, 500), st.integers(0, 6)),
    st.builds(Looked, readings, readings, readings, readings),
    st.just(Unanswered("no answer in 2 s")),
    st.builds(
        lambda doing, moved: Told(Progress(READY.name, doing, moved=moved)), doings, readings
    ),
    st.just(Slept()),
)
stream = st.lists(st.tuples(st.floats(0, 40), evidence), max_size=40)


@seed(20261130)
@settings(max_examples=200, deadline=None)
@given(stream, st.sampled_from(["off", "failed", "starting", "draining", "backing_off"]))
def test_never_wider_than_the_table_and_always_with_its_evidence(
    seen: list[tuple[float, Evidence]], state: str
) -> None:
    """A verdict names why; one that admits needs the table's word."""
    now, kept = 0.0, watch("s1", Mono(0.0))
    for gap, each in seen:
        now += gap
        kept = observe(kept, each, Mono(now))
        stands, since, say = standing(kept, READY, Mono(now))
        assert stands in (
            Standing.UP,
            Standing.BUSY,
            Standing.SLOWED,
            Standing.SUSPECT,
            Standing.DOWN,
        )
        assert since is None or since <= now
        assert say or stands is Standing.UP
        closed = replace(READY, state=state, say="why")
        assert not standing(kept, closed, Mono(now))[0].admits


@seed(20261130)
@settings(max_examples=200, deadline=None)
@given(stream, st.lists(clients, max_size=30))
def test_what_clients_do_changes_no_verdict(
    seen: list[tuple[float, Evidence]], faults: list[Evidence]
) -> None:
    """Put anywhere, in any number, with no time passing (C47)."""
    now, kept = 0.0, watch("s1", Mono(0.0))
    for gap, each in seen:
        now += gap
        kept = observe(kept, each, Mono(now))
    after = kept
    for fault in faults:
        after = observe(after, fault, Mono(now))
    assert standing(after, READY, Mono(now)) == standing(kept, READY, Mono(now))


@seed(20261130)
@settings(max_examples=200, deadline=None)
@given(stream)
def test_whatever_happened_a_working_engine_is_up_again_soon(
    seen: list[tuple[float, Evidence]],
) -> None:
    """Good looks with fresh counters and bytes: no verdict sticks for ever."""
    now, kept = 0.0, watch("s1", Mono(0.0))
    for gap, each in seen:
        now += gap
        kept = observe(kept, each, Mono(now))
    for _ in range(4):
        now += 5
        for good in (BytesSeen(), Looked(0.1, 1.0, 0.0, 0.0), Silent(0.0, 1)):
            kept = observe(kept, good, Mono(now))
    now += 5
    told = Told(Progress(READY.name, "decoding", moved=0.0))
    assert standing(observe(kept, told, Mono(now)), READY, Mono(now))[0] is Standing.UP


@seed(20261130)
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 1)), min_size=1, max_size=60))
def test_an_engine_whose_chunks_end_is_never_suspect(chunks: list[tuple[float, float]]) -> None:
    """However long the prefill and however silent the streams, with the proxy's own looks alone
    (C05): a chunk ends within ten seconds, a look comes every five."""
    now, kept, left = 0.0, watch("s1", Mono(0.0)), 1e6
    published, next_look = 0.0, 5.0
    kept = observe(kept, Silent(0.0, 3), Mono(0.0))
    for length, _ in chunks:
        end = now + length
        while next_look < end:
            look = Looked(next_look - published, 5.0, 0.0, left)
            kept = observe(kept, look, Mono(next_look))
            kept = observe(kept, Silent(next_look, 3), Mono(next_look))
            assert standing(kept, READY, Mono(next_look))[0] is Standing.BUSY
            next_look += 5
        now = published = end
        left -= 4_096
