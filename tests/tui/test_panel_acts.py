"""From a key to a command: asked once with numbers, answered yes only on purpose."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import samples
from open_panels import OpenPanel

from rigctl.core import commands
from rigctl.core.snapshot import Notice
from rigctl.tui.screens import asking
from rigctl.tui.screens.asking import ARM_SECONDS, ConfirmScreen

QUIET = ARM_SECONDS + 0.15


async def test_free_asks_once_with_its_consequence_in_numbers(open_panel: OpenPanel) -> None:
    """Cards, answers, drain limit, price of coming back, cached tokens, processes, who goes on."""
    async with open_panel(samples.busy(), (80, 24)) as opened:
        await opened.pilot.press("F")
        await opened.until_text("again: free long")
        for part in (
            "Takes 4 cards from long: 4–7.",
            "3 answers run: up to 180 s to finish",
            "434k cached tokens are lost",
            "Coming back takes about 74 s",
            "Ends 7 processes of pid 5700",
            "standard (3 of 6 slots busy) goes on",
        ):
            assert part in opened.text
        await asyncio.sleep(QUIET)
        await opened.pilot.press("F")
        await opened.until(lambda: bool(opened.rig.sent), "the command")
        assert opened.rig.sent == [commands.FreeGroup("long", holder="the panel")]  # type: ignore[arg-type]


NOT_YES = (
    "escape", "enter", "n", "y", "escape y", "enter y", "alt+y", "alt+F", "f", "space", "Y", "s",
    "q", "ctrl+c", "tab enter",
)  # fmt: skip


@pytest.mark.case("C99")
async def test_no_other_key_says_yes(
    open_panel: OpenPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Esc, Enter, y, and every pair of them leave the rig alone."""
    monkeypatch.setattr(asking, "ARM_SECONDS", 0.02)
    async with open_panel(samples.busy()) as opened:
        for keys in NOT_YES:
            await opened.pilot.press("F")
            await opened.until_text("again: free long")
            await asyncio.sleep(0.05)
            for key in keys.split():
                await opened.pilot.press(key)
            await opened.pilot.press("escape")
            await opened.until(lambda: len(opened.panel.screen_stack) == 1, f"no by {keys}")
            assert opened.rig.sent == [], keys


@pytest.mark.case("C99")
async def test_a_held_or_glued_key_says_nothing(open_panel: OpenPanel) -> None:
    """F, F, F … without a quiet moment between is one key held down: never a yes."""
    async with open_panel(samples.busy()) as opened:
        await opened.pilot.press("F")
        await opened.until_text("again: free long")
        for _ in range(20):
            await opened.pilot.press("F")
            await asyncio.sleep(ARM_SECONDS / 8)
        assert opened.rig.sent == []
        await asyncio.sleep(QUIET)
        await opened.pilot.press("F")
        await opened.until(lambda: len(opened.rig.sent) == 1, "the yes on purpose")


async def test_asked_is_shown_until_the_daemon_says_otherwise(open_panel: OpenPanel) -> None:
    """Nothing is done because a key was pressed: asked, then running, then its outcome."""
    async with open_panel(samples.foreign()) as opened:
        opened.rig.answer_slowly = True
        await opened.pilot.press("s")
        await opened.until_text("asked: start long")
        assert "starting" not in opened.text
        opened.rig.show(opened.rig.snapshot)
        await opened.until_text("under way")
        assert "asked:" not in opened.text
        opened.rig.finish("partly", "3 of 4 cards free: pid 48213 python holds card 5")
        await opened.until_text("partly")
        assert "3 of 4 cards free: pid 48213 python holds card 5" in opened.text
        assert "7.9 s" in opened.text


async def test_a_refusal_is_shown_in_the_daemons_words(open_panel: OpenPanel) -> None:
    """The daemon checks by uid; what it says is what is shown."""
    async with open_panel(samples.foreign()) as opened:
        opened.rig.snapshot = replace(opened.rig.snapshot, read_only=True)
        await opened.pilot.press("s")
        await opened.until_text("refused: your uid 1001 may look, not act")


async def test_an_act_that_cannot_be_sent_says_so(open_panel: OpenPanel) -> None:
    """The daemon is gone between two snapshots: said, not swallowed."""
    async with open_panel(samples.foreign()) as opened:
        opened.rig.reachable = False
        await opened.pilot.press("s")
        await opened.until_text("start long was not sent: no daemon answers")


async def test_every_act_means_the_marked_group(open_panel: OpenPanel) -> None:
    """tab moves the mark, and with it what F would free; the question names it."""
    async with open_panel(samples.busy()) as opened:
        assert opened.panel.state.group == "long"
        await opened.pilot.press("tab")
        assert opened.panel.state.group == "standard"
        await opened.pilot.press("F")
        await opened.until_text("again: free standard")
        await opened.pilot.press("escape")
        await opened.until(lambda: not isinstance(opened.panel.screen, ConfirmScreen), "no")
        await opened.pilot.press("2")
        assert opened.panel.state.group == "long"


