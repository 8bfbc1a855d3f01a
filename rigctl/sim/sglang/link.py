"""The engine's line to the world: it reports what its cards do, and ends when the world is gone."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from rigctl.sim.world import Duty


class WorldLink:
    """Reports on change only; commands of a scene come back on the same line."""

    def __init__(self, path: str, schedulers: Callable[[], list[int]]) -> None:
        self._path = path
        self._schedulers = schedulers
        self._writer: asyncio.StreamWriter | None = None
        self._duty = Duty.OFF
        self._bytes = 0
        self._last = ""

    async def connect(self) -> asyncio.StreamReader | None:
        """Open the line; None where there is no world. OSError when it does not answer."""
        if not self._path:
            return None
        reader, self._writer = await asyncio.open_unix_connection(self._path)
        return reader

    async def listen(
        self, reader: asyncio.StreamReader, command: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """Hand commands on until the world is gone, then return."""
        while line := await reader.readline():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                command(row)

    def duty(self, duty: Duty) -> None:
        """What the cards are made to do now."""
        if duty is not self._duty:
            self._duty = duty
            self._send()

    def memory(self, held: int) -> None:
        """Bytes each scheduler holds on its card."""
        self._bytes = held
        self._send()

    def _send(self) -> None:
        if self._writer is None:
            return
        line = json.dumps(
            {
                "do": "report",
                "pid": os.getpid(),
                "schedulers": self._schedulers(),
                "cards": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
                "duty": self._duty.name,
                "bytes": self._bytes,
            }
        )
        if line != self._last:
            self._last = line
            self._writer.write(line.encode() + b"\n")
