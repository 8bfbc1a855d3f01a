"""The endpoint in one line: where it is, how it is, what it carries; or the next command."""

from __future__ import annotations

from textual.reactive import var

from rigctl.core.snapshot import EndpointView
from rigctl.tui import words
from rigctl.tui.endpoint import address, in_flight, queue, sign, told
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, fit, spread, width
from rigctl.tui.widgets.lines import Lines


def endpoint_line(endpoint: EndpointView, hint: Line, cells: int, glyphs: Glyphs) -> Line:
    """One row; the key that opens the sessions at its right while there is room."""
    glyph, word, role = sign(endpoint, glyphs)
    head: Line = ((" endpoint ", "dim"), (f"{glyph} {word}", role), ("  ", "text"))
    if endpoint.state in {"up", "leaving"}:
        where: Line = ((address(endpoint), "strong"),)
        if not told(endpoint):
            age = words.whole_seconds(endpoint.age)
            old: Line = ((f"   {glyphs.warning} silent for {age}", "warn"),)
            return fit((*head, *where, *old), cells, glyphs)
        flight: Line = ((f"   {in_flight(endpoint)} in flight   ", "text"), *queue(endpoint))
        line = (*head, *where, *flight)
        if width(line) + width(hint) + 4 > cells:
            return fit(line, cells, glyphs)  # The footer has that key as well.
        return spread(line, hint, cells - 1, glyphs)
    said = endpoint.say or {"off": "no address answers"}.get(endpoint.state, "")
    if not endpoint.advice:
        return fit((*head, (said, "text")), cells, glyphs)
    tail: Line = (("next  ", "dim"), (endpoint.advice, "accent"))
    if width(head) + width(tail) + 12 > cells:
        return fit((*head, *tail), cells, glyphs)
    return spread((*head, (said, "text")), tail, cells - 1, glyphs)


class EndpointLine(Lines):
    """The line on the overview; the screen hides it where there is no endpoint."""

    slice: var[tuple[EndpointView, Line] | None] = var(None)
    """The endpoint, and the key that opens the sessions."""

    def watch_slice(self, new: tuple[EndpointView, Line] | None) -> None:
        """Draw what changed."""
        self._redraw()

    def on_resize(self) -> None:
        """Other width, other parts."""
        self._redraw()

    def _redraw(self) -> None:
        if self.slice is not None and self.size.width >= 10:
            self.show([endpoint_line(*self.slice, self.size.width, self.glyphs)])