@pytest.mark.parametrize(
    ("mood", "key", "sent"),
    [
        ("busy", "s", commands.StopGroup("long")),  # type: ignore[arg-type]
        ("busy", "R", commands.RestartGroup("long")),  # type: ignore[arg-type]
        ("busy", "z", commands.SetSleepOnIdle("long", True)),  # type: ignore[arg-type]
        ("picture", "r", commands.ReclaimGroup("long")),  # type: ignore[arg-type]
        ("leftovers", "X", commands.EndLeftovers("long")),  # type: ignore[arg-type]
    ],
)
async def test_each_act_is_asked_and_sent(
    open_panel: OpenPanel, mood: str, key: str, sent: commands.Command
) -> None:
    """The same key, pressed again after a moment, sends exactly the command asked about."""
    async with open_panel(samples.ALL[mood]()) as opened:
        await opened.pilot.press(key)
        await opened.until_text(f"{key} again")
        assert opened.rig.sent == []
        await asyncio.sleep(QUIET)
        await opened.pilot.press(key)
        await opened.until(lambda: bool(opened.rig.sent), "the command")
        assert opened.rig.sent == [sent]


async def test_what_costs_nothing_is_not_asked(open_panel: OpenPanel) -> None:
    """Starting what is off needs no question."""
    async with open_panel(samples.foreign()) as opened:
        await opened.pilot.press("s")
        await opened.until(lambda: bool(opened.rig.sent), "the command")
        assert opened.rig.sent == [commands.StartGroup("long")]  # type: ignore[arg-type]


@pytest.mark.case("C09")
async def test_a_start_is_asked_while_power_limits_are_back_at_default(
    open_panel: OpenPanel,
) -> None:
    """A reboot took the limits back: what the first burst could draw is said before a start."""
    say = "limits back at default: 8 cards, worst case +630 W"
    shown = replace(samples.foreign(), notices=(Notice("power-limits", "error", say),))
    async with open_panel(shown) as opened:
        await opened.pilot.press("s")
        await opened.until_text("again: start long")
        assert "+630 W" in opened.text
        assert not opened.rig.sent


async def test_a_power_limit_is_typed(open_panel: OpenPanel) -> None:
    """A number and enter; what is no number is said; escape leaves it."""
    async with open_panel(samples.busy()) as opened:
        await opened.pilot.press("W")
        await opened.until_text("Power limit of long's 4 cards")
        await opened.pilot.press("a", "enter")
        await opened.until_text("is not a number of watts")
        await opened.pilot.press("backspace", "2", "8", "0", "enter")
        await opened.until(lambda: bool(opened.rig.sent), "the command")
        assert opened.rig.sent == [commands.SetPowerLimit("long", 280.0)]  # type: ignore[arg-type]


async def test_read_only_looks_and_does_not_act(open_panel: OpenPanel) -> None:
    """Acts say why they are off; ! turns them on again."""
    async with open_panel(samples.busy(), read_only=True) as opened:
        assert "read-only" in opened.rows[0]
        await opened.pilot.press("F")
        await opened.until_text("this panel is read-only")
        assert not isinstance(opened.panel.screen, ConfirmScreen)
        await opened.pilot.press("exclamation_mark")
        await opened.until_text("acts are on again")
        await opened.pilot.press("F")
        await opened.until_text("again: free long")


async def test_the_daemons_word_on_rights_cannot_be_switched_off(open_panel: OpenPanel) -> None:
    """A uid that may only look stays there, whatever the panel's switch says."""
    async with open_panel(replace(samples.busy(), read_only=True)) as opened:
        await opened.pilot.press("exclamation_mark")
        await opened.until_text("the daemon lets this user look, not act")
        await opened.pilot.press("F")
        await opened.pilot.pause(0.05)
        assert not isinstance(opened.panel.screen, ConfirmScreen)


async def test_foreign_processes_are_named_before_a_free(open_panel: OpenPanel) -> None:
    """Who holds a card, how much, and that it is not ended: 3 of 4."""
    async with open_panel(samples.foreign()) as opened:
        await opened.pilot.press("F")
        await opened.until_text("again: free long")
        assert "Card 5: pid 48213 python of anna holds 2.1 GiB." in opened.text
        assert "Not ours, so not ended: 3 of 4 free then." in opened.text


async def test_figures_of_a_question_stay_true(open_panel: OpenPanel) -> None:
    """While the question stands, its numbers follow the rig."""
    async with open_panel(samples.busy()) as opened:
        await opened.pilot.press("F")
        await opened.until_text("3 answers run")
        groups = opened.rig.snapshot.groups
        quieter = (groups[0], replace(groups[1], in_flight=1.0))
        opened.rig.show(replace(opened.rig.snapshot, groups=quieter))
        await opened.until_text("1 answer runs")


async def test_a_free_that_drains_is_called_off_without_a_question(open_panel: OpenPanel) -> None:
    """r while the answers still finish: nothing is lost by that, so nothing is asked."""
    lease = samples.picture().groups[1].lease
    draining = replace(samples.busy().groups[1], state="draining", countdown=170.0, lease=lease)
    shot = replace(samples.busy(), groups=(samples.busy().groups[0], draining))
    async with open_panel(shot) as opened:
        assert "3 answers left, at most 170 s more" in opened.text
        await opened.pilot.press("r")
        await opened.until(lambda: bool(opened.rig.sent), "the command")
        assert opened.rig.sent == [commands.ReclaimGroup("long")]  # type: ignore[arg-type]
