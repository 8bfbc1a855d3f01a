"""The daemon's end of the control socket: answers clients, lets only the owner act."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, cast

from rigctl.adapters.acceptor import Acceptor
from rigctl.control import wire
from rigctl.control.address import listen, peer
from rigctl.core.commands import Answer, Refused
from rigctl.daemon.log_stream import log_lines
from rigctl.daemon.server_backend import Backend

_log = logging.getLogger(__name__)

CONNECTIONS = 128
"""More of one user at once are turned away: somebody's loop, not people, and not the owner's."""

_WAITING_LINES = 8
"""Questions one connection may have waiting before we stop reading from it."""

_MOST_LINES = 64
"""Waiting questions of one connection that asks without reading: more, and it is cut off."""

_SEND_BUFFER = 32 * 1024
"""Bytes the kernel holds for one client: a slow one is then few snapshots behind, not twenty."""

_QUESTIONS = ("snapshot", "watch", "act", "journal", "log", "history", "routes", "hello", "link")


class ControlServer:
    """Listens on the home's socket. A client that does not read holds up nobody but itself."""

    def __init__(
        self,
        backend: Backend,
        path: Path,
        *,
        allowed: Collection[int] | None = None,
        group: int | None = None,
        redact: Callable[[str], str] = lambda line: line,
    ) -> None:
        """`allowed` are the uids that may act (else: our own and root's); `redact` sees each log
        line before a client does; `group` opens the socket (0660) to readers of that gid."""
        self.backend = backend
        self.redact = redact
        self._path = path
        self._group = group
        self._allowed = frozenset({os.getuid(), 0} if allowed is None else allowed)
        self._connections: set[_Connection] = set()
        self._acceptor: Acceptor | None = None
        self._inode: int | None = None
        self._closing = False

    async def start(self) -> None:
        """Bind and serve. SocketTaken when another daemon answers there."""
        self._acceptor = Acceptor(listen(self._path, self._group), lambda: _Connection(self))
        self._inode = os.lstat(self._path).st_ino

    async def close(self) -> None:
        """Stop listening, let answers that are out reach those who read, drop the rest."""
        self._closing = True
        if self._acceptor is not None:
            await self._acceptor.close()
        with contextlib.suppress(FileNotFoundError):
            if os.lstat(self._path).st_ino == self._inode:  # not a successor's
                os.unlink(self._path)
        # The answer to `stop-daemon` itself may be on its way just now.
        for _ in range(50):
            if not any(connection.answering for connection in self._connections):
                break
            await asyncio.sleep(0.01)
        open_now = list(self._connections)
        for connection in open_now:
            connection.finish()
        for _ in range(20):
            if not self._connections:
                break
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*(c.task for c in open_now if c.task), return_exceptions=True)

    def may_act(self, uid: int) -> bool:
        return uid in self._allowed

    @property
    def closing(self) -> bool:
        """Whether it has begun to end: who comes now is let go, and finds the next daemon."""
        return self._closing

    def enter(self, connection: _Connection) -> bool:
        """Take a connection in; False when its user has too many."""
        if sum(each.uid == connection.uid for each in self._connections) >= CONNECTIONS:
            return False
        self._connections.add(connection)
        return True

    def leave(self, connection: _Connection) -> None:
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    """One client: its questions in order, one at a time; a stream ends with the connection."""

    def __init__(self, server: ControlServer) -> None:
        self._server = server
        self._backend = server.backend
        self._transport: asyncio.Transport | None = None
        self.uid = -1
        self._pid = -1
        self._read_only = True
        self._buffer = b""
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._writable = asyncio.Event()
        self._writable.set()
        self._streaming = False
        self._asked = False
        self._linked = False
        """Whether it became a proxy's link and is no client's any more."""
        self.task: asyncio.Task[None] | None = None

    @property
    def answering(self) -> bool:
        """Whether a question with an end is being answered."""
        return self._asked and not self._streaming

    # What the transport calls ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because uvloop's transports are of no asyncio class.
        self._transport = transport = cast("asyncio.Transport", transport)
        number = transport.get_extra_info("socket").fileno()
        # A handle of our own: uvloop's stand-in for the socket has no getsockopt.
        with socket.socket(fileno=os.dup(number)) as sock:
            self._pid, self.uid = peer(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._read_only = not self._server.may_act(self.uid)
        transport.set_write_buffer_limits(high=0)
        if self._server.closing:
            transport.abort()
            return
        if not self._server.enter(self):
            transport.write(wire.error("too many clients; close some panels", "busy"))
            transport.close()
            return
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if self._lines.qsize() >= _MOST_LINES:
                self.abort()
                return
            if line.strip():
                self._lines.put_nowait(line)
        if len(self._buffer) > wire.REQUEST_LIMIT:
            self._buffer = b""
            self._lines.put_nowait(b"x" * (wire.REQUEST_LIMIT + 1))
        if self._lines.qsize() > _WAITING_LINES and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """A client that closed its side gets what it asked for; a stream has no reader then."""
        if self._streaming and self.task is not None:
            self.task.cancel()
            return False
        self._lines.put_nowait(None)
        return True

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self._server.leave(self)
        self._writable.set()
        if self.task is not None:
            self.task.cancel()

    def finish(self) -> None:
        """Close once what was written has gone out."""
        if self.task is not None:
            self.task.cancel()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Answering ------------------------------------------------------------------------------

    async def _serve(self) -> None:
        assert self._transport is not None
        try:
            while not self._linked and (line := await self._lines.get()) is not None:
                if self._lines.qsize() <= _WAITING_LINES:
                    self._transport.resume_reading()
                self._asked = True
                try:
                    await self._answer(line)
                except wire.WireError as error:
                    await self._send(wire.error(error.say, error.code))
                    if error.code == "too-long":
                        break
                except ConnectionResetError:
                    break
                except Exception:
                    _log.exception("a client's question failed: %.200r", line)
                    say = "rigctl failed at this question; see `rigctl logs daemon`"
                    await self._send(wire.error(say, "internal"))
                finally:
                    self._asked = False
        except ConnectionResetError:
            pass
        finally:
            if not self._linked:
                self._transport.close()

    async def _send(self, line: bytes) -> None:
        """Write one line as soon as the client has taken those before it."""
        await self._writable.wait()
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client has gone")
        self._transport.write(line)

    async def _answer(self, raw: bytes) -> None:
        if len(raw) > wire.REQUEST_LIMIT:
            raise wire.WireError(
                f"a question is at most {wire.REQUEST_LIMIT} bytes long", "too-long"
            )
        asked = wire.message(raw)
        match asked.get("do"):
            case "hello":
                await self._send(
                    wire.hello(self._backend.version, self._backend.epoch, self._read_only)
                )
            case "snapshot":
                await self._snapshot()
            case "watch":
                await self._watch()
            case "act":
                await self._send(wire.encode_answer(await self._act(asked)))
            case "journal":
                await self._journal(asked)
            case "log":
                async with self._stream(bool(asked.get("follow"))):
                    await self._log(asked)
            case "routes":
                async with self._stream(bool(asked.get("follow"))):
                    await self._routes(asked)
            case "link":
                self._link(raw)
            case "history":
                seconds = wire.number(asked, "seconds", 900)
                await self._send(wire.history(self._backend.history(seconds)))
            case other:
                raise wire.WireError(
                    f"there is no question `{other}`: {wire.nearest(str(other), _QUESTIONS)}"
                )

    @contextlib.asynccontextmanager
    async def _stream(self, endless: bool = True) -> AsyncIterator[None]:
        """From here on the client's closing of its side ends the connection."""
        self._streaming = endless
        try:
            yield
        finally:
            self._streaming = False

    def _mine(self, snapshot_line: bytes) -> bytes:
        return wire.for_reader(snapshot_line) if self._read_only else snapshot_line

    async def _snapshot(self) -> None:
        self._backend.looked()
        latest = self._backend.broadcast.latest
        if latest is None:
            # The first sweep is under way; a client that waits for it hurries the pollers too.
            mailbox = self._backend.broadcast.subscribe()
            try:
                await mailbox.wait()
                latest = mailbox.take()
            finally:
                self._backend.broadcast.unsubscribe(mailbox)
        if latest is not None:
            await self._send(self._mine(latest))

    async def _watch(self) -> None:
        mailbox = self._backend.broadcast.subscribe()
        try:
            async with self._stream():
                while True:
                    await mailbox.wait()
                    # First room, then the line: what is sent is the newest at that moment.
                    await self._writable.wait()
                    newest = mailbox.take()
                    if newest is not None:
                        await self._send(self._mine(newest))
        finally:
            self._backend.broadcast.unsubscribe(mailbox)

    async def _act(self, asked: Mapping[str, Any]) -> Answer:
        command = wire.decode_command(asked.get("command"), asked.get("args"))
        if self._read_only:
            return Refused(
                "this rig belongs to another user: you may look, not act; run the command as "
                f"uid {os.getuid()} (`sudo -u '#{os.getuid()}' rigctl …`)",
                "not-allowed",
            )
        return await self._backend.command(command, self.uid)

    def _link(self, raw: bytes) -> None:
        """From here on the connection is a proxy's link, with all that came behind its hello."""
        if self._read_only:
            raise wire.WireError("this rig belongs to another user", "not-allowed")
        assert self._transport is not None
        link = self._backend.open_link(raw, self._pid)
        self._linked = True
        self._server.leave(self)
        self._transport.set_protocol(link)
        self._transport.resume_reading()
        link.connection_made(self._transport)
        behind = []
        while not self._lines.empty():
            line = self._lines.get_nowait()
            behind.append(b"" if line is None else line + b"\n")
        link.data_received(b"".join(behind) + self._buffer)

    async def _routes(self, asked: Mapping[str, Any]) -> None:
        limit = int(wire.number(asked, "limit", 50))
        ring = self._backend.routes
        follower = ring.follow() if asked.get("follow") else None
        try:
            for record in ring.newest(limit):
                await self._send(wire.route(record))
            while follower is not None:
                await self._send(wire.route(await follower.take()))
        finally:
            if follower is not None:
                ring.unfollow(follower)
        await self._send(wire.end())

    async def _journal(self, asked: Mapping[str, Any]) -> None:
        after = int(wire.number(asked, "after", 0))
        limit = int(wire.number(asked, "limit", 200))
        if not asked.get("follow"):
            for entry in self._backend.journal(after, limit):
                await self._send(wire.journal(entry))
            await self._send(wire.end())
            return
        queue = self._backend.broadcast.follow()
        try:
            async with self._stream():
                for entry in self._backend.journal(after, limit):
                    await self._send(wire.journal(entry))
                    after = entry.seq
                while True:
                    got = await queue.take()
                    if isinstance(got, int):
                        await self._send(wire.gap(got))
                    elif got.seq > after:
                        after = got.seq
                        await self._send(wire.journal(got))
        finally:
            self._backend.broadcast.unfollow(queue)

    async def _log(self, asked: Mapping[str, Any]) -> None:
        group = str(asked.get("group", ""))
        previous = int(wire.number(asked, "previous", 0))
        path = self._backend.log_path(group, previous)
        if path is None:
            raise wire.WireError(f"there is no group `{group}`; see `rigctl status`", "no-group")
        count = int(wire.number(asked, "lines", 200))
        try:
            async for text in log_lines(path, count, bool(asked.get("follow"))):
                await self._send(wire.log(self._server.redact(text)))
        except FileNotFoundError:
            which = "this run" if previous == 0 else f"run -{previous}"
            raise wire.WireError(
                f"`{group}` has no log of {which} at {path}; it may never have been started "
                f"(`rigctl start {group}`)",
                "no-log",
            ) from None
        await self._send(wire.end())
