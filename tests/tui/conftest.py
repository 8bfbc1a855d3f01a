"""A fixed time zone, and panels on sample rigs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest
from sample_rig import SampleRig
from textual.pilot import Pilot

from rigctl.core.snapshot import Snapshot
from rigctl.tui.app import Panel
from rigctl.tui.glyphs import UNICODE, Glyphs


@dataclass
class Opened:
    """A panel under a test's hands."""

    rig: SampleRig
    panel: Panel
    pilot: Pilot[int]

    @property
    def rows(self) -> list[str]:
        """The screen on top as text, row by row."""
        strips = self.panel.screen._compositor.render_strips()
        return [strip.text for strip in strips]

    @property
    def text(self) -> str:
        """The same in one piece."""
        return "\n".join(self.rows)

    async def until(self, told: Callable[[], bool], what: str) -> None:
        """Let the panel work until that is so."""
        for _ in range(200):
            await self.pilot.pause(0.01)
            if told():
                return
        raise AssertionError(f"{what} did not happen; on the screen:\n{self.text}")

    async def until_text(self, text: str) -> None:
        """Let the panel work until it shows that."""
        await self.until(lambda: text in self.text, f"{text!r}")


OpenPanel = Callable[..., AbstractAsyncContextManager[Opened]]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks read 20:14 on every machine."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def open_panel() -> OpenPanel:
    """`async with open_panel(snapshot, size=(120, 36)) as opened:`"""

    @asynccontextmanager
    async def opened(
        snapshot: Snapshot,
        size: tuple[int, int] = (120, 36),
        *,
        read_only: bool = False,
        theme: str | None = None,
        glyphs: Glyphs = UNICODE,
        keys: dict[str, str] | None = None,
    ) -> AsyncIterator[Opened]:
        rig = SampleRig(snapshot)
        panel = Panel(rig.client, read_only=read_only, theme=theme, glyphs=glyphs, keys=keys)
        async with panel.run_test(size=size) as pilot:
            made = Opened(rig, panel, pilot)
            await made.until(lambda: panel.state.snapshot is not None, "a first snapshot")
            await pilot.pause()
            yield made

    return opened
