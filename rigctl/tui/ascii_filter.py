"""Turns every strip into ASCII, cell for cell, for terminals without UTF-8 (C98)."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from rigctl.tui.glyphs import to_ascii


class AsciiFilter(LineFilter):
    """The last step before the terminal, so that no widget of anybody's can break it."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments with ASCII text of the same width."""
        return [
            segment
            if segment.control or segment.text.isascii()
            else Segment(_same_width(segment.text), segment.style)
            for segment in segments
        ]


def _same_width(text: str) -> str:
    cells = cell_len(text)
    return to_ascii(text).ljust(cells)[:cells]
