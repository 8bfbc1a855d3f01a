"""The thread that everything simulated hangs on: a connection to the world that ends with it."""

from __future__ import annotations

import asyncio
import contextlib


async def gone(path: str) -> None:
    """Return when the world that listens at `path` is gone, or was never there."""
    await _watch(path, b'{"do":"watch"}\n')


async def hold(path: str) -> None:
    """The same for a process that is part of the simulation: the world ends it with itself."""
    await _watch(path, b'{"do":"hold"}\n')


async def _watch(path: str, greeting: bytes) -> None:
    try:
        reader, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            writer.write(greeting)
            while await reader.read(4096):
                pass
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
