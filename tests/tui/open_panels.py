"""A panel under a test's hands, as the fixture `open_panel` gives it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from sample_rig import SampleRig
from textual.pilot import Pilot

from rigctl.tui.app import Panel


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
