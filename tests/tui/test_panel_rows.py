"""Groups, cards and header as rows: every mood fits every width and says its state in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
import samples
from hypothesis import given, seed
from hypothesis import strategies as st
from sample_parts import LONG, STANDARD, WALL, card, group

from rigctl.core.engine_sample import TokenPool
from rigctl.core.reading import NOT_YET, OFF, Missing, Why
from rigctl.core.snapshot import GroupView
from rigctl.tui.glyphs import ASCII, UNICODE, Glyphs
from rigctl.tui.paint import Line, width
from rigctl.tui.state import PanelState
from rigctl.tui.widgets import card_rows, group_rows
from rigctl.tui.widgets.feed import feed_lines
from rigctl.tui.widgets.header import header_line
from rigctl.tui.widgets.pager import plain

MOODS = sorted(samples.ALL)


def said(lines: list[Line]) -> str:
    """The rows as text."""
    return "\n".join(plain(line) for line in lines)


def rows(view: GroupView, cells: int = 56, height: int = 8, glyphs: Glyphs = UNICODE) -> str:
    """A group's rows as text."""
    return said(group_rows.rows(view, [4, 5, 6, 7], WALL, cells, height, glyphs))


@pytest.mark.parametrize("mood", MOODS)
@pytest.mark.parametrize("cells", [26, 36, 56, 146])
def test_every_mood_fits_every_width(mood: str, cells: int) -> None:
    """No row of a group is wider than its frame, none is missing, at every planned width."""
    for view in samples.ALL[mood]().groups:
        for glyphs in (UNICODE, ASCII):
            drawn = group_rows.rows(view, [0, 1, 2, 3], WALL, cells, 6, glyphs)
            assert len(drawn) == 6
            pool = group_rows.pool_row(view, cells, glyphs)
            assert width(pool) <= cells


@pytest.mark.parametrize(
    ("mood", "name", "word"),
    [
        ("calm", STANDARD, "ready"), ("picture", LONG, "lent"), ("starting", LONG, "starting"),
        ("failed", LONG, "FAILED"), ("one_lost", STANDARD, "BROKEN"), ("foreign", LONG, "off"),
    ],
)  # fmt: skip
def test_the_state_is_a_word_and_a_sign(mood: str, name: str, word: str) -> None:
    """State never hangs on a colour: sign and word stand beside it."""
    view = next(one for one in samples.ALL[mood]().groups if one.name == name)
    for glyphs in (UNICODE, ASCII):
        glyph, text, _ = group_rows.sign(view, glyphs)
        assert text == word
        assert glyph.strip()


def test_a_stall_says_since_left_eta_and_who_waits() -> None:
    """The stall's five figures are there, at the narrow size too."""
    view = samples.picture().groups[0]
    for cells in (56, 36):
        text = rows(view, cells, 6)
        assert "PREFILL STALL 41 s" in text
        assert "3 answers wait" in text
        assert "46k of 122k left, ~50 s" in text


def test_a_lease_says_whom_until_when_and_what_is_held() -> None:
    """Lent cards: holder, pid, since, until, time left, memory held, the way back."""
    text = rows(samples.picture().groups[1])
    for part in (
        "“training”",
        "pid 48213",
        "19:00",
        "until 21:02",
        "48 min left",
        "81.2 GiB",
        "74 s",
    ):
        assert part in text


def test_an_overdue_lease_is_said_in_words() -> None:
    """Past its end a lease is OVERDUE, with how long."""
    view = samples.picture().groups[1]
    assert view.lease is not None
    late = replace(view, lease=replace(view.lease, until=WALL - 720, overdue=True))
    assert "12 min over" in rows(late)
    assert group_rows.sign(late, UNICODE)[1] == "OVERDUE"


def test_a_start_shows_its_phases_with_their_usual_times() -> None:
    """Each phase with what it took and what it usually takes."""
    text = rows(samples.starting().groups[1])
    assert "41 s of about 74 s" in text
    assert "✓ weights" in text
    assert "▸ kv pool" in text
    assert "usually 22 s" in text


def test_a_failure_says_what_why_and_the_next_command() -> None:
    """The engine's own words, and what to do."""
    text = rows(samples.failed().groups[1])
    assert "out of memory on card 5" in text
    assert "rigctl logs long" in text


@pytest.mark.case("C74")
def test_a_pool_over_its_size_is_printed_as_it_is_with_a_mark() -> None:
    """824k of 800k stays 824k, marked, behind a full bar."""
    over = group(kv=TokenPool(800_000.0, 824_000.0, 0.0, 0.0, 1.03))
    line = group_rows.pool_row(over, 56, UNICODE)
    assert "824k! / 800k" in plain(line)
    assert not any(role == "track" for _, role in line)


