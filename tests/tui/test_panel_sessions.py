"""The sessions screen: who asks what, in which state and behind whom; filter, detail, abort."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import sample_traffic
import samples
from open_panels import Opened, OpenPanel
from sample_traffic import BEHIND, CULPRIT, ROWS, THIRD, UP

from rigctl.core import commands
from rigctl.core.snapshot import Snapshot
from rigctl.tui.glyphs import ASCII
from rigctl.tui.screens.asking import ARM_SECONDS, ConfirmScreen
from rigctl.tui.screens.overview import OverviewScreen

SIZES = [(120, 36), (80, 24)]


async def sessions(opened: Opened) -> None:
    """Open the screen, and wait until its first row is marked."""
    await opened.pilot.press("S")
    await opened.until(lambda: bool(opened.panel.state.session), "a mark on the first row")


def with_rows(snapshot: Snapshot, *rows: sample_traffic.SessionRow) -> Snapshot:
    """The same with these sessions alone."""
    flow = replace(ROWS, sessions=rows)
    return replace(snapshot, endpoint=replace(UP, rows=flow))


def order(opened: Opened) -> list[str]:
    """Sessions from top to bottom."""
    known = [row.session for row in sample_traffic.SESSIONS]
    return [name for row in opened.rows for name in known if f" {name} " in row[:32]]


@pytest.mark.parametrize("size", SIZES)
async def test_every_state_is_in_words_with_whom_it_waits_for(
    open_panel: OpenPanel, size: tuple[int, int]
) -> None:
    """Prefilling, stalled behind, thinking, answering, queued, held, resting; flags beside them."""
    async with open_panel(sample_traffic.traffic(), size) as opened:
        await sessions(opened)
        text = opened.text
        for part in (
            "prefilling 41 s",
            "answering 8 s",
            "thinking 5 s",
            "resting 12 min",
            "held",
            "long starts",
            "2 of 2",
            "repeats",
            "2 queued, oldest 30 s",
            "5 run",
            "127.0.0.1:8000",
        ):
            assert part in text, part
        rows = [row for row in opened.rows if f" {BEHIND} " in row[:32]]
        assert len(rows) == 1
        assert "bob" in rows[0]
        assert "stalled 41 s" in rows[0]
        assert CULPRIT in rows[0][32:], "it says behind whom"
        assert "46k" in rows[0]
        assert "standard" in rows[0]


async def test_what_runs_is_first_then_what_waits_by_age_then_what_rests(
    open_panel: OpenPanel,
) -> None:
    """Running as the endpoint lists them; the oldest waiting first; the latest resting first."""
    async with open_panel(sample_traffic.traffic()) as opened:
        await sessions(opened)
        assert order(opened) == [
            CULPRIT, BEHIND, THIRD, "12ab34cd", "44556677", "deadbeef", "0badcafe", "feedf00d",
            "77aa88bb",
        ]  # fmt: skip


async def test_the_mark_stays_on_its_session_while_rows_move(open_panel: OpenPanel) -> None:
    """What was marked is what abort means, wherever its row went."""
    async with open_panel(sample_traffic.traffic()) as opened:
        await sessions(opened)
        await opened.pilot.press("j")
        assert opened.panel.state.session == BEHIND
        moved = tuple(
            replace(row, state="resting", request="", seconds=1.0)
            if row.session == CULPRIT
            else row
            for row in reversed(sample_traffic.SESSIONS)
        )
        opened.rig.show(with_rows(opened.rig.snapshot, *moved))
        await opened.until(lambda: order(opened)[0] != CULPRIT, "the new order")
        marked = next(row for row in opened.rows if "▸ bob" in row)
        assert BEHIND in marked
        await opened.pilot.press("G")
        assert opened.panel.state.session == order(opened)[-1]
        await opened.pilot.press("g")
        assert opened.panel.state.session == order(opened)[0]
        await opened.pilot.press("k")
        assert opened.panel.state.session == order(opened)[0]


async def test_a_crowd_is_paged_with_the_mark_in_view(open_panel: OpenPanel) -> None:
    """64 rows on a small screen: the place is said, every row can be reached."""
    async with open_panel(sample_traffic.crowd(), (80, 24)) as opened:
        await sessions(opened)
        await opened.until_text("of 64")
        seen = {opened.panel.state.session}
        for _ in range(70):
            await opened.pilot.press("j")
            seen.add(opened.panel.state.session)
            assert f"{opened.panel.state.session} " in opened.text
        assert len(seen) == 64
        await opened.until_text("64 of 64")
        await opened.pilot.press("g", "space")
        assert "▸" in opened.text
        assert "47 rest" in opened.text


async def test_the_filter_looks_at_every_field(open_panel: OpenPanel) -> None:
    """Client, label, cluster, state, flag, rule, path, request; all words; esc shows all again."""
    async with open_panel(sample_traffic.traffic()) as opened:
        await sessions(opened)
        for text, left in (
            ("bob stalled", [BEHIND]),
            ("OVERFLOW", ["12ab34cd"]),
            ("all-thought", ["77aa88bb"]),
            ("rig-3f0c-44556677", ["44556677"]),
            ("long starts", ["deadbeef"]),
        ):
            await opened.pilot.press("slash", *("space" if sign == " " else sign for sign in text))
            await opened.until(lambda left=left: order(opened) == left, text)
            await opened.pilot.press("enter")
            await opened.until_text(f"only: {text}")
            await opened.pilot.press("escape")
            await opened.until(lambda: len(order(opened)) == 9, "all of them")
        await opened.pilot.press("slash", *"nobody", "enter")
        await opened.until_text("No session has “nobody”; esc shows all.")
        await opened.pilot.press("escape")
        await opened.until(lambda: len(order(opened)) == 9, "all of them")
        await opened.pilot.press("escape")
        await opened.until(lambda: isinstance(opened.panel.screen, OverviewScreen), "the overview")
        assert opened.panel.state.session == ""


async def test_clients_show_their_sums_and_limits(open_panel: OpenPanel) -> None:
    """Running of the limit, requests, failed, prompt, cached, output, thinking; what is off."""
    async with open_panel(sample_traffic.traffic()) as opened:
        await sessions(opened)
        anna = next(row for row in opened.rows if "3 of 4" in row).split()
        assert anna == ["anna", "3", "of", "4", "1170", "2", "3", "2.14M", "1.98M", "88k", "41k",
                        "0"]  # fmt: skip
        claude = next(row for row in opened.rows if "3.60M" in row).split()
        assert claude[:3] == ["claude-code", "1", "12"]
        assert "off here    /v1/messages: no thinking budget" in opened.text


async def test_the_detail_says_everything_of_the_row(open_panel: OpenPanel) -> None:
    """Whose, where, by which rule, what it costs; who waits for it; and back to the table."""
    async with open_panel(sample_traffic.traffic()) as opened:
        await sessions(opened)
        await opened.pilot.press("enter")
        await opened.until_text("makes wait")
        for part in (f"{BEHIND} {THIRD}", "rig-3f0c-a1b2c3d4", "/v1/chat/completions", "122k",
                     "the first choice had", "15 %"):  # fmt: skip
            assert part in opened.text, part
        await opened.until_text("standard has a free slot: 3 of 6 busy")
        assert "122k tokens, counted" in opened.text
        assert "nothing: a new session" in opened.text
        assert "its home has a free slot" not in opened.text, "of an earlier turn"
        await opened.pilot.press("y")
        assert opened.panel.clipboard == "rig-3f0c-a1b2c3d4"
        opened.rig.show(with_rows(opened.rig.snapshot))
        await opened.until_text("is not told of any more")
        await opened.pilot.press("escape")
        await opened.until_text("Nobody has asked anything yet")
        await opened.pilot.press("enter")
        await opened.pilot.pause(0.05)
        assert len(opened.panel.screen_stack) == 2


async def test_other_screens_leave_the_detail_and_the_mark(open_panel: OpenPanel) -> None:
    """l from a session's detail shows the log; back leads to the overview, nothing is marked."""
    async with open_panel(sample_traffic.traffic()) as opened:
        await sessions(opened)
        await opened.pilot.press("enter")
        await opened.until_text("makes wait")
        await opened.pilot.press("l")
        await opened.until_text("log of long")
        assert opened.panel.state.session == ""
        await opened.pilot.press("escape")
        await opened.until(lambda: isinstance(opened.panel.screen, OverviewScreen), "the overview")
        await opened.pilot.press("A")
        await opened.until_text("no request is marked")
        assert not opened.rig.sent


