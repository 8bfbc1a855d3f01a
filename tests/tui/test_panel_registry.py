"""One registry: keys, footer, palette, help and questions say the same, and can be rebound."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import samples
from open_panels import OpenPanel
from sample_parts import LONG, card

from rigctl.core.reading import NOT_YET, Missing
from rigctl.core.snapshot import Notice
from rigctl.tui import consequences
from rigctl.tui.actions import ACTIONS, BY_ID, Keys
from rigctl.tui.rings import STEP, WattRings
from rigctl.tui.screens.plots import curves, reduced, stretches
from rigctl.tui.state import PanelState


def test_ids_and_keys_are_unique() -> None:
    """No two actions share an id, nor a key where both are heard."""
    assert len(BY_ID) == len(ACTIONS)
    seen: dict[str, str] = {}
    for action in ACTIONS:
        for key in filter(None, action.key.split(",")):
            assert key not in seen, f"{key}: {action.id} and {seen[key]}"
            seen[key] = action.id


@pytest.mark.case("C99")
def test_no_action_needs_a_key_that_terminals_swallow() -> None:
    """Every keyed action has a plain key first: no ctrl, alt or function key is needed."""
    for action in ACTIONS:
        first = action.key.split(",")[0]
        assert not first.startswith(("ctrl+", "alt+", "f1", "super+")), action.id


def test_every_act_on_a_running_engine_asks_with_numbers() -> None:
    """Whatever ends processes has a question, and its lines hold figures."""
    state = PanelState(samples.busy(), group=LONG)
    for name in ("free", "toggle", "restart", "sleep"):
        question = BY_ID[name].question
        assert question is not None
        text = " ".join(question(state))
        assert "3 answers run" in text, name
        assert "74 s" in text, name


def test_a_question_without_figures_says_that_they_are_missing() -> None:
    """Nothing measured yet: no zero is claimed."""
    bare = samples.everything_missing()
    view = replace(bare.groups[1], state="ready", pid=5)
    lines = consequences.stop(PanelState(bare, group=LONG), view)
    text = " ".join(lines)
    assert "cannot be told" in text
    assert "no start was timed yet" in text
    assert " 0 " not in text


def test_each_refusal_names_its_reason() -> None:
    """An action that cannot be done says why, in words, in every mood."""
    for mood, make in samples.ALL.items():
        for group in ("standard", LONG):
            state = PanelState(make(), group=group)
            for action in ACTIONS:
                why = action.unavailable(state)
                assert why == "" or len(why.split()) >= 4, (mood, action.id, why)


def test_accepting_a_rebuilt_state_is_offered_only_then() -> None:
    """The palette's rarest act is tied to the daemon's own notice."""
    state = PanelState(samples.busy(), group=LONG)
    assert "nothing to accept" in BY_ID["accept-state"].unavailable(state)
    notice = Notice("needs-confirmation", "warning", "the state was rebuilt")
    asked = PanelState(replace(samples.busy(), notices=(notice,)), group=LONG)
    assert BY_ID["accept-state"].unavailable(asked) == ""


def test_keys_can_be_rebound_and_mistakes_are_named() -> None:
    """`[keys]`: a free key is taken, a taken or unknown one is complained about."""
    keys = Keys({"logs": "L", "fly": "x", "plots": "q", "help": "f1"})
    assert keys.shown("logs") == "L"
    assert keys.shown("plots") == "p"
    assert keys.shown("help") == "f1"
    assert any("fly: no such action" in text for text in keys.complaints)
    assert any("the key is taken by quit" in text for text in keys.complaints)


async def test_a_rebound_key_works_everywhere(open_panel: OpenPanel) -> None:
    """Footer, help and the question follow the new key; the old one is dead."""
    async with open_panel(samples.busy(), keys={"free": "E", "logs": "L"}) as opened:
        assert "E free" in opened.rows[-1]
        await opened.pilot.press("F")
        await opened.pilot.pause(0.05)
        assert "again" not in opened.text
        await opened.pilot.press("E")
        await opened.until_text("E again: free long")
        await opened.pilot.press("escape")
        await opened.until(lambda: len(opened.panel.screen_stack) == 1, "no")
        await opened.pilot.press("question_mark")
        await opened.until_text("free the marked group's cards")
        assert any(row.strip().startswith("E  ") for row in opened.rows)


async def test_help_has_every_action(open_panel: OpenPanel) -> None:
    """The help is the registry: no action is left out."""
    from rigctl.tui.glyphs import UNICODE
    from rigctl.tui.screens.help import help_lines
    from rigctl.tui.widgets.pager import plain

    text = "\n".join(plain(line) for line in help_lines(Keys(), PanelState(), UNICODE))
    for action in ACTIONS:
        assert action.help in text, action.id


async def test_the_palette_runs_an_action_and_says_why_not(open_panel: OpenPanel) -> None:
    """`:` finds by name; what cannot be done shows its reason beside it."""
    async with open_panel(samples.busy(), (100, 40)) as opened:
        await opened.pilot.press("colon")
        await opened.until_text("not now: long is not lent")
        await opened.pilot.press(*"journal")
        await opened.pilot.pause(0.3)
        await opened.pilot.press("enter")
        await opened.until_text("3 answers wait")
        assert "filter" in opened.rows[-1]


async def test_logs_filter_follow_wrap_and_the_run_before(open_panel: OpenPanel) -> None:
    """Each key of the log screen changes what it shows."""
    async with open_panel(samples.busy(), (100, 30)) as opened:
        await opened.pilot.press("l")
        await opened.until_text("Decode batch 49")
        await opened.pilot.press("k")
        await opened.until_text("held")
        await opened.pilot.press("g")
        await opened.until_text("Decode batch 0")
        await opened.pilot.press("slash")
        await opened.pilot.press(*"pool")
        await opened.until_text("only: pool")
        assert "Decode batch 1" not in opened.text
        await opened.pilot.press("enter", "escape")
        await opened.until_text("Decode batch 1")
        await opened.pilot.press("w")
        await opened.until_text("wrap")
        await opened.pilot.press("P")
        await opened.until_text("run 1 before of long")
        await opened.pilot.press("P")
        await opened.until_text("run 2 before of long")
        await opened.pilot.press("tab")
        await opened.until_text("before of standard")


async def test_copy_takes_what_is_shown(open_panel: OpenPanel) -> None:
    """y: the address, the card's UUID, the command line, the log's lines; and says which."""
    async with open_panel(samples.busy()) as opened:
        await opened.pilot.press("y")
        assert opened.panel.clipboard == "http://127.0.0.1:30002"
        await opened.pilot.press("j", "y")
        assert opened.panel.clipboard == opened.panel.state.card != ""
        await opened.until_text("copied the card's UUID")
        await opened.pilot.press("escape", "enter", "y")
        assert opened.panel.clipboard.startswith("python3 -m sglang")
        await opened.pilot.press("l")
        await opened.until_text("Decode batch 49")
        await opened.pilot.press("y")
        assert "Decode batch 49" in opened.panel.clipboard


async def test_plots_change_metric_and_span(open_panel: OpenPanel) -> None:
    """m and ] choose; one plot at a time."""
    async with open_panel(samples.busy(), (90, 30)) as opened:
        await opened.pilot.press("p")
        await opened.until_text("mean")
        for metric in ("decode tok/s", "prefill tok/s", "pool tokens", "watts"):
            await opened.pilot.press("m")
            await opened.until_text(metric)
        for span in ("1 h", "24 h"):
            await opened.pilot.press("right_square_bracket")
            await opened.until_text(f"watts   {span}")


def test_a_gap_in_the_data_is_a_gap_in_the_line() -> None:
    """null is not zero, and no line is drawn across it."""
    history = {"series": {"group.long.decode": [1.0, None, 3.0, 4.0], "rig.watts": [5.0]}}
    ((label, values),) = curves("decode tok/s", history)
    assert label == "long"
    assert math.isnan(values[1])
    assert stretches(values) == [(0, [1.0]), (2, [3.0, 4.0])]


def test_thinning_keeps_the_peaks() -> None:
    """A day in a hundred columns still shows its highest moment."""
    values = [1.0] * 5000
    values[1234] = 99.0
    assert max(reduced(values, 100)) == 99.0
    assert len(reduced(values, 100)) == 100


def test_sparklines_show_whole_steps_only() -> None:
    """The picture moves every four seconds; a card without watts leaves a hole."""
    rings = WattRings(3)
    start = 4000.0
    for second in range(12):
        watts: float | Missing = NOT_YET if 4 <= second < 8 else 100.0 + second
        shot = replace(samples.calm(), cards=(card(0, watts=watts),), wall=start + second)
        rings.add(shot)
    assert STEP == 4.0
    seen = rings.series(card(0).uuid)
    assert seen[1:] == (101.5, NOT_YET)


def test_history_fills_what_was_before() -> None:
    """A panel that opens shows the last minute at once."""
    rings = WattRings(3)
    shot = replace(samples.calm(), cards=(card(0),), wall=4000.0)
    rings.add(shot)
    name = f"card.{card(0).uuid}.watts"
    rings.prime({"step": 2.0, "end": 3998.0, "series": {name: [10, 20, 30, None, 50, 60]}})
    assert rings.series(card(0).uuid) == (15.0, 30.0, 55.0)
