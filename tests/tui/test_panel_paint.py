"""Lines of spans: widths are exact, bars are honest, numbers are never cut at their left."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from rigctl.core.reading import NOT_YET, Missing
from rigctl.tui.glyphs import ASCII, UNICODE
from rigctl.tui.paint import bar, boxed, fit, hanging, spark, spread, stacked, width, wrapped
from rigctl.tui.widgets.pager import fold, plain

SHARES = st.one_of(st.floats(0, 3, allow_nan=False), st.just(NOT_YET))
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z", "M")), max_size=30)


@seed(22)
@given(st.lists(SHARES, max_size=4), st.integers(0, 200))
def test_a_bar_is_as_wide_as_asked(shares: list[float | Missing], cells: int) -> None:
    """Whatever the shares, absent or over one, the bar keeps its cells (C74)."""
    for glyphs in (UNICODE, ASCII):
        drawn = stacked([(share, "used") for share in shares], cells, glyphs)
        assert width(drawn) == cells


@pytest.mark.case("C74")
def test_the_pool_bar_has_three_parts() -> None:
    """Used, cached and free have their own share and their own sign, not only a colour."""
    drawn = stacked([(0.25, "used"), (0.5, "cached")], 20, UNICODE)
    assert drawn == (("━" * 5, "used"), ("╍" * 10, "cached"), ("─" * 5, "track"))


@pytest.mark.case("C74")
def test_a_share_over_one_fills_the_bar_and_no_more() -> None:
    """1.03 of the pool is a full bar; the figure beside it says the rest."""
    assert bar(1.03, 10, UNICODE) == (("━" * 10, "used"),)
    assert bar(NOT_YET, 10, UNICODE) == (("─" * 10, "track"),)


@seed(23)
@given(st.lists(st.tuples(TEXT, st.just("text")), max_size=6), st.integers(0, 60))
def test_fit_is_exact_and_cuts_at_the_right(spans: list[tuple[str, str]], cells: int) -> None:
    """A line that is cut keeps its beginning and carries a mark (C96)."""
    line = tuple(spans)
    fitted = fit(line, cells, UNICODE)
    assert width(fitted) == cells
    if cells and width(line) > cells:
        text = plain(fitted)
        assert text.endswith("…")
        assert plain(line).startswith(text[:-1].rstrip())


@seed(24)
@given(TEXT, TEXT, st.integers(1, 80))
def test_spread_keeps_its_width(left: str, right: str, cells: int) -> None:
    """Left and right part share the row without leaving it."""
    row = spread(((left, "text"),), ((right, "dim"),), cells, UNICODE)
    assert width(row) == cells


@seed(25)
@given(st.lists(TEXT, max_size=5), st.integers(8, 60))
def test_a_frame_is_square(rows: list[str], cells: int) -> None:
    """Every row of a frame is as wide as the frame."""
    lines = boxed(
        (("title", "strong"),),
        (("state", "dim"),),
        [((row, "text"),) for row in rows],
        cells,
        "edge",
        UNICODE,
    )
    assert {width(line) for line in lines} == {cells}


@seed(26)
@given(st.text(st.characters(codec="ascii", exclude_categories=("C",)), max_size=200),
       st.integers(1, 40))  # fmt: skip
def test_folding_loses_nothing(text: str, cells: int) -> None:
    """A folded line has all its text, in rows that fit."""
    rows = fold(((text, "text"),), cells)
    assert "".join("".join(part for part, _ in row) for row in rows) == text
    assert all(width(row) <= cells for row in rows)


@seed(27)
@given(st.text(st.characters(codec="ascii", exclude_categories=("C",)), max_size=200),
       st.integers(1, 40))  # fmt: skip
def test_wrapping_keeps_to_its_width(text: str, cells: int) -> None:
    """Rows of a wrapped text fit, and no word is lost."""
    rows = wrapped(text, cells)
    assert all(len(row) <= cells for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")


def test_a_missing_reading_is_a_hole_in_the_sparkline() -> None:
    """Absent is not zero: the sign is a blank."""
    assert spark([0.0, NOT_YET, 350.0], 350.0, UNICODE) == "▁ █"


def test_long_text_hangs_under_its_own_begin() -> None:
    """Events and fields wrap under their text, within the width, and lose no word."""
    line = (("00:54:12  ", "dim"), ("standard  ", "text"), ("one two three four five six", "dim"))
    rows = hanging(line, 36)
    assert [width(row) <= 36 for row in rows] == [True] * len(rows)
    assert len(rows) == 2
    assert rows[1][0][0] == " " * 20
    assert " ".join(row[-1][0] for row in rows) == "one two three four five six"
    assert hanging(line, 36, most=1) == [line]
