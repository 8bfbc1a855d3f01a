"""Our own proxy in front of the bench's engines, with everything on that it has.

It serves by a table in its home, as it does while the daemon is away: two groups, full routing,
session table, metrics, explanations and its log.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rigctl.bench.relay_frames import MODEL
from rigctl.bench.relay_peers import Relay, await_answer, running
from rigctl.bench.relay_plan import MEMORY_LIMIT, OURS
from rigctl.config.paths import find_home
from rigctl.control import link_wire
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import Table, TableGroup, TablePolicy

WINDOWS = {"standard": 262_144, "long": 524_288}
POOL = 100_000_000
"""Tokens. Beyond need, as the slots are: what waits is not measured here."""
SLOTS = 16


def table(engines: Sequence[int]) -> Table:
    """Two ready groups on those ports."""
    groups = tuple(
        TableGroup(
            name=GroupName(name),
            host="127.0.0.1",
            port=port,
            model=MODEL,
            state="ready",
            gate="open",
            run="bench",
            window=window,
            pool=POOL,
            slots=SLOTS,
            session_radix=True,
            strict_thinking=True,
            think_budget=5_000,
        )
        for (name, window), port in zip(WINDOWS.items(), engines, strict=True)
    )
    policy = TablePolicy(
        model=MODEL, order=tuple(group.name for group in groups), memory_limit=MEMORY_LIMIT
    )
    return Table("bench", 1, Mono(time.monotonic()), groups, policy)


@contextlib.contextmanager
def ours(folder: Path, engines: Sequence[int]) -> Iterator[Relay]:
    """The proxy, answering; it ends with the block. PeerMissingError when it does not come up."""
    home = find_home(str(folder))
    for place in (home.state, home.logs):
        place.mkdir(parents=True, exist_ok=True)
    home.table.write_bytes(link_wire.encode(table(engines)))
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        port = listener.getsockname()[1]
        argv = [
            *(sys.executable, "-P", "-m", "rigctl.proxy.main", "--home", str(folder)),
            *("--listen-fd", str(listener.fileno())),
        ]
        with running(argv, folder, os.environ, (listener.fileno(),)) as process:
            await_answer(OURS, port, process, folder / "output")
            yield Relay(OURS, (port,), process.pid)
