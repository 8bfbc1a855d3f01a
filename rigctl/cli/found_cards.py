"""The cards for verbs that work without a daemon: as the daemon sees them, else NVML asked once."""

from __future__ import annotations

import sys
from typing import Any

from rigctl.cli.exits import End
from rigctl.cli.talk import NotRunning, snapshot
from rigctl.core.cards import CardSample
from rigctl.core.ids import CardId

PATIENCE = 20.0
"""Seconds for NVML's first answer; without persistence mode it needs 1.5 a card."""


def ask_daemon(socket: str) -> tuple[dict[str, Any] | None, str]:
    """The daemon's snapshot, or None and why there is none."""
    try:
        return snapshot(socket), ""
    except NotRunning:
        return None, "no daemon runs for this rig"
    except End as end:
        return None, end.say.splitlines()[0]


def cards_of(snap: dict[str, Any]) -> tuple[CardSample, ...]:
    """The cards in a snapshot, as far as a launch plan needs them."""
    return tuple(
        CardSample(CardId(card["uuid"]), card["index"], card["pci"], card["name"], card["lost"])
        for card in snap["cards"]
    )


def read_cards() -> tuple[tuple[CardSample, ...], str]:
    """The cards by NVML, asked in a process of its own; and why there are none, else empty."""
    import asyncio

    return asyncio.run(_read())


async def _read() -> tuple[tuple[CardSample, ...], str]:
    from rigctl.adapters.gpus import GpuWorker, Patience

    # One question that may take its time: there is no earlier sweep to show meanwhile.
    patience = Patience(tick=PATIENCE)
    worker = GpuWorker((sys.executable, "-m", "rigctl.adapters.nvml_worker"), patience=patience)
    try:
        sweep = await worker.sample()
    finally:
        await worker.close()
    return sweep.cards, sweep.error
