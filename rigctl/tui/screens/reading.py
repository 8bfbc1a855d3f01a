"""The base of screens that are one long text: a title, a pager, the moving keys."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from rigctl.tui.actions import Keys
from rigctl.tui.paint import Line, spread
from rigctl.tui.screens.base import RigScreen
from rigctl.tui.widgets.lines import Lines
from rigctl.tui.widgets.pager import Pager


class ReadingScreen(RigScreen):
    """Subclasses say what the title is and fill the pager."""

    follow = False
    wrap = False
    hang = False

    def __init__(self, keys: Keys) -> None:
        super().__init__(keys)
        self.pager = Pager("body", follow=self.follow, wrap=self.wrap, hang=self.hang)

    def middle(self) -> list[Widget]:
        """A title line and the text."""
        return [Lines("title"), self.pager]

    def title_parts(self) -> tuple[Line, Line]:
        """Left and right part of the title line."""
        return (), ()

    def retitle(self) -> None:
        """Draw the title anew, with the place in the text at its right."""
        title = self.query_one("#title", Lines)
        left, right = self.title_parts()
        place: Line = ((self.pager.place(), "dim"),)
        right = (*right, ("   ", "text"), *place) if right else place
        title.show([spread(left, right, max(0, self.size.width - 2), title.glyphs)])

    def on_resize(self, event: events.Resize) -> None:
        """The pager lays its rows out first."""
        self.call_after_refresh(self.retitle)

    def do_down(self) -> None:
        """One line on."""
        self.pager.move(1)
        self.retitle()

    def do_up(self) -> None:
        """One line back."""
        self.pager.move(-1)
        self.retitle()

    def do_page_down(self) -> None:
        """One page on."""
        self.pager.page(1)
        self.retitle()

    def do_page_up(self) -> None:
        """One page back."""
        self.pager.page(-1)
        self.retitle()

    def do_top(self) -> None:
        """First line."""
        self.pager.to_top()
        self.retitle()

    def do_end(self) -> None:
        """Last line."""
        self.pager.to_end()
        self.retitle()

    def copy_text(self) -> tuple[str, str]:
        """The lines on show."""
        text = self.pager.shown_text()
        return text, f"{len(text.splitlines())} lines"