@pytest.mark.parametrize("key", ["A", "ctrl+d"])
async def test_abort_asks_whose_request_it_is(open_panel: OpenPanel, key: str) -> None:
    """Client, how long, tokens made; enter is no; the same key again sends exactly that request."""
    async with open_panel(sample_traffic.traffic(), (80, 24)) as opened:
        await sessions(opened)
        await opened.pilot.press("j", key)
        await opened.until_text(f"A again: abort {BEHIND} of bob")
        for part in ("bob asked it on standard", "stalled for 41 s", "412 tokens"):
            assert part in opened.text, part
        await asyncio.sleep(ARM_SECONDS + 0.15)
        await opened.pilot.press("enter")
        await opened.until(lambda: not isinstance(opened.panel.screen, ConfirmScreen), "no")
        assert not opened.rig.sent
        await opened.pilot.press("A")
        await opened.until_text("A again")
        await asyncio.sleep(ARM_SECONDS + 0.15)
        await opened.pilot.press("A")
        await opened.until(lambda: bool(opened.rig.sent), "the command")
        assert opened.rig.sent == [commands.AbortAnswer(f"rig-3f0c-{BEHIND}")]
        await opened.until(
            lambda: any(BEHIND in row and "resting" in row for row in opened.rows), "its end"
        )
        await opened.pilot.press("A")
        await opened.until(
            lambda: (
                opened.panel.state.said is not None
                and f"{BEHIND} rests" in opened.panel.state.said.text
            ),
            "why there is nothing to abort",
        )


