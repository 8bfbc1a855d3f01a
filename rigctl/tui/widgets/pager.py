"""Many lines, a few on show: scroll, filter, wrap and follow for every reading screen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import ClassVar

from rich.cells import cell_len, set_cell_size

from rigctl.tui.paint import Line, fit, hanging, width
from rigctl.tui.widgets.lines import Lines

KEPT = 10_000
"""Lines held at most; the oldest go first."""


def plain(line: Line) -> str:
    """The text of a line without its roles."""
    return "".join(text for text, _ in line).rstrip()


def fold(line: Line, cells: int) -> list[Line]:
    """The line in rows of at most that many cells, its spans split where a row ends."""
    if cells < 1 or sum(cell_len(text) for text, _ in line) <= cells:
        return [line]
    rows: list[Line] = []
    row: list[tuple[str, str]] = []
    left = cells
    for text, role in line:
        while text:
            if cell_len(text) <= left:
                row.append((text, role))
                left -= cell_len(text)
                break
            piece = set_cell_size(text, left).rstrip(" ") if left else ""
            piece = text[: len(piece)] if text.startswith(piece) else text[:left]
            piece = piece or ("" if row else text[:1])
            row.append((piece, role))
            text = text[len(piece) :]
            rows.append(tuple(row))
            row, left = [], cells
    if row:
        rows.append(tuple(row))
    return rows


class Pager(Lines):
    """Holds lines and shows a window of them."""

    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(
        self, name: str, *, follow: bool = False, wrap: bool = False, hang: bool = False
    ) -> None:
        super().__init__(name)
        self.hang = hang
        """Long lines are wrapped at blanks, under the begin of their last span."""
        self._source: deque[Line] = deque(maxlen=KEPT)
        self._rows: list[Line] = []
        self.follow = follow
        self.wrap = wrap
        self.needle = ""
        self.offset_y = 0

    def replace(self, lines: Iterable[Line]) -> None:
        """All lines anew; the place stays, unless the end is followed."""
        self._source = deque(lines, maxlen=KEPT)
        self._rebuild()

    def append(self, lines: Iterable[Line]) -> None:
        """More lines at the end."""
        fresh = list(lines)
        overflow = len(self._source) + len(fresh) > KEPT
        self._source.extend(fresh)
        if overflow:
            self._rebuild()
            return
        for line in fresh:
            self._rows += self._layout(line)
        self._paint()

    def set_filter(self, needle: str) -> None:
        """Only lines with that text, case ignored; empty shows all."""
        self.needle = needle
        self._rebuild()

    def set_wrap(self, wrap: bool) -> None:
        """Long lines folded, or cut at the right with a mark."""
        self.wrap = wrap
        self._rebuild()

    def set_follow(self, follow: bool) -> None:
        """Stay at the newest line."""
        self.follow = follow
        self._paint()

    def move(self, rows: int) -> None:
        """Scroll by rows; going up stops following, reaching the end does not resume it."""
        if rows < 0:
            self.follow = False
        self.offset_y += rows
        self._paint()

    def page(self, pages: int) -> None:
        """Scroll by pages, one row kept for the eye."""
        self.move(pages * max(1, self.size.height - 1))

    def to_top(self) -> None:
        """First line."""
        self.follow = False
        self.offset_y = 0
        self._paint()

    def to_end(self) -> None:
        """Last line."""
        self.offset_y = len(self._rows)
        self._paint()

    def place(self) -> str:
        """`40–75 of 310`, for a title."""
        total = len(self._rows)
        if not total:
            return "nothing to show"
        first = self.offset_y + 1
        last = min(total, self.offset_y + self.size.height)
        return f"{first}{self.glyphs.dash}{last} of {total}"

    def shown_text(self) -> str:
        """What is on show now, as plain text for the clipboard."""
        window = self._rows[self.offset_y : self.offset_y + self.size.height]
        return "\n".join(plain(line) for line in window)

    def on_resize(self) -> None:
        """Other width, other rows."""
        self._rebuild()

    def on_mouse_scroll_down(self) -> None:
        """Wheel."""
        self.move(3)

    def on_mouse_scroll_up(self) -> None:
        """Wheel."""
        self.move(-3)

    def _layout(self, line: Line) -> list[Line]:
        if self.needle and self.needle.lower() not in plain(line).lower():
            return []
        if not self.wrap:
            return [line]
        rows = hanging(line, self.size.width) if self.hang else [line]
        return [piece for row in rows for piece in fold(row, self.size.width)]

    def _rebuild(self) -> None:
        self._rows = [row for line in self._source for row in self._layout(line)]
        self._paint()

    def _paint(self) -> None:
        height = self.size.height
        most = max(0, len(self._rows) - height)
        if self.follow:
            self.offset_y = most
        self.offset_y = max(0, min(self.offset_y, most))
        cells = self.size.width
        window = self._rows[self.offset_y : self.offset_y + height]
        self.show(
            [fit(line, cells, self.glyphs) if width(line) > cells else line for line in window]
        )
