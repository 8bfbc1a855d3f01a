"""The watch by its definitions: stalled, slowed, idle, and what a person reads of it."""

from __future__ import annotations

import pytest
from support_watch import CHUNK, Rig, measured, slow_chunks, with_answers

from rigctl.core.reading import UNSUPPORTED, Missing
from rigctl.core.watch import (
    SlowedBegan,
    SlowedEnded,
    StallBegan,
    StallEnded,
    flow,
    rates,
)


def test_idle_decoding_and_reading_are_told_apart() -> None:
    """No work is idle, moving tokens are decoding, an open request that does not run is reading."""
    rig = measured(Rig())
    rig.look()
    assert rig.state == "idle"
    rig.look(active=1.0, running=1.0, decode_tokens=50.0)
    assert rig.state == "decoding"
    rig.look(active=2.0, decode_tokens=90.0, waiting_tokens=5000.0)
    assert rig.state == "decoding"
    rig.look(2.5)
    shown = flow(rig.watch, rig.now)
    assert shown.state == "prefilling"
    assert (shown.waiting, shown.say) == (1, "1 answer waits")


def test_a_stall_has_a_beginning_an_end_and_a_length() -> None:
    """Answers wait while chunks end: said after the limit, counted from the last token."""
    rig = with_answers()
    last_token = rig.now
    rig.look(active=4.0, waiting_tokens=30 * CHUNK)
    facts = rig.chunk(4) + rig.chunk(4)
    assert (facts, rig.state) == ([], "prefilling")
    facts = rig.chunk(4)
    assert facts == [StallBegan(last_token, 3.0, 28 * CHUNK)]
    shown = flow(rig.watch, rig.now)
    assert shown.state == "stalled"
    assert shown.since == rig.now - last_token
    assert shown.waiting == 3
    assert shown.say == "3 answers wait while a prompt is read"
    for _ in range(5):
        assert not rig.chunk(4)
    read = rig.number("prefill_tokens") - 8 * CHUNK
    ended = rig.look(decode_tokens=rig.number("decode_tokens") + 100, active=4.0, running=4.0)
    assert ended == [StallEnded(rig.now - last_token, read, 3.0)]
    assert rig.state == "decoding"


def test_one_long_chunk_between_tokens_is_no_stall() -> None:
    """With chunks of 8 s the limit is 12 s: answers that go on after each chunk never stall."""
    rig = measured(Rig(), chunk_seconds=8)
    rig.look(active=3.0, running=2.0, waiting_tokens=30 * CHUNK)
    for _ in range(10):
        rig.chunk(8)
        rig.look(decode_tokens=rig.number("decode_tokens") + 10)
        assert rig.state != "stalled"
    assert not [fact for fact in rig.facts if isinstance(fact, StallBegan)]


def test_no_answers_no_stall() -> None:
    """A prompt that is read alone keeps nobody waiting, however long it takes."""
    rig = measured(Rig())
    rig.look(active=1.0, waiting_tokens=50 * CHUNK)
    for _ in range(50):
        assert not rig.chunk(4)
        assert rig.state == "prefilling"


def test_a_stall_ends_when_its_answers_do() -> None:
    """Clients that give up end the stall too, and the reason is told."""
    rig = with_answers()
    rig.look(active=4.0, waiting_tokens=30 * CHUNK)
    for _ in range(4):
        rig.chunk(4)
    assert rig.state == "stalled"
    (ended,) = rig.look(active=1.0, running=0.0)
    assert isinstance(ended, StallEnded)
    assert ended.why == "the answers ended"
    assert rig.state == "prefilling"


