"""Units, durations and absent figures, as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from rigctl.core.reading import UNSUPPORTED, Missing, Total, Why, total
from rigctl.tui import words
from rigctl.tui.glyphs import ASCII


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (7.9, "7.9 s"), (41, "41 s"), (119.4, "119 s"), (136, "136 s"),
        (299.6, "5 min"), (2880, "48 min"),
        (3600, "1h 00m"), (4389, "1h 13m"), (273_600, "3d 04h"), (-3, "0 s"), (9.97, "10 s"),
    ],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    """A duration reads like a person says it."""
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (950, "950"), (1000, "1.0k"), (46_000, "46k"), (999_499, "999k"),
     (999_500, "1.00M"), (1_450_000, "1.45M"), (UNSUPPORTED, "--")],
)  # fmt: skip
def test_tokens_keep_three_digits(count: float | Missing, text: str) -> None:
    """Token counts are short, and absent ones are `--`."""
    assert words.tokens(count) == text


@pytest.mark.case("C78")
def test_a_total_with_missing_parts_is_a_lower_bound() -> None:
    """Cards without a figure do not count as zero: the sum says what it lacks."""
    readings = [112.0, UNSUPPORTED, Missing(Why.LOST), 98.0, Missing(Why.IMPLAUSIBLE),
                Missing(Why.IMPLAUSIBLE), 101.0, 99.0]  # fmt: skip
    assert words.watts(total(readings), "cards") == ">= 410 W (4 of 8 cards)"
    assert words.watts(Total(410, 8, 8), "cards") == "410 W"
    assert words.watts(Total(0, 0, 8), "cards") == "--"


def test_an_absent_figure_says_why_in_detail_views() -> None:
    """`--` comes with the reason and what the source said."""
    gone = Missing(Why.FAILED, "NVML error 999")
    assert words.explained(gone, "never shown") == "--  (the call failed: NVML error 999)"
    assert words.explained(3.0, "3 W") == "3 W"


@pytest.mark.case("C98")
def test_money_needs_no_sign_outside_ascii() -> None:
    """Where there is no UTF-8 the currency's code stands for its sign."""
    assert words.money(1.53, "EUR") == "1.53 €"
    assert words.money(1.53, "EUR", ASCII) == "1.53 EUR"


@pytest.mark.parametrize(
    ("numbers", "text"), [([4, 5, 6, 7], "4–7"), ([0, 2, 3], "0 2 3"), ([1, 2], "1 2"), ([], "")]
)
def test_card_numbers_are_ranges(numbers: list[int], text: str) -> None:
    """Three or more in a row become a range."""
    assert words.ranges(numbers) == text


@seed(20)
@given(st.floats(0, 1e9, allow_nan=False))
def test_no_duration_is_wider_than_its_column(seconds: float) -> None:
    """Eight cells hold any duration below thirty years."""
    assert len(words.duration(seconds)) <= 10


@seed(21)
@given(st.floats(0, 9.9e8, allow_nan=False))
def test_no_token_count_is_wider_than_its_column(count: float) -> None:
    """Seven cells hold any pool."""
    assert len(words.tokens(count)) <= 7


def test_an_age_stands_still_for_a_minute() -> None:
    """An uptime is told in minutes after the first one: a calm screen does not count seconds."""
    assert [words.age(each) for each in (4.2, 59.0, 60.0, 119.0, 240.0, 299.0, 301.0)] == [
        *("4 s", "59 s", "1 min", "1 min", "4 min", "4 min", "5 min"),
    ]
