"""Session and client rows: straight columns at every width, figures whole, states readable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from sample_traffic import CLIENTS, CULPRIT, ROWS, SESSIONS, row

from rigctl.core.flow import ClientRow, FlowRows
from rigctl.core.reading import NOT_YET
from rigctl.tui import words
from rigctl.tui.glyphs import ASCII, UNICODE, Glyphs
from rigctl.tui.paint import width
from rigctl.tui.widgets import session_rows
from rigctl.tui.widgets.client_rows import client_lines
from rigctl.tui.widgets.pager import plain


@pytest.mark.parametrize("cells", [58, 70, 78, 100, 118, 160, 298])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_rows_are_as_wide_as_the_table_and_columns_are_straight(cells: int, glyphs: Glyphs) -> None:
    """The state begins in one column on every row, and every row names who and which session."""
    shown = session_rows.columns(SESSIONS, cells)
    names = session_rows.heading(shown, cells, glyphs)
    assert width(names) == cells
    place = plain(names).index("state")
    for one in SESSIONS:
        line = session_rows.session_row(one, shown, cells, False, glyphs)
        assert width(line) == cells
        text = plain(line)
        assert one.session in text
        assert text[place - 1] == " "
        assert text[place + 1] == " "
        assert text[place + 2 :].startswith(one.state)
        assert one.client[:7] in text


@pytest.mark.parametrize("cells", [78, 118])
def test_the_planned_widths_have_the_columns_that_matter(cells: int) -> None:
    """Cluster, context with its bar, and speed at 80 columns; wait, first byte and turn at 120."""
    names = {column.name for column in session_rows.columns(SESSIONS, cells)}
    assert {"who", "session", "where", "state", "context", "tok/s"} <= names
    if cells > 100:
        assert {"pool", "wait", "1st byte", "turn"} <= names


@seed(31)
@given(
    st.integers(58, 300),
    st.floats(0, 9_999_999),
    st.floats(0, 99_999),
    st.floats(0, 3e6),
    st.integers(1, 9_999),
)
def test_figures_are_never_cut_from_the_left(
    cells: int, context: float, rate: float, waited: float, turn: int
) -> None:
    """`1221k` never reads `221k`: a blank stands before every figure that is shown."""
    one = row("a1b2c3d4", "answering", 4.0, context=context, rate=rate, waited=waited, turn=turn)
    shown = session_rows.columns((one,), cells)
    text = plain(session_rows.session_row(one, shown, cells, False, UNICODE)) + " "
    named = {column.name for column in shown}
    wanted = {
        "context": words.tokens(context),
        "tok/s": f"{rate:.0f}",
        "wait": words.brief(waited),
        "turn": str(turn),
    }
    for name, figure in wanted.items():
        if name in named:
            assert f" {figure} " in text, (name, figure, text)


@seed(32)
@given(st.floats(0, 1e9))
def test_a_brief_length_of_time_fits_its_column(seconds: float) -> None:
    """Six cells, with a unit."""
    text = words.brief(seconds)
    assert len(text) <= 7 if seconds >= 86_400_000 else len(text) <= 6
    assert text.split()[-1][-1] in "snhmd"


@pytest.mark.parametrize(
    ("state", "say", "wide", "narrow"),
    [
        ("queued", "place 2 of 5, about 40 s", "queued: place 2 of 5, about 40 s",
         "queued 2 of 5, ~40 s"),
        ("held", "", "held 4 s", "held 4 s"),
        ("thinking", "", "thinking 4 s", "thinking 4 s"),
        ("stalled", "", f"stalled 4 s behind {CULPRIT}", f"stalled 4 s: {CULPRIT}"),
    ],
)  # fmt: skip
def test_the_state_shortens_before_it_is_cut(state: str, say: str, wide: str, narrow: str) -> None:
    """Wide and narrow wording both say state, figures and whom it waits for."""
    one = row("99ff0011", state, 4.0, say=say, behind=CULPRIT if state == "stalled" else "")
    assert plain(session_rows.state(one, 60, UNICODE))[2:] == wide
    assert plain(session_rows.state(one, len(narrow) + 2, UNICODE))[2:] == narrow


def test_flags_that_do_not_fit_leave_a_mark() -> None:
    """What is odd about an answer is at least marked, in every width and without colour."""
    one = row("99ff0011", "answering", 4.0, flags=("all-thought", "repeats"))
    assert "▲ all-thought, repeats" in plain(session_rows.state(one, 60, UNICODE))
    assert plain(session_rows.state(one, 34, UNICODE)).endswith("▲ all-thought +1")
    assert plain(session_rows.state(one, 20, UNICODE)).endswith("▲")
    assert plain(session_rows.state(one, 20, ASCII)).endswith("!")


def test_a_share_over_one_is_printed_as_it_is() -> None:
    """C74's rule for the pool, here too."""
    one = row("99ff0011", "answering", 4.0, pool_share=1.04)
    shown = session_rows.columns((one,), 160)
    assert "104 %" in plain(session_rows.session_row(one, shown, 160, False, UNICODE))


def test_absent_figures_are_no_zero() -> None:
    """Nothing told yet: `--`, and an empty bar."""
    one = row("99ff0011", "queued", 4.0, context=NOT_YET, pool_share=NOT_YET, rate=NOT_YET)
    shown = session_rows.columns((one,), 160)
    text = plain(session_rows.session_row(one, shown, 160, False, UNICODE))
    assert text.count("--") >= 3
    assert " 0 " not in text


@pytest.mark.parametrize("cells", [58, 78, 118, 298])
def test_client_rows_stay_whole(cells: int) -> None:
    """Requests and failures of every client at every width, the big figures unbroken."""
    big = replace(CLIENTS[0], prompt_tokens=999_000_000, requests=1_234_567)
    lines = client_lines(replace(ROWS, clients=(big, *CLIENTS[1:])), cells, 9, UNICODE)
    assert all(width(line) == cells for line in lines)
    text = "\n".join(plain(line) for line in lines)
    assert " 1234567 " in text
    if cells > 60:
        assert "999.00M" in text


def test_clients_that_do_not_fit_are_counted() -> None:
    """The busiest stay, the rest are a number and where to see them."""
    many = tuple(ClientRow(f"client-{at}", running=at) for at in range(9))
    lines = [plain(line) for line in client_lines(FlowRows(1.0, clients=many), 78, 6, UNICODE)]
    assert "client-8" in lines[2]
    assert "6 more clients" in lines[-1]
    assert len(lines) == 6
