"""A fixed time zone, and panels on sample rigs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from open_panels import Opened, OpenPanel
from sample_rig import SampleRig

from rigctl.core.snapshot import Snapshot
from rigctl.tui.app import Panel
from rigctl.tui.glyphs import UNICODE, Glyphs


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