@pytest.mark.case("C74")
@pytest.mark.parametrize("total", [0.0, NOT_YET, Missing(Why.UNSUPPORTED)])
def test_a_pool_without_a_size_shows_the_gauge_only(total: float | Missing) -> None:
    """No total: percent only, and no division by nothing."""
    odd = group(kv=TokenPool(total, NOT_YET, NOT_YET, NOT_YET, 1.03))
    assert "103 %! of the pool" in plain(group_rows.pool_row(odd, 56, UNICODE))


@pytest.mark.case("C74")
def test_the_recurrent_state_has_a_bar_of_its_own() -> None:
    """Full 14 %, state 20 %: two pools, two bars, never the larger for both."""
    view = group(
        kv=TokenPool(800_000.0, 112_000.0, 610_000.0, 78_000.0, 0.14), mamba=TokenPool(usage=0.2)
    )
    text = rows(view)
    assert "112k / 800k" in text
    assert "cached 76 %" in text
    assert next(row for row in text.splitlines() if row.startswith("mamba")).endswith("20 %")


def test_an_engine_that_is_off_has_no_figures() -> None:
    """Nothing runs: no zero pretends to be a measurement."""
    view = group(state="off", kv=TokenPool(OFF, OFF, OFF, OFF, OFF), pid=None)
    assert "tok/s" not in rows(view)


@pytest.mark.parametrize("cells", [60, 70, 80, 100, 120, 300])
@pytest.mark.parametrize("mood", MOODS)
def test_card_rows_keep_figures_whole_and_columns_straight(cells: int, mood: str) -> None:
    """At every width: rows as wide as the table, watts and heat whole, one layout for all."""
    shown = card_rows.columns(cells, UNICODE)
    names = [column.name for column in shown]
    assert "#" in names
    assert UNICODE.degree in names
    for one in samples.ALL[mood]().cards:
        line = card_rows.card_row(one, (), shown, cells, False, UNICODE)
        assert width(line) == cells
        text = plain(line)
        assert one.short in text
        if not one.lost and not isinstance(one.watts, Missing):
            assert f" {one.watts:.0f} / " in text


@pytest.mark.case("C96")
@seed(28)
@given(st.integers(60, 300), st.floats(0, 9999), st.floats(0, 9999))
def test_watts_are_never_cut_from_the_left(cells: int, watts: float, limit: float) -> None:
    """`1030 W` never reads `030 W`."""
    shown = card_rows.columns(cells, UNICODE)
    odd = card(0, watts=watts, limit_watts=limit)
    text = plain(card_rows.card_row(odd, (), shown, cells, False, UNICODE))
    assert f"{watts:.0f} / {limit:>3.0f}" in text


def test_a_hot_card_is_marked_beside_its_colour() -> None:
    """84 degrees carries a sign."""
    shown = card_rows.columns(80, UNICODE)
    assert "84!" in plain(card_rows.card_row(card(3, celsius=84.0), (), shown, 80, False, UNICODE))


def test_a_lost_card_says_so_across_its_row() -> None:
    """Number and label stay; the figures give way to what NVML said."""
    shown = card_rows.columns(80, UNICODE)
    lost = samples.one_lost().cards[3]
    text = plain(card_rows.card_row(lost, (), shown, 80, False, UNICODE))
    assert " 3  3090 ·e4c8" in text
    assert "LOST  GPU is lost (Xid 79?)" in text


@pytest.mark.parametrize(("mood", "word"), [("foreign", "foreign"), ("leftovers", "leftover")])
def test_who_uses_a_card_is_a_word(mood: str, word: str) -> None:
    """Foreign and leftover are written out."""
    shown = card_rows.columns(80, UNICODE)
    one = samples.ALL[mood]().cards[5]
    assert word in plain(card_rows.card_row(one, (), shown, 80, False, UNICODE))


@pytest.mark.case("C78")
def test_the_header_says_what_its_watts_lack() -> None:
    """Four of eight cards do not tell: the header's sum is a lower bound, at 60 cells too."""
    state = PanelState(samples.partly_counted())
    for cells in (60, 80, 120, 300):
        text = plain(header_line(state, cells, UNICODE))
        assert ">= 410 W (4 of 8)" in text


@pytest.mark.parametrize("cells", range(8, 140, 7))
def test_header_parts_go_whole(cells: int) -> None:
    """The header drops parts; it does not cut them."""
    text = plain(header_line(PanelState(samples.picture()), cells, UNICODE))
    assert len(text) <= cells
    for part in ("1841 W of 2520", "5.1 kWh today", "pool 310k / 800k", "20:14"):
        assert part in text or part.split()[0] not in text.split()


def test_notices_come_before_events_and_errors_first() -> None:
    """What needs a person stands above what merely happened."""
    state = PanelState(samples.one_lost(), group=LONG)
    text = said(feed_lines(state, 100, 10, UNICODE))
    assert text.index("card 3") < text.index("prefill stall began")


def test_events_are_newest_first() -> None:
    """The eye finds the newest at one place."""
    text = said(feed_lines(PanelState(samples.calm()), 100, 10, UNICODE))
    assert text.index("ended") < text.index("freed in 7.9 s")
