"""The NVML worker of a daemon over simulated cards, for the tests of its troubles."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rigctl.adapters.gpus import GpuWorker, Patience
from rigctl.core.cards import GpuSweep
from rigctl.sim import cardfile
from rigctl.sim.cardfile import CardTable, rtx_3090s

POWER = "nvmlDeviceGetPowerUsage"

QUICK = Patience(
    tick=0.15, answer=0.8, init=20.0, leave=0.4, probation=30.0, hardened=60.0, stuck_init=1.0
)


class Rig:
    """A card file, a worker over it, and a clock that can be set ahead."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ahead = 0.0
        self.table = rtx_3090s(watts=110.0, pstate=2)
        self.write(self.table)
        self.gpus = self.worker()

    def worker(self, **patience: float) -> GpuWorker:
        argv = [sys.executable, "-m", "rigctl.sim.nvml_worker", str(self.path)]
        return GpuWorker(argv, patience=replace(QUICK, **patience), clock=self.clock)

    def clock(self) -> float:
        return time.monotonic() + self.ahead

    def write(self, table: CardTable) -> None:
        self.table = table
        cardfile.write(self.path, table)

    def card(self, index: int, **changes: Any) -> None:
        cards = list(self.table.cards)
        cards[index] = replace(cards[index], **changes)
        self.write(replace(self.table, cards=tuple(cards)))

    async def replace_worker(self, **patience: float) -> None:
        """Go on with a worker of other patience."""
        await self.gpus.close()
        self.gpus = self.worker(**patience)

    async def answered(self) -> GpuSweep:
        """Sample until the worker answers."""
        return await self.until(lambda sweep: sweep.answered)

    async def until(self, wanted: Any) -> GpuSweep:
        """Sample as the daemon does, until a sweep is as wanted."""
        async with asyncio.timeout(30):
            while True:
                sweep = await self.gpus.sample()
                if wanted(sweep):
                    return sweep
                await asyncio.sleep(0.02)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """Eight cards and their worker, which is gone after the test."""
    made = Rig(tmp_path / "cards.json")
    yield made
    await made.gpus.close()


def children() -> set[int]:
    """Living children of this process that are NVML workers."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {
        int(pid)
        for pid in text.split()
        if b"nvml_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }
