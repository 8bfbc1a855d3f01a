"""Energy of the day: counters first, estimates marked, never negative, nothing while asleep."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.core.cards import CardSample, GpuSweep
from rigctl.core.energy import EnergyBook, Moment, step, used
from rigctl.core.ids import CardId, Mono
from rigctl.core.reading import UNSUPPORTED, Missing, Reading, Why

UUID = CardId("GPU-c2f1")
NOON = Moment("2026-11-29", 43_200.0, 5_000.0, "boot-1")


def sweep(at: float, watts: Reading = 100.0, joules: Reading = UNSUPPORTED) -> GpuSweep:
    card = CardSample(
        UUID, 0, "", "", watts=watts, joules=joules, max_limit_watts=350.0, pstate=2.0
    )
    return GpuSweep(Mono(at), (card,))


def later(seconds: float, moment: Moment = NOON) -> Moment:
    """The moment so many seconds after another, within the day."""
    return replace(
        moment,
        since_midnight=moment.since_midnight + seconds,
        boottime=moment.boottime + seconds,
    )


def joules(book: EnergyBook) -> float:
    return book.cards[UUID].joules


@pytest.mark.case("C80")
def test_the_counter_is_believed_over_the_power() -> None:
    """What the driver counted is booked, and is no estimate."""
    book = step(EnergyBook(), sweep(10.0, joules=1000.0), NOON)
    assert joules(book) == 0.0
    book = step(book, sweep(20.0, watts=1.0, joules=3800.0), later(10.0))
    assert joules(book) == 2800.0
    assert used(book, [UUID]).kwh == pytest.approx(2800 / 3.6e6)
    assert not used(book, [UUID]).estimated


@pytest.mark.case("C80")
def test_without_a_counter_power_is_summed_and_marked() -> None:
    """NOT_SUPPORTED: the trapezoid over monotonic time, and a tilde."""
    book = step(EnergyBook(), sweep(10.0, watts=100.0), NOON)
    book = step(book, sweep(20.0, watts=200.0), later(10.0))
    assert joules(book) == 1500.0
    assert used(book, [UUID]).estimated


@pytest.mark.case("C80")
def test_a_counter_reset_begins_a_new_segment() -> None:
    """8,812,333 mJ then 1,204 mJ: what was counted stays, the gap is estimated, then on."""
    book = step(EnergyBook(), sweep(0.0, joules=8000.0), NOON)
    book = step(book, sweep(10.0, joules=8812.333), later(10.0))
    book = step(book, sweep(11.0, joules=1.204), later(11.0))
    assert joules(book) == pytest.approx(812.333 + 100.0)
    book = step(book, sweep(12.0, joules=101.204), later(12.0))
    assert joules(book) == pytest.approx(812.333 + 100.0 + 100.0)


@pytest.mark.case("C80")
@pytest.mark.case("C91")
def test_a_night_asleep_adds_nothing() -> None:
    """BOOTTIME jumps by 28,800 s against MONOTONIC: only the waking second is booked."""
    book = step(EnergyBook(), sweep(10.0, watts=30.0), NOON)
    book = step(book, sweep(11.0, watts=30.0), later(28_801.0))
    assert joules(book) == pytest.approx(30.0)


@pytest.mark.case("C91")
def test_an_unreadable_card_after_waking_adds_nothing_absurd() -> None:
    """Power ERR and a counter that jumped are both refused."""
    book = step(EnergyBook(), sweep(10.0, watts=30.0, joules=500.0), NOON)
    book = step(
        book, sweep(11.0, Missing(Why.FAILED, "Unknown Error"), 9_000_000.0), later(28_801.0)
    )
    assert joules(book) == pytest.approx(30.0)


def test_a_long_gap_is_bridged_by_the_counter_only() -> None:
    """The daemon was down for an hour: the counter knows, a line between two powers does not."""
    book = step(EnergyBook(), sweep(0.0, joules=0.0), NOON)
    assert joules(step(book, sweep(3600.0, joules=360_000.0), later(3600.0))) == 360_000.0
    book = step(EnergyBook(), sweep(0.0), NOON)
    assert joules(step(book, sweep(3600.0), later(3600.0))) == 0.0


def test_midnight_starts_the_books_anew() -> None:
    """The new day begins at nothing, with its share of the span that crossed midnight."""
    book = step(EnergyBook(), sweep(0.0, joules=0.0), NOON)
    book = step(book, sweep(100.0, joules=10_000.0), later(100.0))
    dawn = replace(later(200.0), day="2026-11-30", since_midnight=25.0)
    book = step(book, sweep(200.0, joules=20_000.0), dawn)
    assert joules(book) == pytest.approx(2_500.0)
    assert book.day == "2026-11-30"


def test_another_boot_compares_nothing() -> None:
    """After a reboot clocks and counters start again: what was booked today stays."""
    book = step(EnergyBook(), sweep(50_000.0, joules=100.0), NOON)
    book = step(book, sweep(50_010.0, joules=900.0), later(10.0))
    rebooted = replace(later(600.0), boottime=60.0, boot="boot-2")
    book = step(book, sweep(60_000.0, joules=100_000.0), rebooted)
    assert joules(book) == 800.0


def test_an_unanswered_sweep_books_nothing_and_loses_nothing() -> None:
    """While NVML is silent nothing is invented; the counter catches up afterwards."""
    book = step(EnergyBook(), sweep(0.0, joules=0.0), NOON)
    silent = replace(sweep(0.0, joules=0.0), answered=False)
    assert step(book, silent, later(10.0)) is book
    assert joules(step(book, sweep(20.0, joules=2000.0), later(20.0))) == 2000.0


def test_a_sum_over_cards_says_when_it_is_incomplete() -> None:
    """A card never read leaves a lower bound; none read leaves no number."""
    book = step(EnergyBook(), sweep(0.0, joules=0.0), NOON)
    book = step(book, sweep(10.0, joules=3600.0), later(10.0))
    both = used(book, [UUID, CardId("GPU-none")])
    assert both.kwh == pytest.approx(0.001)
    assert both.estimated
    assert isinstance(used(book, [CardId("GPU-none")]).kwh, Missing)


def test_cost_needs_a_price() -> None:
    """Without a price there is no cost, rather than one of 0."""
    book = step(EnergyBook(), sweep(0.0, joules=0.0), NOON)
    today = used(step(book, sweep(10.0, joules=3600.0), later(10.0)), [UUID])
    assert today.cost(0.30) == pytest.approx(0.0003)
    free = today.cost(0.0)
    assert isinstance(free, Missing)
    assert "rig.toml" in free.note


def test_the_book_goes_through_json() -> None:
    """The daemon keeps it in its state file and takes it up as it was."""
    book = step(EnergyBook(), sweep(0.0, joules=5.0), NOON)
    book = step(book, sweep(10.0), later(10.0))
    assert msgspec.json.decode(msgspec.json.encode(book), type=EnergyBook) == book


READINGS = st.one_of(
    st.floats(0, 700),
    st.sampled_from([UNSUPPORTED, Missing(Why.FAILED), Missing(Why.LOST)]),
)
COUNTERS = st.one_of(
    st.floats(0, 1e7), st.sampled_from([UNSUPPORTED, Missing(Why.FAILED, "Unknown Error")])
)


@seed(80)
@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 300), st.floats(0, 1e5), READINGS, COUNTERS), max_size=20))
def test_energy_never_falls_and_never_exceeds_what_cards_can_draw(
    steps: list[tuple[float, float, Reading, Reading]],
) -> None:
    """Whatever the driver says, the day's sum only grows, by no more than the limit allows."""
    book, moment, at, before = EnergyBook(), NOON, 0.0, 0.0
    for seconds, asleep, watts, counter in steps:
        at += seconds
        moment = replace(later(seconds + asleep, moment), since_midnight=80_000.0)
        book = step(book, sweep(at, watts, counter), moment)
        assert before <= joules(book) <= before + 700 * (seconds + 1)
        before = joules(book)
