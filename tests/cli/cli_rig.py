"""A rig for the command line's tests: the project's own control server, with a scripted daemon.

The socket, the protocol, its checks and the encoding are the real ones; only the decisions behind
them are a script, so that a test can say what the daemon answers and when.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rigctl.control import wire
from rigctl.core.commands import Accepted, Answer, Command, Refused
from rigctl.core.ids import OperationId
from rigctl.core.snapshot import JournalEntry, OperationView, Snapshot
from rigctl.daemon.link import LinkConnection
from rigctl.daemon.mailbox import Broadcast
from rigctl.daemon.route_ring import RouteRing
from rigctl.daemon.server import ControlServer

Script = Callable[["ScriptedRig", Command], Answer]
"""What the daemon does with a command; runs in the server's thread."""


class ScriptedRig:
    """Holds a snapshot, publishes it when it changes, and answers commands by its script."""

    version = "0.1.0"
    epoch = "e1"

    def __init__(self, snapshot: Snapshot, script: Script) -> None:
        self.snapshot = snapshot
        self.asked: list[Command] = []
        self.entries: list[JournalEntry] = []
        self.logs: dict[tuple[str, int], Path] = {}
        self.routes = RouteRing()
        self._script = script
        self.broadcast = Broadcast()
        self._loop = asyncio.new_event_loop()
        self._publish()

    # What the control server asks -----------------------------------------------------------

    def looked(self) -> None:
        """The script's snapshot is always of now."""

    async def command(self, command: Command, uid: int) -> Answer:
        self.asked.append(command)
        return self._script(self, command)

    def journal(self, after: int, limit: int) -> Sequence[JournalEntry]:
        return [entry for entry in self.entries if entry.seq > after][-limit:]

    def history(self, seconds: float) -> Mapping[str, Any]:
        return {"step": 2.0, "end": 0.0, "series": {}}

    def log_path(self, group: str, previous: int) -> Path | None:
        return self.logs.get((group, previous))

    def open_link(self, line: bytes, pid: int) -> LinkConnection:
        """No proxy comes to a script."""
        raise wire.WireError("this rig is a script", "busy")

    # What a script does ---------------------------------------------------------------------

    def show(self, **changes: Any) -> None:
        """Publish the snapshot with these fields changed."""
        self.snapshot = replace(self.snapshot, seq=self.snapshot.seq + 1, **changes)
        self._publish()

    def operation(self, view: OperationView) -> None:
        """Publish an operation, in place of an earlier state of it."""
        others = [each for each in self.snapshot.operations if each.id != view.id]
        self.show(operations=(*others, view))

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Do it after a while, in the server's thread."""
        self._loop.call_later(seconds, do)

    def soon(self, do: Callable[[], None]) -> None:
        """From a test's thread: do it in the server's."""
        self._loop.call_soon_threadsafe(do)

    def _publish(self) -> None:
        self.broadcast.publish(wire.encode_snapshot(self.snapshot))

    def commands(self, kind: type) -> list[Any]:
        """What was asked of this kind."""
        return [command for command in self.asked if isinstance(command, kind)]


def accept(rig: ScriptedRig, command: Command) -> Answer:
    """Every command is accepted as operation 1 and done at once."""
    return ends("done", "done")(rig, command)


def ends(
    state: str, say: str, *, after: float = 0.1, kind: str = "free", **figures: float
) -> Script:
    """Accept a command, show it running, and let it end so."""

    def script(rig: ScriptedRig, command: Command) -> Answer:
        view = OperationView(
            id=1,
            kind=kind,
            group=getattr(command, "group", None) or "",
            asked_by="tester",
            seconds=0.0,
            state="running",
            say="2 answers finish",
        )
        rig.operation(view)
        rig.later(
            after, lambda: rig.operation(replace(view, state=state, say=say, figures=figures))
        )
        return Accepted(OperationId(1), f"{kind} accepted")

    return script


def refuse(say: str, code: str = "refused") -> Script:
    """Every command is refused."""
    return lambda rig, command: Refused(say, code)


@contextmanager
def serving(home: Path, snapshot: Snapshot, script: Script = accept) -> Iterator[ScriptedRig]:
    """The rig on the home's own socket, in a thread, until the block is left."""
    rig = ScriptedRig(snapshot, script)
    state = home / "state"
    state.mkdir(parents=True, exist_ok=True)
    server = ControlServer(rig, state / "rigctl.sock")
    loop = rig._loop

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    try:
        yield rig
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def until(true: Callable[[], bool], what: str, patience: float = 10.0) -> None:
    """Wait for something to become true; fail with its name."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen within {patience:.0f} s"
        time.sleep(0.02)
