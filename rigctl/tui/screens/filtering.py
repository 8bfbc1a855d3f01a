"""A reading screen with a filter line at its foot, for logs and the journal."""

from __future__ import annotations

from textual.widgets import Input

from rigctl.tui.screens.reading import ReadingScreen


class FilterLine(Input):
    """What to look for; enter keeps it, escape takes it away."""

    def __init__(self, value: str) -> None:
        super().__init__(value, placeholder="show only lines with …", id="filter", compact=True)
        self.cursor_blink = False


class FilteringScreen(ReadingScreen):
    """Opens and closes the filter line."""

    def do_filter(self) -> None:
        """Open the line, or go back into it."""
        found = self.query("#filter")
        if found:
            found.first(Input).focus()
            return
        line = FilterLine(self.pager.needle)
        self.mount(line)
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self.pager.set_filter(event.value.strip())
        self.retitle()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep it, give the keys back."""
        event.stop()
        event.input.remove()
        self.set_focus(None)

    def close_filter(self) -> bool:
        """Take line and filter away; False when there was neither."""
        found = self.query("#filter")
        if not found and not self.pager.needle:
            return False
        found.remove()
        self.pager.set_filter("")
        self.set_focus(None)
        self.retitle()
        return True

    def do_back(self) -> bool:
        """First the filter, then the screen."""
        return self.close_filter()
