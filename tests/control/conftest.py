"""A served rig and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from served_rig import Loop

from rigctl.control.client import SocketClient
from rigctl.daemon.server import ControlServer


@pytest.fixture
def loop(tmp_path: Path) -> Loop:
    return Loop(tmp_path)


@pytest.fixture
async def server(loop: Loop, tmp_path: Path) -> AsyncIterator[ControlServer]:
    made = ControlServer(
        loop, tmp_path / "s", redact=lambda line: line.replace("sk-secret", "[key]")
    )
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def client(server: ControlServer, tmp_path: Path) -> AsyncIterator[SocketClient]:
    async with SocketClient(tmp_path / "s") as made:
        yield made
