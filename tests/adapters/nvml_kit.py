"""A reader over the fake library, for the tests of what it makes of sick cards and sessions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from rigctl.adapters.nvml import NvmlReader
from rigctl.core.cards import CardSample
from rigctl.sim import cardfile, gpus
from rigctl.sim.cardfile import rtx_3090s


class Rig:
    """A reader over a card file, with a clock of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 1000.0
        self.places: list[str] = []
        self.table = rtx_3090s(watts=110.0, pstate=2, utilisation=50)
        self.write()
        self.fake = gpus.install(path)
        self.reader = NvmlReader(
            clock=lambda: self.now,
            versions=lambda: (self.table.driver, self.table.library),
            mark=self.places.append,
        )

    def write(self) -> None:
        cardfile.write(self.path, self.table)

    def set(self, **changes: Any) -> None:
        """Change the driver's side of the table."""
        self.table = replace(self.table, **changes)
        self.write()

    def card(self, index: int, **changes: Any) -> None:
        """Change one card."""
        cards = list(self.table.cards)
        cards[index] = replace(cards[index], **changes)
        self.set(cards=tuple(cards))

    def sample(self, **how: Any) -> tuple[CardSample, ...]:
        return self.reader.sample(**how).cards


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Eight busy cards; the binding is given back its own library afterwards."""
    made = Rig(tmp_path / "cards.json")
    yield made
    made.reader.close()
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()
