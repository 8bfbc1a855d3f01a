"""The scenes of the simulated rig as the panel shows them, and what is left when a demo ends."""

from __future__ import annotations

import re
import time
from pathlib import Path

import psutil
import pytest
from demo_pane import LARGE, RIGCTL, SMALL, DemoPane, alive, running_for, until
from support_tmux import TmuxPane

pytestmark = [pytest.mark.tmux, pytest.mark.timeout(240)]

STALL = re.compile(
    r"PREFILL STALL (\d+) s +3 answers wait.*\n"
    r".*?([0-9a-f]{8}) (?:makes wait:|holds) .*\n"
    r".*?(\d+)k of 12\dk left, ~(\d+) s"
)


def stalled(text: str) -> tuple[int, str, int, int]:
    """Seconds since, whose prompt, thousands of tokens left and ETA of the stall on show."""
    found = STALL.search(text)
    assert found, text
    since, culprit, left, eta = found.groups()
    return int(since), culprit, int(left), int(eta)


def daemon_of(home: str) -> psutil.Process:
    """The demo's daemon."""
    (found,) = (one for one in running_for(home) if "rigctl.daemon.main" in one.cmdline())
    return found


def test_the_wall_two_panels_and_a_dead_daemon() -> None:
    """One cold prompt holds three answers: since when, how much is left, how long, who waits.

    Two panels show it alike. The daemon dies by -9 meanwhile: both say so with the age of their
    figures, a new one comes by itself and takes the engines over, and the stall is still there.
    """
    with DemoPane("wall", size=LARGE, speed=2.0) as pane:
        pane.ready()
        with TmuxPane([*RIGCTL, "panel"], size=SMALL, RIGCTL_HOME=pane.home) as other:
            for one in (pane, other):
                one.until_match(STALL.pattern, patience=60)
            since, culprit, left, eta = stalled(pane.text())
            told = pane.group("standard")["flow"]
            (reads,) = pane.sessions("prefilling")
            assert culprit == reads["session"]
            assert reads["context"] > 100_000
            waiting = pane.sessions("stalled")
            assert {row["behind"] for row in waiting} == {culprit}
            assert len(waiting) == 3
            proxy = pane.endpoint()["pid"]
            assert told["state"] == "stalled"
            assert abs(told["since"] - since) <= 3
            assert abs(told["tokens_left"] / 1000 - left) <= 9
            assert abs(told["eta"] - eta) <= 15
            pane.until("decode 0 tok/s")
            pid = pane.group("standard")["pid"]

            killed = daemon_of(pane.home)
            killed.kill()
            for one in (pane, other):
                one.until_match(r"no daemon, figures .* old")
                assert "PREFILL STALL" in one.text()
            pane.press("F")
            pane.until("the daemon is gone")
            for one in (pane, other):
                one.until("no daemon", gone=True)
            assert daemon_of(pane.home).pid != killed.pid
            view = pane.group("standard")
            assert (view["pid"], view["adopted"]) == (pid, True)
            # Another process carries the answers: none of them noticed.
            until(lambda: pane.endpoint()["state"] == "up", "the endpoint's link")
            assert pane.endpoint()["pid"] == proxy
            before = {row["request"] for row in (reads, *waiting)}
            until(
                lambda: before <= {row["request"] for row in pane.sessions()},
                "its rows, a second after the link",
            )
            for one in (pane, other):
                one.until_match(r"standard.*● ready")
            other.press("q")
            assert "ENDED 0" in other.until("ENDED")
        pane.press("J")
        pane.until("prefill stall began: 3 answers wait")


def test_a_crash_and_the_way_back() -> None:
    """The second engine's scheduler raises: what happened is said, and that it is back."""
    with DemoPane("crash", size=LARGE, speed=8.0) as pane:
        pane.ready()
        first = pane.group("long")["pid"]
        pane.until_match(r"long +▲ exit \d+.*GPU fault")
        pane.until_match(r"long.*◐ starting")
        pane.ready()
        assert pane.group("long")["pid"] not in {first, None}
        pane.keys("Enter")
        pane.until_match(r"crashes +1")
        assert pane.group("standard")["crashes"] == 0


def test_a_lost_card_costs_its_group_and_no_other() -> None:
    """Card 5 falls off the bus: it is shown as lost, its neighbours go on being read."""
    with DemoPane("lost-card", size=LARGE, speed=8.0) as pane:
        pane.ready()
        text = pane.until_match(r"^ +5  3090 ·\w+ +✗ LOST")
        assert len(re.findall(r"^ +\d  3090 .* / 350 ", text, re.MULTILINE)) == 7
        text = pane.until_match(r"long.*✗ FAILED")
        assert re.search(r"standard.*● ready", text)
        assert "card 5" in text


def test_a_leftover_is_named_and_ended_before_the_cards_are_called_free() -> None:
    """One process of the freed engine leaves its session: it is named, ended, then 4 of 4 free."""
    with DemoPane("leftover", size=LARGE, speed=8.0) as pane:
        pane.ready()
        time.sleep(1.5)
        pane.confirm("F", "free long")
        text = pane.until_match(r"leftovers of a past engine: \d+")
        assert "4 of 4" not in text
        (pid,) = re.findall(r"leftovers of a past engine: (\d+)", text)
        left = psutil.Process(int(pid))
        pane.until("4 of 4 cards free")
        assert not alive(left)


def test_kill_9_of_the_demo_leaves_nothing() -> None:
    """Its world, daemon, engines and folder end with it, though nobody could clean up."""
    with DemoPane("quiet", size=SMALL, speed=8.0, lend_home=False) as pane:
        pane.ready()
        home = pane.find_home()
        assert Path(home).is_dir()
        everything = running_for(home)
        assert len(everything) >= 2 + 2 * 5
        (demo,) = (one for one in pane.programs() if {"rigctl", "demo"} <= set(one.cmdline()))
        demo.kill()
        until(lambda: not [one for one in everything if alive(one)], "the end of it all")
        until(lambda: not Path(home).exists(), "the folder's end")
