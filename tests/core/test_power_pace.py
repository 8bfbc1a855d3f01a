"""How often cards are asked, and how a day's P-states are counted."""

from __future__ import annotations

import pytest

from rigctl.core import pstates
from rigctl.core.ids import Mono
from rigctl.core.pace import (
    ENOUGH,
    LONG_IDLE,
    Pace,
    PollingCost,
    observe,
    pace,
    say_polling_cost,
)
from rigctl.core.pstates import PstateTimes, add, shares
from rigctl.core.reading import Missing, Why


@pytest.mark.case("C82")
@pytest.mark.parametrize(
    ("clients", "working", "idle", "expected"),
    [
        (0, True, 0.0, Pace(1.0, 1.0, cheap=False)),
        (3, True, 0.0, Pace(1.0, 1.0, cheap=False)),
        (1, False, 900.0, Pace(1.0, 1.0, cheap=True)),
        (0, False, 10.0, Pace(10.0, 10.0, cheap=True)),
        (0, False, LONG_IDLE, Pace(30.0, 10.0, cheap=True)),
    ],
)
def test_idle_cards_are_asked_seldom_and_cheaply(
    clients: int, working: bool, idle: float, expected: Pace
) -> None:
    """1 s while somebody looks or work runs, 10 s and 30 s else; never the waking questions."""
    assert pace(clients=clients, working=working, verifying=False, idle_seconds=idle) == expected


def test_who_waits_for_free_cards_is_served_quickly() -> None:
    """While a command verifies, its own share must stay under half a second."""
    wanted = pace(clients=0, working=False, verifying=True, idle_seconds=0.0)
    assert wanted.cards <= 0.25
    assert wanted.cheap


@pytest.mark.case("C82")
def test_polling_shows_its_own_cost() -> None:
    """Watts with and without polling are compared once both were seen often enough."""
    cost = PollingCost()
    for _ in range(ENOUGH):
        cost = observe(cost, 216.0, 1.0)
        assert say_polling_cost(cost) == ""
        cost = observe(cost, 64.0, 10.0)
        cost = observe(cost, 500.0, 4.0)
    assert say_polling_cost(cost) == "64 W left alone, 216 W when asked every second"


def test_pstate_time_is_shared_out_over_the_day() -> None:
    """Each sample speaks for the time since the last; midnight starts at nothing."""
    times = PstateTimes()
    for at, state in [(0.0, 8.0), (10.0, 8.0), (40.0, 8.0), (50.0, 2.0)]:
        times = add(times, state, "2026-11-29", Mono(at))
    assert shares(times) == {"P2": 0.2, "P8": 0.8}
    assert list(shares(times)) == ["P2", "P8"]
    times = add(times, 5.0, "2026-11-30", Mono(60.0))
    assert shares(times) == {"P5": 1.0}


def test_pstate_gaps_are_nobodys_time() -> None:
    """A missing state, a pause and a clock that starts anew count for no state."""
    day = "2026-11-29"
    times = add(PstateTimes(), 8.0, day, Mono(0.0))
    times = add(times, Missing(Why.LOST), day, Mono(10.0))
    times = add(times, 8.0, day, Mono(10.0 + pstates.LONGEST + 1))
    times = add(times, 8.0, day, Mono(5.0))
    assert shares(times) == {}