async def test_a_request_that_ends_under_the_question_is_said(open_panel: OpenPanel) -> None:
    """The question stays about the request it was put for."""
    async with open_panel(sample_traffic.traffic()) as opened:
        await sessions(opened)
        await opened.pilot.press("A")
        await opened.until_text(f"abort {CULPRIT} of anna")
        rest = tuple(
            replace(row, request="", state="resting") if row.session == CULPRIT else row
            for row in sample_traffic.SESSIONS
        )
        opened.rig.show(with_rows(opened.rig.snapshot, *rest))
        await opened.until_text(f"Now: {CULPRIT} rests")


async def test_read_only_hides_abort_and_refuses_it(open_panel: OpenPanel) -> None:
    """The footer does not offer it; the key says why."""
    async with open_panel(sample_traffic.traffic(), read_only=True) as opened:
        await sessions(opened)
        assert "A abort" not in opened.rows[-1]
        await opened.pilot.press("A")
        await opened.pilot.pause(0.05)
        assert not isinstance(opened.panel.screen, ConfirmScreen)
        await opened.pilot.press("exclamation_mark")
        await opened.until(lambda: "A abort" in opened.rows[-1], "abort in the footer")


async def test_copy_takes_the_request_the_session_or_the_address(open_panel: OpenPanel) -> None:
    """y: the marked request's id; of one that rests its label; the palette has the address."""
    async with open_panel(sample_traffic.traffic()) as opened:
        await sessions(opened)
        await opened.pilot.press("y")
        assert opened.panel.clipboard == f"rig-3f0c-{CULPRIT}"
        await opened.pilot.press("G", "y")
        assert opened.panel.clipboard == "77aa88bb"
        await opened.panel.run_action("act('copy-address')")
        assert opened.panel.clipboard == sample_traffic.URL


@pytest.mark.parametrize(
    ("mood", "said"),
    [
        ("busy", "This rig has no endpoint: [proxy] in rig.toml"),
        ("quiet_endpoint", "Nobody has asked anything yet. Clients reach the rig at http://"),
        ("endpoint_failed", "exit 1 three times: 127.0.0.1:8000 is taken by pid 812"),
    ],
)
@pytest.mark.parametrize("size", SIZES)
async def test_an_empty_screen_says_why(
    open_panel: OpenPanel, size: tuple[int, int], mood: str, said: str
) -> None:
    """No endpoint, nobody there, or an endpoint that is down, with the next step."""
    async with open_panel(samples.ALL[mood](), size) as opened:
        await opened.pilot.press("S")
        await opened.until(
            lambda: said in " ".join(" ".join(row.split()) for row in opened.rows), said
        )


async def test_every_sign_is_ascii_without_utf8(open_panel: OpenPanel) -> None:
    """Table, detail and question in the ASCII set, states still in words."""
    async with open_panel(sample_traffic.traffic(), (80, 24), glyphs=ASCII) as opened:
        for key in ("S", "enter", "A"):
            await opened.pilot.press(key)
            await opened.pilot.pause(0.1)
            assert all(row.isascii() for row in opened.rows)
        await opened.pilot.press("escape", "escape")
        await opened.until_text("! stalled 41 s")


async def test_an_equal_second_repaints_no_row(open_panel: OpenPanel) -> None:
    """Sessions that rest for minutes: another second of theirs is the same picture."""
    rest = tuple(row for row in sample_traffic.SESSIONS if row.state == "resting")
    async with open_panel(with_rows(sample_traffic.traffic(), *rest)) as opened:
        await sessions(opened)
        asked: list[str] = []
        for name in ("#sessions", "#clients", "#title"):
            widget = opened.panel.screen.query_one(name)
            widget.refresh = lambda *_, name=name, **__: asked.append(name)  # type: ignore
        later = tuple(replace(row, seconds=row.seconds + 1) for row in rest)
        seq = opened.rig.snapshot.seq
        opened.rig.show(with_rows(opened.rig.snapshot, *later))
        await opened.until(
            lambda: (
                opened.panel.state.snapshot is not None and opened.panel.state.snapshot.seq > seq
            ),
            "the second snapshot",
        )
        await opened.pilot.pause(0.05)
        assert asked == []
