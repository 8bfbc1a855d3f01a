"""The base of every dense widget: lines of spans, of which only changed cells are repainted."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from rigctl.tui.glyphs import UNICODE, Glyphs
from rigctl.tui.paint import ROLES, Line


class RoleStyles(Widget):
    """Turns a span's role into the theme's style; greyed while the figures are old."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"rig--{role}" for role in ROLES}

    def __init__(self, name: str | None = None) -> None:
        super().__init__(id=name)
        self._styles: dict[str, Style] = {}
        self._grey = False

    @property
    def glyphs(self) -> Glyphs:
        """The set of signs the panel chose at its start."""
        chosen = getattr(self.app, "glyphs", UNICODE)
        assert isinstance(chosen, Glyphs)
        return chosen

    def set_grey(self, grey: bool) -> None:
        """Draw everything dim: these are the last figures known, not the present ones."""
        if grey != self._grey:
            self._grey = grey
            self._styles.clear()
            self.refresh()

    def role_style(self, role: str) -> Style:
        """The style of a role, looked up once a theme."""
        style = self._styles.get(role)
        if style is None:
            name = "dim" if self._grey and role not in {"track", "edge", "cursor"} else role
            style = self._styles[role] = self.get_component_rich_style(f"rig--{name}")
        return style

    def notify_style_update(self) -> None:
        """A new theme: every style is looked up again."""
        self._styles.clear()
        super().notify_style_update()

    def strip(self, line: Line, cells: int) -> Strip:
        """The line as Textual draws it, exactly that wide."""
        segments = [Segment(text, self.role_style(role)) for text, role in line if text]
        return Strip(segments).adjust_cell_length(cells, self.role_style("text"))


class Lines(RoleStyles):
    """Shows lines; a new set repaints only the cells from the first to the last changed span."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.lines: tuple[Line, ...] = ()

    def show(self, lines: list[Line] | tuple[Line, ...]) -> None:
        """Replace the lines and ask for a repaint of what differs."""
        old, new = self.lines, tuple(lines)
        if old == new:
            return
        self.lines = new
        size = self.size
        regions = []
        for y in range(min(max(len(old), len(new)), size.height)):
            before = old[y] if y < len(old) else ()
            after = new[y] if y < len(new) else ()
            if before != after:
                left, right = _changed(before, after, size.width)
                regions.append(Region(left, y, right - left, 1))
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """One line, padded to the widget's width."""
        cells = self.size.width
        return self.strip(self.lines[y] if y < len(self.lines) else (), cells)


def _changed(before: Line, after: Line, cells: int) -> tuple[int, int]:
    """The cells from the first to the last span that differs."""
    left = 0
    first = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        left += cell_len(new[0])
        first += 1
    total_before = sum(cell_len(text) for text, _ in before)
    total_after = sum(cell_len(text) for text, _ in after)
    right = cells
    if total_before == total_after:
        right = total_after
        for old, new in zip(reversed(before[first:]), reversed(after[first:]), strict=False):
            if old != new:
                break
            right -= cell_len(new[0])
    left = max(0, min(left, cells - 1))
    return left, max(left + 1, min(right, cells))
