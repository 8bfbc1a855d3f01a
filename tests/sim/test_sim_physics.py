"""The rig's physics against what was measured on the owner's rig."""

from __future__ import annotations

import pytest

from rigctl.sim.cards import Cards, Tenant
from rigctl.sim.world import FOUR_3090, Duty, card_at, celsius_after, fan_at


def whole_prefill(tokens: int, chunk: int = 4096) -> float:
    done, seconds = 0, 0.0
    while done < tokens:
        count = min(chunk, tokens - done)
        seconds += FOUR_3090.prefill_seconds(done, count)
        done += count
    return seconds


@pytest.mark.parametrize(("tokens", "seconds"), [(80_000, 67.0), (122_000, 136.0)])
def test_a_cold_prefill_takes_what_was_measured(tokens: int, seconds: float) -> None:
    """80k tokens hold the engine 67 s, 122k 136 s; how they are cut changes nothing."""
    assert whole_prefill(tokens) == pytest.approx(seconds, rel=0.02)
    assert whole_prefill(tokens, 1000) == pytest.approx(whole_prefill(tokens, 8192), rel=1e-9)


def test_a_chunk_grows_with_the_context_before_it() -> None:
    """4,096 tokens take 1.4 s at the start and 7.8 s near 120k."""
    assert FOUR_3090.prefill_seconds(0, 4096) == pytest.approx(1.4, abs=0.05)
    assert FOUR_3090.prefill_seconds(120_000, 4096) == pytest.approx(7.8, abs=0.15)


def test_one_answer_at_120k() -> None:
    """124 to 133 tok/s with 3.9 tokens accepted an iteration."""
    rate = FOUR_3090.accept / FOUR_3090.decode_seconds(1, 120_000)
    assert 124 <= rate <= 133


def test_more_answers_are_more_tokens_but_fewer_each() -> None:
    """A batch is faster in all and slower for each."""
    alone = 1 / FOUR_3090.decode_seconds(1, 60_000)
    three = 3 / FOUR_3090.decode_seconds(3, 180_000)
    assert alone < three < 3 * alone


@pytest.mark.parametrize(("duty", "watts"), [(Duty.POLLING, 1030.6), (Duty.SLEEPING, 255.6)])
def test_eight_idle_cards(duty: Duty, watts: float) -> None:
    """Polling schedulers hold eight cards at 1,030.6 W, sleeping ones at 255.6 W."""
    cards = Cards(8, 1.0, lambda pid: 1)
    for group in (0, 1):
        numbers = tuple(range(4 * group, 4 * group + 4))
        cards.report(Tenant(10 + group, numbers, tuple(100 + n for n in numbers), duty, 1))
    table = cards.table()
    assert sum(card.watts for card in table.cards) == pytest.approx(watts, abs=0.05)
    assert {card.pstate for card in table.cards} == ({2} if duty is Duty.POLLING else {8})


def test_the_power_limit_holds() -> None:
    """No duty draws more than the limit, and the card says that it is capped."""
    at = card_at(Duty.PREFILLING, 0, 250.0, 0.0)
    assert at.watts == 250.0
    assert at.capped
    assert at.clock_mhz < card_at(Duty.PREFILLING, 0, 350.0, 0.0).clock_mhz


def test_temperatures_settle_and_never_jump() -> None:
    """A card warms towards its load and stays there; two halves are one step."""
    half = celsius_after(celsius_after(35.0, 300.0, 10.0), 300.0, 10.0)
    assert half == pytest.approx(celsius_after(35.0, 300.0, 20.0))
    assert 60 < celsius_after(35.0, 300.0, 600.0) < 80
    assert fan_at(40) == 0 < fan_at(65) < 100


def test_energy_is_watts_over_time() -> None:
    """The counter grows by what the cards drew."""
    cards = Cards(8, 1.0, lambda pid: None)
    cards.advance(10.0, 10.0)
    cards.advance(50.0, 60.0)
    table = cards.table()
    assert sum(card.joules for card in table.cards) == pytest.approx(
        sum(card.watts for card in table.cards) * 60, rel=1e-3
    )


def test_memory_follows_the_processes() -> None:
    """A dead process holds its memory until the driver gives it back, then it is off the card."""
    alive = {100: 5}
    cards = Cards(8, 1.0, alive.get)
    cards.report(Tenant(10, (0,), (100,), Duty.POLLING, 22 << 30))
    assert cards.table().cards[0].processes[0].used_bytes == 22 << 30
    del alive[100]
    cards.leave(10)
    cards.advance(0.1, 100.0)
    assert cards.table().cards[0].processes
    cards.advance(0.1, 100.0 + cards.release_seconds + 1.5)
    assert not cards.table().cards[0].processes
    alive[100] = 6
    assert not cards.table().cards[0].processes


def test_cards_are_found_by_number_and_by_uuid() -> None:
    """CUDA_VISIBLE_DEVICES in both spellings, and what is no card is none."""
    cards = Cards(8, 1.0, lambda pid: 1)
    uuids = [card.uuid for card in cards.table().cards]
    assert cards.find("4,5") == (4, 5)
    assert cards.find(f"{uuids[7]}, {uuids[0]}") == (7, 0)
    assert cards.find("9,GPU-none,") == ()
