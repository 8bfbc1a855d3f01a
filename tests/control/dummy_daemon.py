"""A daemon's start in small: takes the home's lock, waits, then serves hello by the real server.

dummy_daemon.py STATE_FOLDER SECONDS_BEFORE_LISTENING
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rigctl.core.commands import Answer, Command, Refused
from rigctl.core.snapshot import JournalEntry
from rigctl.daemon.mailbox import Broadcast
from rigctl.daemon.server import ControlServer


class Nothing:
    """A rig with nothing in it."""

    version = "0.1.0"
    epoch = "e"

    def __init__(self) -> None:
        self.broadcast = Broadcast()

    def looked(self) -> None:
        """A single look needs no hurry here."""

    async def command(self, command: Command, uid: int) -> Answer:
        return Refused("nothing here")

    def journal(self, after: int, limit: int) -> Sequence[JournalEntry]:
        return ()

    def history(self, seconds: float) -> Mapping[str, Any]:
        return {}

    def log_path(self, group: str, previous: int) -> Path | None:
        return None


async def serve(state: Path) -> None:
    server = ControlServer(Nothing(), state / "rigctl.sock")
    await server.start()
    await asyncio.sleep(60)


def main() -> None:
    state = Path(sys.argv[1])
    lock = os.open(state / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("a daemon already runs")
    with (state / "served").open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(float(sys.argv[2]))
    asyncio.run(serve(state))


main()
