"""A group on the overview: its frame, its state on the upper edge, its rows inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.message import Message
from textual.reactive import var

from rigctl.core.flow import ClusterRow
from rigctl.core.reading import OFF, Reading
from rigctl.core.snapshot import GroupView
from rigctl.tui.paint import Line, boxed, width
from rigctl.tui.widgets import group_rows
from rigctl.tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class GroupSlice:
    """All that a group panel draws."""

    view: GroupView
    indexes: tuple[int, ...]
    marked: bool
    now: float
    """Wall time, for leases; minutes matter only."""
    hint: Line = ()
    """The key that takes a lent group back."""
    free: Reading = OFF
    """Memory of its cards that nobody holds, in bytes."""
    row: ClusterRow | None = None
    """The endpoint's own row of it; None without one, or while it is old."""
    culprit: str = ""
    """The client whose prompt makes others wait; empty without keys."""


class GroupPanel(Lines):
    """Shows one slice; a click marks the group."""

    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Picked(Message):
        """The group was clicked."""

        group: str

    slice: var[GroupSlice | None] = var(None)

    def watch_slice(self, new: GroupSlice | None) -> None:
        """Draw what changed."""
        self._redraw()

    def on_resize(self) -> None:
        """Other room, other rows."""
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        """Mark this group."""
        if self.slice is not None:
            self.post_message(self.Picked(self.slice.view.name))

    def _redraw(self) -> None:
        piece, size = self.slice, self.size
        if piece is None or size.width < 8 or size.height < 3:
            self.show(())
            return
        view, glyphs = piece.view, self.glyphs
        inner = group_rows.rows(
            view,
            list(piece.indexes),
            piece.now,
            size.width - 4,
            size.height - 2,
            glyphs,
            piece.hint,
            piece.free,
            piece.row,
            piece.culprit,
        )
        state = group_rows.state_line(view, piece.now, glyphs)
        title = group_rows.title(view, piece.marked, glyphs, size.width - 9 - width(state))
        edge = group_rows.edge(view, piece.marked)
        self.show(boxed(title, state, inner, size.width, edge, glyphs))
