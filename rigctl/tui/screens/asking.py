"""Questions: one for acts with a consequence, one for a number."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Input

from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, boxed, wrapped
from rigctl.tui.widgets.cover import Cover, too_small
from rigctl.tui.widgets.lines import Lines

ARM_SECONDS = 0.4
"""No key answers yes before the keyboard was quiet for that long: neither a held key nor a
paste nor bytes that came glued together (C99)."""

_NO = frozenset({"escape", "enter", "n", "q", "ctrl+c"})


class ConfirmScreen(ModalScreen[bool], inherit_bindings=False):
    """Yes is the action's own key, pressed again after a moment; nearly every other key is no."""

    def __init__(
        self,
        title: str,
        consequences: Callable[[], tuple[str, ...]],
        key: str,
        shown_key: str,
        verb: str,
    ) -> None:
        super().__init__()
        self._title = title
        self._consequences = consequences
        self._key = key
        self._shown_key = shown_key
        self._verb = verb
        self._quiet_since = time.monotonic()
        self._armed = False

    def compose(self) -> ComposeResult:
        """One framed text."""
        yield Lines("question")
        yield Cover("cover")

    def on_mount(self) -> None:
        """Arm after a quiet moment."""
        self._quiet_since = time.monotonic()
        self.set_timer(ARM_SECONDS, self._arm)
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        """Other width, other rows; a question that cannot be read cannot be answered."""
        self.set_class(too_small(event.size), "-small")
        self.redraw()

    def redraw(self) -> None:
        """The consequence is read from the newest snapshot, also while the question stands."""
        box = self.query_one("#question", Lines)
        cells = max(20, min(76, self.size.width - 2))
        rows = self._rows(cells - 4)
        rows = rows[: max(1, self.size.height - 3)]
        title: Line = ((self._title, "strong"),)
        lines = boxed(title, (), rows, cells, "edge-warn", box.glyphs)
        box.styles.width = cells
        box.styles.height = len(lines)
        box.show(lines)

    def _rows(self, cells: int) -> list[Line]:
        glyphs: Glyphs = self.query_one("#question", Lines).glyphs
        rows: list[Line] = [()]
        for text in self._consequences():
            for place, row in enumerate(wrapped(text, cells - 2)):
                rows.append(((f"{glyphs.dot} " if place == 0 else "  ", "dim"), (row, "text")))
        yes = "accent" if self._armed else "dim"
        rows += [
            (),
            (
                (self._shown_key, yes),
                (f" again: {self._verb}", yes if not self._armed else "text"),
                ("     ", "text"),
                ("esc", "accent"),
                (" keep it as it is", "text"),
            ),
        ]
        return rows

    async def on_key(self, event: events.Key) -> None:
        """Judge one key."""
        event.stop()
        event.prevent_default()
        now = time.monotonic()
        quiet = now - self._quiet_since >= ARM_SECONDS
        self._quiet_since = now
        if event.key == self._key:
            if self._armed and quiet and not too_small(self.size):
                self.dismiss(True)
            return
        if event.key in _NO:
            self.dismiss(False)

    def _arm(self) -> None:
        quiet = time.monotonic() - self._quiet_since
        if quiet < ARM_SECONDS:
            self.set_timer(ARM_SECONDS - quiet + 0.02, self._arm)
            return
        self._armed = True
        self.redraw()


class NumberScreen(ModalScreen[float | None], inherit_bindings=False):
    """Asks for watts; enter takes them, escape leaves things as they are."""

    def __init__(self, title: str, consequences: tuple[str, ...]) -> None:
        super().__init__()
        self._title = title
        self._text = consequences
        self._wrong = ""

    def compose(self) -> ComposeResult:
        """The text and a line to type in."""
        yield Lines("question")
        yield Input(placeholder="watts a card, then enter", id="number", compact=True)

    def on_mount(self) -> None:
        """Ready to type."""
        line = self.query_one(Input)
        line.cursor_blink = False
        line.focus()
        self.redraw()

    def redraw(self) -> None:
        """The frame, and what was wrong with the last answer."""
        box = self.query_one("#question", Lines)
        cells = max(20, min(76, self.size.width - 2))
        rows: list[Line] = [
            ((row, "text"),) for text in self._text for row in wrapped(text, cells - 4)
        ]
        if self._wrong:
            rows.append(((self._wrong, "warn"),))
        lines = boxed(((self._title, "strong"),), (), rows, cells, "edge-warn", box.glyphs)
        box.styles.width = cells
        box.styles.height = len(lines)
        box.show(lines)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """A number, or say why not."""
        try:
            watts = float(event.value.replace("W", "").strip())
        except ValueError:
            watts = 0.0
        if watts <= 0:
            self._wrong = f"{event.value!r} is not a number of watts; escape leaves it as it is"
            self.redraw()
            return
        self.dismiss(watts)

    def on_key(self, event: events.Key) -> None:
        """Escape means no."""
        if event.key == "escape":
            event.stop()
            self.dismiss(None)
