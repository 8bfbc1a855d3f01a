"""What stands in for everything while the window cannot hold it (C96)."""

from __future__ import annotations

from textual.geometry import Size

from rigctl.tui.paint import Line, wrapped
from rigctl.tui.widgets.lines import Lines

LEAST = Size(60, 20)
"""Cells below which nothing is readable any more."""


def too_small(size: Size) -> bool:
    """Whether a window of that size is covered, and its keys off but for leaving."""
    return size.width < LEAST.width or size.height < LEAST.height


class Cover(Lines):
    """One sentence in the middle; a style class of the screen shows it."""

    def on_resize(self) -> None:
        """Middle it anew."""
        cells, height = self.size.width, self.size.height
        rows = wrapped(f"window too small (need {LEAST.width}x{LEAST.height})", cells)
        above: list[Line] = [()] * max(0, (height - len(rows)) // 2)
        middle: list[Line] = [((row.center(cells), "text"),) for row in rows]
        self.show([*above, *middle][:height])
