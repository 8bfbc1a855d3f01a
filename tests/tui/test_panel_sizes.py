"""The overview at every size: readable at 80x24, covered below 60x20, never down."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import samples
from open_panels import OpenPanel
from sample_parts import SHORTS

from rigctl.tui.glyphs import ASCII

SMALL = "window too small (need 60x20)"


@pytest.mark.case("C96")
@pytest.mark.parametrize("size", [(60, 20), (70, 24), (80, 24), (120, 36), (300, 80)])
@pytest.mark.parametrize("mood", ["picture", "busy", "starting"])
async def test_all_cards_and_groups_are_readable(
    open_panel: OpenPanel, size: tuple[int, int], mood: str
) -> None:
    """Eight cards, two groups with their states, the pool and the way out, at each size."""
    async with open_panel(samples.ALL[mood](), size) as opened:
        text = opened.text
        for short in SHORTS:
            assert f"·{short}" in text
        for word in ("standard", "long", "ready", "pool", "q quit", "? help", "W of "):
            assert word in text
        assert SMALL not in text


@pytest.mark.case("C96")
@pytest.mark.parametrize("size", [(59, 24), (80, 19), (40, 12), (20, 5), (1, 1), (2, 60)])
async def test_a_small_window_says_what_it_needs(
    open_panel: OpenPanel, size: tuple[int, int]
) -> None:
    """Below the least size one sentence covers everything, where it fits; it never goes down."""
    async with open_panel(samples.picture(), size) as opened:
        await opened.pilot.pause()
        if size[0] >= 30:
            assert SMALL in opened.text
        await opened.pilot.resize_terminal(80, 24)
        await opened.until_text("PREFILL STALL")
        assert SMALL not in opened.text


@pytest.mark.case("C96")
async def test_a_resize_storm_during_refresh_ends_well(open_panel: OpenPanel) -> None:
    """Sixty sizes, a new snapshot with each: afterwards the overview is whole."""
    chance = random.Random(7)
    async with open_panel(samples.moving(0)) as opened:
        for step in range(60):
            opened.rig.show(samples.moving(step))
            wide, high = chance.choice(
                [(80, 24), (70, 24), (40, 12), (20, 5), (1, 1), (300, 80), (120, 36)]
            )
            await opened.pilot.resize_terminal(wide, high)
        opened.rig.show(samples.picture())
        await opened.pilot.resize_terminal(120, 36)
        await opened.until_text("PREFILL STALL 41 s")
        assert len(opened.panel.screen_stack) == 1
        assert "62c7" in opened.text


@pytest.mark.case("C96")
async def test_a_question_outlives_a_small_window(open_panel: OpenPanel) -> None:
    """A pane that shrinks and grows again finds the question where it was, unanswered."""
    async with open_panel(samples.busy()) as opened:
        await opened.pilot.press("F")
        await opened.until_text("again: free long")
        await opened.pilot.resize_terminal(30, 8)
        await opened.pilot.press("F")
        await opened.pilot.resize_terminal(120, 36)
        await opened.until_text("again: free long")
        assert not opened.rig.sent


@pytest.mark.parametrize(
    ("mood", "size"),
    [*((mood, (80, 24)) for mood in sorted(samples.ALL)), ("picture", (120, 36))],
)
async def test_every_mood_can_be_looked_at_everywhere(
    open_panel: OpenPanel, mood: str, size: tuple[int, int]
) -> None:
    """Each screen draws each mood, and says something."""
    async with open_panel(samples.ALL[mood](), size) as opened:
        for key, word in (("enter", "State"), ("l", "log of"), ("p", "watts"), ("J", "journal"),
                          ("question_mark", "Act on the marked group")):  # fmt: skip
            await opened.pilot.press(key)
            await opened.until_text(word)
            await opened.pilot.press("escape")
            await opened.until(lambda: len(opened.panel.screen_stack) == 1, "the way back")


@pytest.mark.case("C98")
async def test_nothing_but_ascii_is_drawn_without_utf8(open_panel: OpenPanel) -> None:
    """With the ASCII set every cell of every screen is ASCII, whatever the daemon's words hold."""
    async with open_panel(samples.picture(), (80, 24), glyphs=ASCII) as opened:
        for key in ("", "enter", "l", "p", "J", "question_mark", "F", "colon"):
            if key:
                await opened.pilot.press(key)
                await opened.pilot.pause(0.1)
            for row in opened.rows:
                assert row.isascii(), row
            if key:
                await opened.pilot.press("escape")
        await opened.until_text("PREFILL STALL")
        assert "####" in opened.text


async def test_an_equal_snapshot_repaints_nothing(open_panel: OpenPanel) -> None:
    """The same figures again: no widget asks for a repaint."""
    from rigctl.tui.widgets.lines import Lines

    async with open_panel(samples.picture()) as opened:
        opened.rig.show(samples.picture())
        await opened.pilot.pause(0.1)
        asked: list[str] = []
        for widget in opened.panel.screen.query(Lines):
            widget.refresh = _spy(widget.refresh, asked, widget)  # type: ignore[method-assign]
        seq = opened.rig.snapshot.seq
        opened.rig.show(samples.picture())
        await opened.until(
            lambda: (
                opened.panel.state.snapshot is not None and opened.panel.state.snapshot.seq > seq
            ),
            "the second snapshot",
        )
        assert asked == []
        opened.rig.show(samples.busy())
        await opened.until(lambda: bool(asked), "a repaint for other figures")


def _spy(real: Callable[..., object], asked: list[str], widget: object) -> Callable[..., object]:
    def refresh(*regions: object, **options: object) -> object:
        asked.append(repr(widget))
        return real(*regions, **options)

    return refresh
