"""The link: a lost daemon is shown with its age and comes back by itself; panels do not disturb."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import samples
from open_panels import OpenPanel
from sample_rig import SampleRig

from rigctl.control.client import SocketClient
from rigctl.tui import app as panel_app
from rigctl.tui import link
from rigctl.tui.app import Panel


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait a second for each try."""
    monkeypatch.setattr(link, "RETRY_SECONDS", 0.05)


async def test_a_lost_daemon_is_shown_with_its_age(open_panel: OpenPanel) -> None:
    """The last figures stay, marked as old; acts say why they are off."""
    async with open_panel(samples.picture()) as opened:
        opened.rig.lose()
        await opened.until_text("no daemon, figures")
        assert "PREFILL STALL" in opened.text
        assert "no daemon answers on the socket" in opened.text
        await opened.pilot.press("r")
        await opened.until_text("the daemon is gone")


async def test_it_comes_back_by_itself(open_panel: OpenPanel) -> None:
    """A new daemon is found without a key; its word replaces the old."""
    async with open_panel(samples.picture()) as opened:
        opened.rig.lose()
        await opened.until_text("no daemon, figures")
        opened.rig.snapshot = samples.calm()
        opened.rig.come_back()
        await opened.until(lambda: not opened.panel.state.lost, "the reconnection")
        await opened.until_text("P8")
        assert "no daemon" not in opened.text


async def test_without_any_daemon_it_waits_in_words() -> None:
    """Started before the daemon: says so, says why, and shows the rig once it is there."""
    rig = SampleRig(samples.busy())
    rig.reachable = False
    panel = Panel(rig.client)
    async with panel.run_test(size=(100, 30)) as pilot:
        await pilot.pause(0.1)
        strips = panel.screen._compositor.render_strips()
        assert any("no daemon answers on the socket" in strip.text for strip in strips)
        rig.come_back()
        for _ in range(100):
            await pilot.pause(0.02)
            if panel.state.snapshot is not None:
                break
        assert panel.state.snapshot is not None
        assert not panel.state.lost


async def test_a_silent_daemon_counts_as_lost(
    open_panel: OpenPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that stands without a word is no better than none."""
    monkeypatch.setattr(panel_app, "SILENT_SECONDS", 0.0)
    async with open_panel(samples.busy()) as opened:
        opened.panel._listen()
        await opened.until_text("the daemon is connected but says nothing")


async def test_two_panels_see_the_same_rig_and_keep_their_own_marks() -> None:
    """What one asks the other sees; where one looks is its own affair."""
    rig = SampleRig(samples.foreign())
    first, second = Panel(rig.client), Panel(rig.client)
    async with first.run_test(size=(100, 30)) as pilot, second.run_test(size=(80, 24)) as other:
        await pilot.pause(0.05)
        await other.pause(0.05)
        await pilot.press("tab")
        assert (first.state.group, second.state.group) == ("standard", "long")
        await other.press("s")
        for _ in range(100):
            await pilot.pause(0.01)
            if first.state.snapshot and first.state.snapshot.operations:
                break
        assert first.state.snapshot is not None
        assert first.state.snapshot.operations[-1].group == "long"


async def test_only_the_newest_snapshot_waits() -> None:
    """A panel that is behind jumps to the newest: messages replace each other."""
    old = link.SnapshotArrived(samples.calm())
    new = link.SnapshotArrived(samples.busy())
    assert new.can_replace(old)
    assert not new.can_replace(link.LinkDown("x"))


async def test_ended_operations_of_before_are_no_news(open_panel: OpenPanel) -> None:
    """What ended before this panel opened is not announced as if it had just happened."""
    from rigctl.core.snapshot import OperationView

    old = OperationView(3, "free", "long", "anna", 7.9, "done", "4 of 4 cards free")
    async with open_panel(replace(samples.busy(), operations=(old,))) as opened:
        assert "4 of 4 cards free" not in opened.text
        await opened.pilot.press("enter", "G")
        await opened.until_text("4 of 4 cards free")


def said(panel: Panel) -> str:
    """The text on the screen."""
    return "\n".join(strip.text for strip in panel.screen._compositor.render_strips())


async def test_the_socket_client_without_a_daemon_says_what_to_do(tmp_path: Path) -> None:
    """The real client and no daemon: the panel shows its sentence, with the next command."""
    panel = Panel(lambda: SocketClient(tmp_path / "rigctl.sock"))
    async with panel.run_test(size=(120, 30)) as pilot:
        for _ in range(100):
            await pilot.pause(0.02)
            if panel.state.lost:
                break
        await pilot.pause()
        text = " ".join(said(panel).split())
        assert "no daemon runs for this rig" in text
        assert "starts one" in text
        for key in ("l", "escape", "J", "escape", "p"):
            await pilot.press(key)
            await pilot.pause(0.05)
        text = " ".join(said(panel).split())
        assert "no history: no daemon runs" in text


async def test_a_daemon_that_died_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a moment for a service manager the panel starts one itself, once, and says so."""
    monkeypatch.setattr(link, "REVIVE_SECONDS", (0.2, 60.0))
    rig = SampleRig(samples.busy())
    calls: list[int] = []

    def revive() -> str:
        calls.append(1)
        return "the daemon had died: started"

    panel = Panel(rig.client, revive=revive)
    async with panel.run_test(size=(100, 30)) as pilot:
        for _ in range(100):
            await pilot.pause(0.02)
            if panel.state.snapshot is not None:
                break
        assert not calls
        rig.lose()
        for _ in range(150):
            await pilot.pause(0.02)
            if panel.state.said is not None:
                break
        assert panel.state.said is not None
        assert panel.state.said.text == "the daemon had died: started"
        await pilot.pause(0.3)
        assert len(calls) == 1
