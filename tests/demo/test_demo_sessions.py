"""The sessions screen on the simulated rig: real requests through the real endpoint."""

from __future__ import annotations

import re
import time

import pytest
from demo_pane import LARGE, SMALL, DemoPane, until

from rigctl.tui.screens.asking import ARM_SECONDS

pytestmark = [pytest.mark.tmux, pytest.mark.timeout(240)]

ROW = re.compile(r"^ [ ▸] \S+ +([0-9a-f]{8}) ", re.MULTILINE)
MARKED = re.compile(r"^ ▸ \S* +([0-9a-f]{8}) ", re.MULTILINE)


def marked(pane: DemoPane) -> str:
    """The session whose row is marked."""
    found = MARKED.search(pane.until_match(MARKED.pattern))
    assert found
    return found.group(1)


@pytest.mark.parametrize("size", [LARGE, SMALL])
def test_every_key_of_the_sessions_screen_on_real_traffic(size: tuple[int, int]) -> None:
    """Mark, detail, filter, copy; abort ends that very request and no other; the clients' sums."""
    with DemoPane("wall", size=size, speed=2.0) as pane:
        pane.ready()
        until(lambda: len(pane.sessions("prefilling", "stalled")) == 4, "the wall", 90)
        pane.press("S")
        text = pane.until_match(r"▲ stalled \d+ s")
        (reads,) = pane.sessions("prefilling")
        assert text.count(str(reads["session"])) >= 4, "its own row, and three that wait for it"
        assert len(ROW.findall(text)) == len(pane.sessions())
        for row in pane.sessions("stalled"):
            assert re.search(rf"{row['client']} +{row['session']} +standard", text)

        first = marked(pane)
        pane.press("j")
        until(lambda: marked(pane) != first, "the next row")
        pane.press("k")
        until(lambda: marked(pane) == first, "the row before")
        pane.press("G")
        until(lambda: marked(pane) != first, "the last row")
        pane.press("g")
        until(lambda: marked(pane) == first, "the first row")
        pane.keys("Enter")
        pane.until(next(row["request"] for row in pane.sessions() if row["session"] == first))
        pane.escape()

        pane.press("/")
        pane.keys("-l", "prefilling")
        until(lambda: ROW.findall(pane.text()) == [reads["session"]], "the one that is read")
        pane.keys("Enter")
        pane.until("only: prefilling")
        assert marked(pane) == reads["session"]
        pane.press("y")

        said = pane.confirm("A", f"abort {reads['session']} of {reads['client']}")
        assert str(reads["client"]) in said
        assert "made no token so far" in said
        until(lambda: not pane.sessions("prefilling"), "its end")
        pane.escape()
        until(lambda: not pane.sessions("stalled"), "the answers that go on", 60)
        pane.until_match(r"● answering|◐ thinking")
        pane.escape()
        pane.ready()
        pane.until_match(r"abort.* done")
        assert pane.endpoint()["rows"]["totals"]["cancelled"] >= 1


def test_a_restart_of_the_endpoint_and_a_free_are_told_by_its_rows() -> None:
    """A new process, the answers go on; the question before a free names gate and sessions."""
    with DemoPane("team", size=LARGE, speed=2.0) as pane:
        pane.ready()
        until(lambda: len(pane.sessions("answering", "thinking")) >= 1, "traffic", 60)
        before = pane.endpoint()
        pane.until_match(rf"endpoint ● up +{before['url'].partition('://')[2]}")
        pane.press(":")
        pane.until("Search for commands")
        pane.keys("-l", "restart endpoint")
        pane.until("a new endpoint takes the address over")
        pane.keys("Enter")
        pane.until("Y again: restart endpoint")
        time.sleep(ARM_SECONDS + 0.2)
        pane.press("Y")
        until(lambda: pane.endpoint()["pid"] not in {None, before["pid"]}, "another process", 60)
        assert pane.endpoint()["url"] == before["url"]
        pane.until_match(r"endpoint.* done")
        until(lambda: len(pane.sessions("answering", "thinking")) >= 1, "traffic again", 60)

        pane.press("F")
        text = pane.until("F again: free long")
        assert "New requests are routed to standard" in text
        assert "refused" in text
        pane.escape()
        pane.until("F again", gone=True)
