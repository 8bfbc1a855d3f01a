"""The clients' end of the control socket: asks, reads streams, says when the daemon is gone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rigctl.control import PROTOCOL, wire
from rigctl.control.address import connect
from rigctl.core.commands import Answer, Command
from rigctl.core.flow import RouteRecord
from rigctl.core.harmless import harmless_json
from rigctl.core.snapshot import JournalEntry, Snapshot

ANSWER_SECONDS = 15.0
"""A daemon that takes longer to answer a question is held to be gone."""

_READ = 256 * 1024


class LinkLost(ConnectionError):  # noqa: N818 - it is an event to its catchers, who reconnect
    """The daemon cannot be reached or has gone; the message says so and what to do."""


class RigError(Exception):
    """The daemon answered that it will not or cannot: `say` for people, `code` a stable word."""

    def __init__(self, say: str, code: str) -> None:
        super().__init__(say)
        self.say = say
        self.code = code


class SocketClient:
    """`ports.RigClient` over the home's socket. Every question and stream has a connection."""

    def __init__(self, path: Path, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._path = path
        self._answer_seconds = answer_seconds
        self._open: set[_Link] = set()

    async def hello(self, role: str = "client") -> Mapping[str, Any]:
        """The daemon's `protocol`, `rigctl` version, `epoch` and `read_only` for this client."""
        return await self._ask({"do": "hello", "protocol": PROTOCOL, "role": role}, "hello")

    async def snapshot(self) -> Snapshot:
        """The newest snapshot, once."""
        async with self._link({"do": "snapshot"}) as link:
            return wire.decode_snapshot(_checked(await self._in_time(link.line())))

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """Snapshots as they come, until LinkLost. A slow caller gets the newest, not a backlog."""
        async with self._link({"do": "watch"}) as link:
            while True:
                line = await link.newest()
                try:
                    snapshot = wire.decode_snapshot(_checked(line))
                except (wire.WireError, RigError) as error:
                    # Whoever follows snapshots waits and tries again, whatever the reason.
                    raise LinkLost(error.say) from error
                yield snapshot

    async def journal(
        self, after: int = 0, *, limit: int = 200, follow: bool = True
    ) -> AsyncIterator[JournalEntry]:
        """Entries with a higher number than `after`, then new ones as they happen.

        Where a slow caller lost some, an entry of kind `gap` with number 0 says how many.
        """
        question = {"do": "journal", "after": after, "limit": limit, "follow": follow}
        async with self._link(question) as link:
            async for fields in link.messages():
                if fields["kind"] == "gap":
                    missed = int(fields["missed"])
                    say = f"{missed} entries were missed; `rigctl journal` has them"
                    yield JournalEntry(0, time.time(), "", "gap", say, {"missed": missed})
                else:
                    yield wire.decode_journal(fields)

    async def log(
        self, group: str, lines: int = 200, follow: bool = False, previous: int = 0
    ) -> AsyncIterator[str]:
        """The last lines of a group's log, then with `follow` the new ones. RigError: no log."""
        question = {
            "do": "log",
            "group": group,
            "lines": lines,
            "follow": follow,
            "previous": previous,
        }
        async with self._link(question) as link:
            async for fields in link.messages():
                yield str(fields["line"])

    async def routes(self, limit: int = 50, *, follow: bool = False) -> AsyncIterator[RouteRecord]:
        """The endpoint's newest decisions, oldest first; with `follow` new ones as they come.

        One that took a while comes twice, the second time with its status.
        """
        question = {"do": "routes", "limit": limit, "follow": follow}
        async with self._link(question) as link:
            async for fields in link.messages():
                yield wire.decode_route(fields)

    async def history(self, seconds: float) -> Mapping[str, Any]:
        """`step`, `end` (wall time) and `series` of the last seconds."""
        return await self._ask({"do": "history", "seconds": seconds}, "history")

    async def send(self, command: Command) -> Answer:
        """What the daemon says to a command: accepted or refused, never a silent failure."""
        return wire.decode_answer(await self._ask(wire.encode_command(command), "answer"))

    async def close(self) -> None:
        """Close every connection; streams under way end with LinkLost."""
        for link in list(self._open):
            link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _ask(self, question: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
        async with self._link(question) as link:
            fields = wire.message(await self._in_time(link.line()))
        _raise_error(fields)
        if fields.get("kind") != kind:
            raise RigError(f"the daemon answered with `{fields.get('kind')}`", "version")
        return fields

    async def _in_time(self, answer: Awaitable[bytes]) -> bytes:
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await answer
        except TimeoutError:
            raise LinkLost(
                f"the daemon at {self._path} has not answered for {self._answer_seconds:.0f} s; "
                "look at `rigctl logs daemon`, then `rigctl daemon stop`; engines go on"
            ) from None

    @contextlib.asynccontextmanager
    async def _link(self, question: Mapping[str, Any]) -> AsyncIterator[_Link]:
        link = _Link(self._path)
        self._open.add(link)
        try:
            await link.ask(question)
            yield link
        except OSError as error:
            if isinstance(error, LinkLost):
                raise
            raise LinkLost(f"the daemon at {self._path} has gone: {error}") from error
        finally:
            self._open.discard(link)
            link.close()


class _Link:
    """One connection that carries one question."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._buffer = bytearray()
        try:
            self._socket = connect(path, 5.0)
        except FileNotFoundError as error:
            raise LinkLost(
                f"no daemon runs for this rig (no socket at {path}); "
                "`rigctl daemon`, any act or the panel starts one"
            ) from error
        except ConnectionRefusedError as error:
            raise LinkLost(
                f"the daemon of this rig has ended (nobody answers at {path}); "
                "`rigctl daemon`, any act or the panel starts one"
            ) from error
        except PermissionError as error:
            raise LinkLost(
                f"this rig belongs to another user, who has not opened {path} to you"
            ) from error
        except OSError as error:
            raise LinkLost(f"the daemon at {path} does not answer: {error}") from error
        self._socket.setblocking(False)
        self._closed = False
        self._receiving = False

    async def ask(self, question: Mapping[str, Any]) -> None:
        """Send the question; a daemon that hung up first may have left a word to read."""
        with contextlib.suppress(BrokenPipeError):
            await asyncio.get_running_loop().sock_sendall(self._socket, wire.line(question))

    async def line(self) -> bytes:
        """The next line, without its end; its strings give a terminal no orders."""
        while (end := self._buffer.find(b"\n")) < 0:
            await self._receive()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return harmless_json(line)

    async def newest(self) -> bytes:
        """The newest whole line that has arrived; those before it are passed over."""
        await self._receive()
        while b"\n" not in self._buffer:
            await self._receive()
        whole, _, rest = bytes(self._buffer).rpartition(b"\n")
        self._buffer = bytearray(rest)
        return harmless_json(whole.rpartition(b"\n")[2])

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Messages until the daemon says the list has ended."""
        while True:
            fields = wire.message(await self.line())
            _raise_error(fields)
            if fields.get("kind") == "end":
                return
            yield fields

    async def _receive(self) -> None:
        self._check_open()
        self._receiving = True
        try:
            data = await asyncio.get_running_loop().sock_recv(self._socket, _READ)
        finally:
            self._receiving = False
            self._close_if_asked()
        self._check_open()
        if not data:
            raise LinkLost(
                f"the daemon closed the connection at {self._path}; "
                "if nobody stopped it, see `rigctl logs daemon`"
            )
        self._buffer += data
        if len(self._buffer) > wire.LINE_LIMIT:
            raise LinkLost(f"the daemon at {self._path} sent a line without end")

    def _check_open(self) -> None:
        if self._closed:
            raise LinkLost("this connection was closed here")

    def _close_if_asked(self) -> None:
        if self._closed:
            self._socket.close()

    def close(self) -> None:
        """Close; a read under way ends with LinkLost."""
        if self._closed:
            return
        self._closed = True
        if self._receiving:
            # Closing a socket that the loop waits on would leave the waiter waiting: end the
            # stream instead, and let the waiter close it.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        else:
            self._socket.close()


def _checked(line: bytes) -> bytes:
    """The line, unless it is the daemon's word that something is wrong."""
    if b'"kind":"error"' in line[:64]:
        _raise_error(wire.message(line))
    return line


def _raise_error(fields: Mapping[str, Any]) -> None:
    if fields.get("kind") == "error":
        raise RigError(str(fields.get("say", "")), str(fields.get("code", "error")))
