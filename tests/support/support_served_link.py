"""The daemon's end of the link in a test's hand: it sends the tables a test writes, and listens."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rigctl.control import address, link_wire
from rigctl.core.link_words import Table, ToDaemon, ToProxy

T = TypeVar("T")


class DaemonsEnd:
    """Listens at a home's socket as the daemon would; every proxy that comes gets the table."""

    def __init__(self, path: Path, table: Table) -> None:
        self._table = table
        self._lines: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.heard: list[ToDaemon] = []
        """Everything the proxy said, oldest first, its hello first on each connection."""
        self._server = address.listen(path)
        self._server.setblocking(True)
        self._path = path
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._hear, args=(line,), daemon=True).start()

    def _hear(self, line: socket.socket) -> None:
        with line, line.makefile("rb") as words, contextlib.suppress(OSError, ValueError):
            first = words.readline()
            if not first:
                return
            self.heard.append(link_wire.decode_hello(first, "test"))
            with self._lock:
                self._lines.add(line)
                line.sendall(link_wire.encode(self._table))
            for raw in words:
                said = link_wire.decode_to_daemon(raw)
                if said is not None:
                    self.heard.append(said)
            with self._lock:
                self._lines.discard(line)

    def say(self, message: ToProxy) -> None:
        """To every proxy that is linked; a table is also what the next one gets."""
        with self._lock:
            if isinstance(message, Table):
                self._table = message
            for line in self._lines:
                line.sendall(link_wire.encode(message))

    def all(self, kind: type[T]) -> list[T]:
        """What was heard of one kind so far."""
        return [each for each in list(self.heard) if isinstance(each, kind)]

    def wait_for(self, kind: type[T], wanted: Callable[[T], object], seconds: float = 10.0) -> T:
        """The first of that kind that is as wanted, past ones too; fails when none comes."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for each in self.all(kind):
                if wanted(each):
                    return each
            time.sleep(0.02)
        raise AssertionError(f"no such {kind.__name__} in {seconds:.0f} s: {self.heard[-10:]}")

    def close(self) -> None:
        """Vanish, as a killed daemon does."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            for line in self._lines:
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._path.unlink(missing_ok=True)