@pytest.mark.case("C05")
def test_what_is_left_and_how_long_it_takes() -> None:
    """Tokens left, the whole prompt and an ETA that knows later chunks to be slower."""
    rig = with_answers()
    rig.look(active=4.0, waiting_tokens=30 * CHUNK)
    for index in range(15):
        rig.chunk(2 + index // 3)
    shown = flow(rig.watch, rig.now)
    assert shown.tokens_left == 15 * CHUNK
    assert shown.tokens_total == 30 * CHUNK
    true_rest = sum(2 + index // 3 for index in range(15, 30))
    assert isinstance(shown.eta, float)
    assert 0.75 * true_rest < shown.eta < 1.25 * true_rest
    assert shown.fresh == 0
    rig.look(3)
    later = flow(rig.watch, rig.now)
    assert later.fresh == 3
    assert later.eta == pytest.approx(shown.eta - 3)


def test_slowed_is_said_when_answers_crawl_during_prefill() -> None:
    """Some tokens after each chunk: no stall, but under a quarter of the usual pace."""
    rig = with_answers(2.0, 30)
    rig.look(active=3.0, waiting_tokens=40 * CHUNK)
    slow_chunks(rig, 6, per_chunk=40.0)
    began = [fact for fact in rig.facts if isinstance(fact, SlowedBegan)]
    assert began == [SlowedBegan(pytest.approx(5.0), pytest.approx(50.0))]  # type: ignore[arg-type]
    shown = flow(rig.watch, rig.now)
    assert shown.state == "slowed"
    assert shown.say == "5 tok/s an answer, usually 50, while a prompt is read"
    assert shown.tokens_left == 34 * CHUNK
    rig.look(active=2.0, waiting_tokens=0.0, decode_tokens=rig.number("decode_tokens") + 100)
    (ended,) = [fact for fact in rig.facts if isinstance(fact, SlowedEnded)]
    assert ended.seconds > 0
    assert not [fact for fact in rig.facts if isinstance(fact, StallBegan)]


def test_a_third_of_the_pace_is_not_slowed() -> None:
    """Prefill costs something; only under a quarter is worth a word."""
    rig = with_answers(2.0, 30)
    rig.look(active=3.0, waiting_tokens=40 * CHUNK)
    slow_chunks(rig, 6, per_chunk=140.0)
    assert not rig.facts


def test_the_usual_pace_is_that_of_undisturbed_answers() -> None:
    """A day of slowed answers does not become the measure of slowness."""
    rig = with_answers(2.0, 30)
    rig.look(active=3.0, waiting_tokens=4000 * CHUNK)
    slow_chunks(rig, 200, per_chunk=40.0)
    assert rig.state == "slowed"


@pytest.mark.case("C72")
def test_an_idle_engine_has_no_rate() -> None:
    """Counters that stand still are 0 tokens a second, whatever a gauge remembers."""
    rig = with_answers()
    assert rates(rig.watch, rig.now).decode == pytest.approx(100)
    rig.look(active=0.0, running=0.0)
    for _ in range(60):
        rig.look()
    shown = rates(rig.watch, rig.now)
    assert (shown.decode, shown.prefill) == (0, 0)
    assert isinstance(shown.accept_length, Missing)
    assert rig.state == "idle"


@pytest.mark.case("C72")
def test_a_running_gauge_that_nobody_refreshed_is_idle_and_said() -> None:
    """24 running by the gauge, not one open request: idle, with the disagreement in words."""
    rig = measured(Rig())
    rig.look(active=0.0, running=24.0)
    for _ in range(30):
        rig.look()
    shown = flow(rig.watch, rig.now)
    assert shown.state == "idle"
    assert shown.say == "a gauge still says 24 running, but no request is open"
    assert not rig.facts


@pytest.mark.case("C72")
def test_a_silent_prefill_is_not_idle() -> None:
    """Five running, counters constant, a chunk in work: anything but idle."""
    rig = with_answers(5.0)
    rig.look(active=6.0, waiting_tokens=30 * CHUNK)
    for _ in range(30):
        rig.chunk(4)
        assert rig.state in ("prefilling", "stalled")


def test_answers_without_clients_are_still_decoded() -> None:
    """Zombies decode with no open request: decoding, not idle."""
    rig = measured(Rig())
    rig.look(active=0.0, running=2.0)
    rig.decode(10)
    assert rig.state == "decoding"


def test_rates_are_of_the_last_seconds() -> None:
    """Decode over the window, prefill over its chunks' own time, hits over minutes."""
    rig = measured(Rig())
    rig.look(active=1.0, waiting_tokens=30 * CHUNK)
    for _ in range(6):
        rig.chunk(4)
    shown = rates(rig.watch, rig.now)
    assert shown.prefill == pytest.approx(250)
    rig.look(3)
    assert rates(rig.watch, rig.now).prefill == pytest.approx(250)
    assert shown.hit == 0
    rig.look(cached_tokens=rig.number("prefill_tokens") * 3)
    assert rates(rig.watch, rig.now).hit == pytest.approx(0.75)


def test_a_version_without_open_requests_is_watched_by_its_chunks() -> None:
    """0.5.9 tells neither open streams nor what waits: chunks alone show a stall, and its end."""
    rig = measured(Rig())
    rig.look(active=UNSUPPORTED, waiting_tokens=UNSUPPORTED, running=3.0)
    rig.decode(10)
    assert rig.state == "decoding"
    for _ in range(5):
        rig.chunk_of_old()
    assert rig.state == "stalled"
    assert isinstance(flow(rig.watch, rig.now).tokens_left, Missing)
    rig.decode(3)
    assert rig.state == "decoding"
    assert [type(fact) for fact in rig.facts] == [StallBegan, StallEnded]
