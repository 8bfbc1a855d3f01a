"""Watts and limits of the rig: sums that admit their gaps, and limits that went back."""

from __future__ import annotations

import pytest

from rigctl.core import power
from rigctl.core.cards import CardSample
from rigctl.core.ids import CardId
from rigctl.core.reading import UNSUPPORTED, Missing, Reading, Total, Why


def card(index: int, **readings: Reading) -> CardSample:
    return CardSample(CardId(f"GPU-{index}"), index, "", "", **readings)  # type: ignore[arg-type]


RIG = tuple(card(i, limit_watts=420.0 if i == 4 else 350.0) for i in range(8))
WANTED = {one.uuid: 280.0 for one in RIG}


@pytest.mark.case("C78")
def test_a_missing_reading_is_not_zero_watts() -> None:
    """A sum says how many of its parts it knows."""
    readings: list[Reading] = [112.0, UNSUPPORTED, 98.0, Missing(Why.LOST)]
    cards = [card(index, watts=reading) for index, reading in enumerate(readings)]
    assert power.watts(cards) == Total(210.0, 2, 4)


def test_a_card_that_is_not_there_is_a_missing_part() -> None:
    """A group's sum counts the cards it should have, not those that were found."""
    cards = [card(0, watts=100.0), card(1, watts=50.0)]
    named = [CardId("GPU-1"), CardId("GPU-9")]
    assert power.watts(cards, named) == Total(50.0, 1, 2)
    assert power.limit_watts(RIG).value == 7 * 350 + 420


@pytest.mark.case("C09")
def test_limits_back_at_default_are_one_line_and_a_command_each() -> None:
    """280 W wanted, 350 and 420 W enforced after a reboot: the worst case is said in watts."""
    cards = [
        card(i, limit_watts=one.limit_watts, default_limit_watts=one.limit_watts)
        for i, one in enumerate(RIG)
    ]
    deviations = power.limit_deviations(cards, WANTED)
    assert power.say_deviations(deviations) == (
        "limits back at default: 8 cards, worst case +630 W"
    )
    assert deviations[4].command == "sudo nvidia-smi -i GPU-4 -pl 280"
    assert power.say_remedy(deviations[:2]) == (
        "sudo nvidia-smi -i GPU-0 -pl 280 && sudo nvidia-smi -i GPU-1 -pl 280"
    )


@pytest.mark.case("C09")
def test_another_limit_than_the_default_is_called_so() -> None:
    """Somebody set something else: that is a difference, not a reboot."""
    cards = [card(0, limit_watts=300.0, default_limit_watts=350.0)]
    assert power.say_deviations(power.limit_deviations(cards, WANTED)) == (
        "limits differ from rig.toml: 1 card, worst case +20 W"
    )
    cards = [card(0, limit_watts=250.0, default_limit_watts=350.0)]
    assert power.say_deviations(power.limit_deviations(cards, WANTED)) == (
        "limits differ from rig.toml: 1 card, all below what is wanted"
    )


def test_a_limit_within_rounding_or_unknown_is_no_deviation() -> None:
    """A driver that rounds, a card that does not tell, a card without a wish: nothing to say."""
    cards = [card(0, limit_watts=280.4), card(1), card(9, limit_watts=350.0)]
    deviations = power.limit_deviations(cards, WANTED)
    assert deviations == ()
    assert power.say_deviations(deviations) == ""
    assert power.say_remedy(deviations) == ""
