"""Every key of the footer, pressed on the simulated rig: each ends in a change that is seen."""

from __future__ import annotations

import re

import pytest
from demo_pane import LARGE, SMALL, DemoPane, until

from rigctl.tui.actions import ACTIONS, Keys

pytestmark = [pytest.mark.tmux, pytest.mark.timeout(240)]

SPEED = 8.0
CARD = re.compile(r"^ [ ▸]? ?(\d)  3090 ·", re.MULTILINE)


def look(pane: DemoPane) -> set[str]:
    """Every screen and what its own keys do; returns the actions that were pressed."""
    pane.press("l")
    pane.until("log of long")
    pane.until("Uvicorn running")
    pane.press("/")
    pane.keys("-l", "fired up")
    pane.keys("Enter")
    text = pane.until("only: fired up")
    rows = [row for row in text.splitlines() if "The server is fired up" in row]
    assert rows, text
    assert "Uvicorn running" not in text
    pane.press("P")
    pane.until("run before (1)")
    pane.escape()

    pane.press("p")
    pane.until_match(r"watts +15 min.*now \d+ W")
    pane.press("m")
    pane.until("decode tok/s   15 min")
    pane.press("]")
    pane.until("decode tok/s   1 h")
    pane.escape()

    pane.press("J")
    pane.until_match(r"long +started as pid \d+")
    pane.escape()

    pane.press("S")
    address = str(pane.endpoint()["url"])
    pane.until("Nobody has asked anything yet")
    pane.until(f"{address}/v1")
    pane.escape()

    pane.press("?")
    pane.until("Act on the marked group")
    pane.escape()

    pane.press(":")
    pane.until("Search for commands")
    pane.keys("-l", "end leftovers")
    pane.until("long has no leftover process")
    pane.escape()
    pane.until("Search for commands", gone=True)
    pane.ready()
    return {"logs", "plots", "journal", "sessions", "help", "commands"}


def marks(pane: DemoPane) -> None:
    """tab, enter and escape on groups and cards; theme and read-only."""
    pane.until("▸ long")
    pane.keys("Tab")
    pane.until("▸ standard")
    pane.keys("Enter")
    text = pane.until("Start phases")
    assert "weights" in text
    pane.escape()
    pane.keys("Tab")
    pane.until("▸ long")
    pane.press("G")
    pane.until_match(r"^▸ 7  3090")
    pane.keys("Enter")
    assert str(pane.cards("long")[3]["uuid"]) in pane.until("UUID")
    pane.escape()
    pane.until_match(r"^▸ 7  3090")
    pane.escape()
    pane.until_match(r"^▸ 7  3090", gone=True)

    before = pane.text("-e")
    pane.press("t")
    pane.until("theme ")
    assert colours(before) != colours(pane.text("-e"))
    pane.press("!")
    pane.until("read-only: acts are off")
    pane.press("F")
    pane.until("this panel is read-only")
    pane.press("!")
    pane.until("acts are on again")


def colours(capture: str) -> set[str]:
    """The colours of a capture."""
    return set(re.findall(r"[34]8;2;[\d;]+", capture))


def acts(pane: DemoPane) -> set[str]:
    """Sleep, limit, stop, start, free, reclaim; returns the footer's actions that were pressed."""
    assert not pane.group("long")["sleep"]["wanted"]
    assert "needs a restart of long" in pane.confirm("z", "sleep-on-idle long")
    pane.until_match(r"▸ long.*(draining|stopping|off|starting)")
    pane.ready()
    pane.until_match(r"sleep on .*sleep on ")
    assert pane.group("long")["sleep"]["wanted"]

    pane.press("W")
    pane.until("watts a card")
    pane.keys("-l", "280")
    pane.keys("Enter")
    pane.until_match(r"^ [ ▸]7  3090.* / 280 ")
    assert [card["limit_watts"] for card in pane.cards("long")] == [280.0] * 4
    assert [card["limit_watts"] for card in pane.cards("standard")] == [350.0] * 4

    pane.press("1")
    pane.until("▸ standard")
    pane.confirm("s", "stop standard")
    pane.until("○ off")
    assert pane.group("standard")["pid"] is None
    pane.until("s start")
    pane.press("s")
    pane.until("◐ starting")
    pane.ready()

    pane.press("2")
    pane.until("▸ long")
    assert "Takes 4 cards from long: 4–7." in pane.confirm("F", "free long")
    pane.until_match(r"▸ long.*○ lent \d+ s")
    text = pane.until("4 of 4 cards free")
    assert "“the panel”" in text
    for card in pane.cards("long"):
        assert (card["use"], card["processes"]) == ("lent", [])
    pane.until("r reclaim")
    pane.press("r")
    pane.until_match(r"▸ long.*◐ starting")
    pane.ready()
    assert pane.group("long")["lease"] is None
    return {"sleep", "toggle", "free", "reclaim"}


@pytest.mark.parametrize("size", [LARGE, SMALL])
def test_every_footer_key_on_the_simulated_rig(size: tuple[int, int]) -> None:
    """From the first paint to quit, on real engines behind a real socket; nothing stays behind."""
    with DemoPane("quiet", size=size, speed=SPEED) as pane:
        text = pane.ready()
        assert text.startswith(" rigctl")
        assert CARD.findall(text) == list("01234567")
        for action in ACTIONS:
            left_out = {"reclaim", "toggle"} if size == LARGE else {"reclaim", "toggle", "sleep"}
            if action.footer and action.id not in left_out:
                assert f" {Keys().shown(action.id)} " in text.splitlines()[-1]
        pressed = look(pane)
        marks(pane)
        pressed |= acts(pane)
        pane.press("q")
        assert "ENDED 0" in pane.until("ENDED")
        until(lambda: not pane.left(), "the end of all that the demo started")
        pressed.add("quit")
        assert pressed == {action.id for action in ACTIONS if action.footer}
