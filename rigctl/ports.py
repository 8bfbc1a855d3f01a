"""What the daemon needs from the world, and what clients need from the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from rigctl.core.cards import GpuSweep
from rigctl.core.commands import Answer, Command
from rigctl.core.flow import RouteRecord
from rigctl.core.ids import CardId, Mono, ProcessIdentity, Wall
from rigctl.core.snapshot import JournalEntry, Snapshot


class Clock(Protocol):
    """The two clocks, so that a test can hold both."""

    def now(self) -> Mono: ...
    def wall(self) -> Wall: ...


class GpuSource(Protocol):
    """NVML behind one blocking call, made in the worker process; never raises for a sick card."""

    def sample(self, cheap: bool = False) -> GpuSweep:
        """One sweep; `cheap` leaves out the questions that themselves wake idle cards (C82)."""
        ...

    def set_power_limit(self, card: CardId, watts: float) -> str:
        """Empty when done, else what the driver said."""
        ...


class Gpus(Protocol):
    """The worker seen from the daemon: at most one alive, at most one question outstanding."""

    async def sample(self, cheap: bool = False) -> GpuSweep:
        """The newest sweep; when the worker does not answer, the last one with `answered` False.

        `cheap` leaves out the questions that themselves wake idle cards (C82).
        """
        ...

    async def set_power_limit(self, card: CardId, watts: float) -> str: ...
    async def release(self, seconds: float) -> None:
        """End the worker, so that no handle on /dev/nvidia* is open, for that long (C89)."""
        ...

    async def close(self) -> None: ...


class Launcher(Protocol):
    """Starts, finds, watches and ends engine processes; knows no state machine."""

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], log: str, token: str
    ) -> ProcessIdentity:
        """Start in its own session, output appended to the file `log`. OSError says why not."""
        ...

    def members(self, identity: ProcessIdentity) -> tuple[int, ...]:
        """Living pids (not zombies) of that session, its leader's identity re-checked."""
        ...

    def signal(self, identity: ProcessIdentity, number: int) -> tuple[int, ...]:
        """Signal every re-identified member of the session through pidfds; the pids signalled."""
        ...

    def alive(self, identity: ProcessIdentity) -> bool: ...


class RigClient(Protocol):
    """The only thing panel and command line hold: over the socket, or in-process for tests."""

    def snapshots(self) -> AsyncIterator[Snapshot]: ...
    def journal(self, after: int = 0) -> AsyncIterator[JournalEntry]: ...
    def log(self, group: str, lines: int, follow: bool, previous: int) -> AsyncIterator[str]: ...
    def routes(self, limit: int = 50, *, follow: bool = False) -> AsyncIterator[RouteRecord]: ...
    async def history(self, seconds: float) -> Mapping[str, Any]: ...
    async def send(self, command: Command) -> Answer: ...
    async def close(self) -> None: ...
