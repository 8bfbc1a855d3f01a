"""A filter line at the foot of a screen, for logs, the journal and the sessions."""

from __future__ import annotations

from textual.widgets import Input

from rigctl.tui.screens.base import RigScreen
from rigctl.tui.screens.reading import ReadingScreen


class FilterLine(Input):
    """What to look for; enter keeps it, escape takes it away."""

    def __init__(self, value: str, noun: str) -> None:
        super().__init__(value, placeholder=f"show only {noun} with …", id="filter", compact=True)
        self.cursor_blink = False


class Filtering(RigScreen):
    """Opens and closes the filter line; a subclass says what the text does."""

    filtered = "lines"
    """What the filter chooses from."""

    @property
    def needle(self) -> str:
        """What is looked for now; empty shows all."""
        raise NotImplementedError

    def apply_filter(self, needle: str) -> None:
        """Show only what has that text."""
        raise NotImplementedError

    def do_filter(self) -> None:
        """Open the line, or go back into it."""
        found = self.query("#filter")
        if found:
            found.first(Input).focus()
            return
        line = FilterLine(self.needle, self.filtered)
        self.mount(line)
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self.apply_filter(event.value.strip())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep it, give the keys back."""
        event.stop()
        event.input.remove()
        self.set_focus(None)

    def close_filter(self) -> bool:
        """Take line and filter away; False when there was neither."""
        found = self.query("#filter")
        if not found and not self.needle:
            return False
        found.remove()
        self.apply_filter("")
        self.set_focus(None)
        return True

    def do_back(self) -> bool:
        """First the filter, then the screen."""
        return self.close_filter()


class FilteringScreen(Filtering, ReadingScreen):
    """A reading screen that shows only lines with a text."""

    @property
    def needle(self) -> str:
        """The pager's own."""
        return self.pager.needle

    def apply_filter(self, needle: str) -> None:
        """The pager drops what does not have it."""
        self.pager.set_filter(needle)
        self.retitle()
