"""Finds the events in a stream of server-sent events, wherever the network has cut it.

Every form that servers send counts: no blank after `data:`, CRLF, lone CR, several data lines, bare
field names, comments, a byte order mark, events of megabytes. Bytes are not decoded here: a
character cut in two, or no character at all, ends nothing.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_EVENT = 16 * 1024 * 1024
"""Bytes of one event, or of one line, that are kept; a longer one is passed over, not an error."""

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event with data; offsets count the bytes of the stream from its beginning."""

    data: bytes
    """Its data lines, joined by line feeds, without `data:`."""
    name: bytes = b""
    """The `event:` field; empty where there was none."""
    start: int = 0
    """Where its first field begins; comments and blank lines before it are not its own."""
    end: int = 0
    """Just after the line end that closed it. Of a CRLF that a read has cut, the LF comes after."""


_new_event = tuple.__new__


class Events:
    """An incremental scanner for one stream. Each byte is looked at a bounded number of times."""

    __slots__ = (
        "_begun",
        "_cut_cr",
        "_data",
        "_data_bytes",
        "_line",
        "_line_bytes",
        "_line_over",
        "_lone_cr",
        "_most",
        "_name",
        "_open_at",
        "_over",
        "_seen",
        "passed_over",
    )

    def __init__(self, most: int = MOST_EVENT) -> None:
        """`most`: bytes of one event that are kept."""
        self._most = most
        self._seen = 0
        self._begun = False
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._line_over = False
        self._cut_cr = False
        self._lone_cr = False
        self._data: list[bytes] | None = None
        self._data_bytes = 0
        self._name = b""
        self._open_at = -1
        self._over = False
        self.passed_over = 0
        """Events too long to be kept."""

    @property
    def at_boundary(self) -> bool:
        """Whether the bytes so far end between two events: only here may a comment be put in.

        After a CR that may yet become a CRLF it is not, unless this stream ends its lines so.
        """
        return self._open_at < 0 and not self._line_bytes and (not self._cut_cr or self._lone_cr)

    @property
    def open_at(self) -> int:
        """Offset of the first byte that no closed event and no comment has taken."""
        if self._open_at >= 0:
            return self._open_at
        return self._seen - self._line_bytes

    @property
    def seen(self) -> int:
        """Bytes so far."""
        return self._seen

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes have closed."""
        if (
            data[:6] == b"data: "
            and self._open_at < 0
            and not self._line_bytes
            and not self._cut_cr
            and self._begun
            and data.find(b"\n") == len(data) - 2
            and data[-1] == 10
            and b"\r" not in data
            and len(data) <= self._most
        ):
            start = self._seen
            self._seen = end = start + len(data)
            # Event(…) itself is a Python function; this is the path of nearly every chunk.
            return [_new_event(Event, (data[6:-2], b"", start, end))]
        return self._lines(data)

    def skip(self, size: int) -> None:
        """Whole events of so many bytes were read by another reader, between two events."""
        self._seen += size

    def _lines(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if not data:
            return events
        if self._cut_cr and data[0] == 10:
            # The CR of the last read has ended its line already.
            self._cut_cr = False
            self._seen += 1
            data = data[1:]
        for piece in data.splitlines(keepends=True):
            if self._cut_cr:
                # Something other than LF follows a CR: this stream ends its lines so.
                self._cut_cr, self._lone_cr = False, True
            self._seen += len(piece)
            if piece[-1] == 10:
                self._ended(piece[: -2 if piece[-2:] == b"\r\n" else -1], len(piece), events)
            elif piece[-1] == 13:
                self._ended(piece[:-1], len(piece), events)
                self._cut_cr = True
            else:
                self._keep(piece)
        return events

    def _keep(self, piece: bytes) -> None:
        self._line_bytes += len(piece)
        if self._line_bytes <= self._most:
            self._line.append(piece)
        else:
            # The line's head stays: it tells a comment from a field.
            del self._line[1:]
            self._line_over = True

    def _ended(self, line: bytes, length: int, events: list[Event]) -> None:
        """One line without its end; `length` counts this read's share of it with the end."""
        start = self._seen - length - self._line_bytes
        if self._line_bytes:
            self._line.append(line)
            line = b"".join(self._line)
            self._line, self._line_bytes = [], 0
        over, self._line_over = self._line_over, False
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            self._closed(events)
            return
        if line[0] == 58:  # a comment
            return
        if self._open_at < 0:
            self._open_at = start
        if over or self._over:
            self._over, self._data = True, None
            return
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data_bytes += len(value) + 1
            if self._data_bytes > self._most:
                self._over, self._data = True, None
            elif self._data is None:
                self._data = [value]
            else:
                self._data.append(value)
        elif field == b"event":
            self._name = value[:256]

    def _closed(self, events: list[Event]) -> None:
        if self._over:
            self.passed_over += 1
        elif self._data is not None:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(Event(data, self._name, self._open_at, self._seen))
        self._data, self._data_bytes = None, 0
        self._name, self._open_at, self._over = b"", -1, False
