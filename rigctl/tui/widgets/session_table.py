"""The table of the sessions screen: one row a request or session, a mark to move, a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.message import Message
from textual.reactive import var

from rigctl.core.flow import SessionRow
from rigctl.tui.paint import Line, wrapped
from rigctl.tui.widgets import session_rows
from rigctl.tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class SessionsSlice:
    """All that the table draws, in its order."""

    rows: tuple[SessionRow, ...]
    marked: SessionRow | None
    empty: str
    """What stands there instead of rows."""


class SessionTable(Lines):
    """Shows one slice; the mark is kept in view, the rows before and after it stay put."""

    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Picked(Message):
        """A row was clicked."""

        row: SessionRow

    slice: var[SessionsSlice | None] = var(None)

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._top = 0

    def watch_slice(self, new: SessionsSlice | None) -> None:
        """Draw what changed."""
        self._redraw()

    def on_resize(self) -> None:
        """Other room, other columns."""
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        """Mark the row under the pointer."""
        rows = self.slice.rows if self.slice is not None else ()
        place = self._top + event.y - 1
        if event.y >= 1 and place < len(rows):
            self.post_message(self.Picked(rows[place]))

    def page(self) -> int:
        """Rows of one page, one kept for the eye."""
        return max(1, self.size.height - 2)

    def place(self) -> str:
        """`1–20 of 64`, where not all are on show."""
        total = len(self.slice.rows) if self.slice is not None else 0
        room = max(0, self.size.height - 1)
        if total <= room:
            return ""
        return f"{self._top + 1}{self.glyphs.dash}{min(total, self._top + room)} of {total}"

    def _redraw(self) -> None:
        piece, size, glyphs = self.slice, self.size, self.glyphs
        if piece is None or size.width < 10 or size.height < 2:
            self.show(())
            return
        if not piece.rows:
            said = [((row, "dim"),) for row in wrapped(piece.empty, size.width - 4)]
            self.show([(), *(((("  ", "text"), *line)) for line in said)])
            return
        room = size.height - 1
        places = [at for at, row in enumerate(piece.rows) if row is piece.marked]
        if places:
            self._top = max(places[0] - room + 1, min(self._top, places[0]))
        self._top = max(0, min(self._top, len(piece.rows) - room))
        shown = session_rows.columns(piece.rows, size.width)
        lines: list[Line] = [session_rows.heading(shown, size.width, glyphs)]
        lines += [
            session_rows.session_row(row, shown, size.width, row is piece.marked, glyphs)
            for row in piece.rows[self._top : self._top + room]
        ]
        self.show(lines)
