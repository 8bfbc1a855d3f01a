"""Follows a log file that grows, is cut or replaced; and reads the last lines of one."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rigctl.core.harmless import harmless

READ_BYTES: Final = 256 * 1024
"""Bytes taken in one call, so that a flood costs one call a bounded time."""

LINE_BYTES: Final = 64 * 1024
"""An unfinished line longer than this is given out as it stands."""


class Tail:
    """New lines of a file since the last call. Never blocks; a missing file has none.

    `offset` is where the next unread line begins and may be kept: a Tail made with it later goes
    on there. Progress bars (`\\r`) give a line at each step; invalid UTF-8 is replaced,
    colours are left out.
    """

    def __init__(self, path: Path, offset: int | None = 0) -> None:
        """`offset` None starts at the end: only what is written from now on."""
        self._path = path
        self._descriptor: int | None = None
        self._held = b""
        self._position = offset or 0
        self._after_return = False
        self.restarts = 0
        """How often the file was cut or replaced under us: numbers before and after differ."""
        opened = self._open() if offset is None else None
        if opened is not None:
            self._position = os.fstat(opened).st_size

    @property
    def offset(self) -> int:
        """Where the first line begins that was not given out."""
        return self._position - len(self._held)

    def read(self, limit: int = READ_BYTES) -> list[str]:
        """The lines that were finished since, from at most `limit` bytes."""
        descriptor = self._descriptor if self._descriptor is not None else self._open()
        if descriptor is None:
            return []
        chunk = self._chunk(descriptor, limit)
        if chunk or not self._replaced(descriptor):
            return self._split(chunk)
        # The old file was read to its end; what it left unfinished was its last line.
        lines = [_text(self._held)] if self._held else []
        self.close()
        self._held, self._position, self._after_return = b"", 0, False
        self.restarts += 1
        fresh = self._open()
        return lines if fresh is None else lines + self._split(self._chunk(fresh, limit))

    def _open(self) -> int | None:
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        return self._descriptor

    def _chunk(self, descriptor: int, limit: int) -> bytes:
        size = os.fstat(descriptor).st_size
        if size < self._position:  # cut: what we hold of it is no line of the new content
            self._held, self._position, self._after_return = b"", 0, False
            self.restarts += 1
        if size > self._position:
            self._position = _data_from(descriptor, self._position)
        chunk = os.pread(descriptor, limit, self._position)
        self._position += len(chunk)
        return chunk

    def _replaced(self, descriptor: int) -> bool:
        try:
            now = os.stat(self._path)
        except OSError:
            return False  # renamed away and not made anew yet: stay with the old file
        mine = os.fstat(descriptor)
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)

    def _split(self, chunk: bytes) -> list[str]:
        if self._after_return and chunk:
            # The line ended with `\r` at the end of the last chunk; its `\n` is no new line.
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        lines, self._held, self._after_return = split(self._held + chunk)
        if len(self._held) > LINE_BYTES:
            lines.append(self._held)
            self._held = b""
        return [_text(line) for line in lines]

    def close(self) -> None:
        """Close the file; a later `read` opens it again where it was left."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def split(data: bytes) -> tuple[list[bytes], bytes, bool]:
    """Whole lines, the unfinished rest, and whether the last line ended with a bare `\\r`.

    `\\n`, `\\r\\n` and `\\r` end a line. A bar that is redrawn starts with `\\r`, so a line that
    is empty because of one says nothing and is left out.
    """
    lines: list[bytes] = []
    *whole, rest = data.split(b"\n")
    for piece in whole:
        steps = piece.removesuffix(b"\r").split(b"\r")
        lines.extend(step for step in steps if step or len(steps) == 1)
    *steps, rest = rest.split(b"\r")
    lines.extend(step for step in steps if step)
    return lines, rest, bool(steps) and not rest


@dataclass(frozen=True, slots=True)
class LastLines:
    """The end of a file."""

    lines: tuple[str, ...]
    """Finished ones, oldest first."""
    rest: str
    """What stands after the last line end: a dead program's last word, or half a line."""
    offset: int
    """Where `rest` begins: a Tail from here misses and doubles nothing."""


def last_lines(path: Path, count: int, limit: int = 4 * 1024 * 1024) -> LastLines:
    """The last `count` lines within the last `limit` bytes of a file. OSError as it comes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        size = os.fstat(descriptor).st_size
        start = _data_from(descriptor, max(0, size - limit)) if size else 0
        data = _read_all(descriptor, start, size)
    finally:
        os.close(descriptor)
    if start > 0:
        _, _, data = data.partition(b"\n")  # the first line is most likely half of one
    lines, rest, _ = split(data)
    kept = deque(lines, maxlen=min(max(count, 0), limit))
    return LastLines(tuple(_text(line) for line in kept), _text(rest), size - len(rest))


def _read_all(descriptor: int, start: int, end: int) -> bytes:
    parts = []
    while start < end and (part := os.pread(descriptor, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _text(line: bytes) -> str:
    # Before anybody looks for keys in it: a colour within a name would hide one.
    return harmless(line.replace(b"\0", b"").decode("utf-8", "replace"))


def _data_from(descriptor: int, position: int) -> int:
    """The next position that holds data: a log's old part may have been punched out of it."""
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError:  # no data after it, or a file system that does not know
        return position
