"""All cards on the overview, one row each, with a mark to move and a minute of watts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from textual import events
from textual.message import Message
from textual.reactive import var

from rigctl.core.reading import Reading
from rigctl.core.snapshot import CardView
from rigctl.tui.paint import Line
from rigctl.tui.widgets import card_rows
from rigctl.tui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class CardsSlice:
    """All that the table draws; ages are left out, so that a quiet card stays equal."""

    cards: tuple[CardView, ...]
    marked: str
    nvml: str
    history: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)


class CardTable(Lines):
    """Shows one slice; rows that do not fit are scrolled to by the mark."""

    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Picked(Message):
        """A card was clicked."""

        card: str

    slice: var[CardsSlice | None] = var(None)

    def watch_slice(self, new: CardsSlice | None) -> None:
        """Draw what changed."""
        self._redraw()

    def on_resize(self) -> None:
        """Other width, other columns."""
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        """Mark the card of that row."""
        uuid = self._rows.get(event.y)
        if uuid:
            self.post_message(self.Picked(uuid))

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._rows: dict[int, str] = {}

    def wanted_height(self, room: int) -> int:
        """Rows it would fill: heading, cards, and a blank between groups where there is room."""
        piece = self.slice
        if piece is None:
            return 1
        if not piece.cards:
            return 2
        groups = len({card.group for card in piece.cards})
        plain = 1 + len(piece.cards)
        return plain + groups - 1 if plain + groups - 1 <= room else plain

    def _redraw(self) -> None:
        piece, size, glyphs = self.slice, self.size, self.glyphs
        self._rows = {}
        if piece is None or size.width < 10 or size.height < 1:
            self.show(())
            return
        shown = card_rows.columns(size.width, glyphs)
        lines: list[Line] = [card_rows.heading(shown, size.width, glyphs)]
        if not piece.cards:
            why = piece.nvml or "no card has been seen yet"
            self.show([(), ((f" {glyphs.warning} ", "warn"), (why, "text"))])
            return
        cards = self._visible(piece, size.height - 1)
        gaps = size.height >= 1 + len(piece.cards) + len({card.group for card in piece.cards}) - 1
        before = cards[0].group
        for card in cards:
            if gaps and card.group != before:
                lines.append(())
            before = card.group
            self._rows[len(lines)] = card.uuid
            history = piece.history.get(card.uuid, ())
            marked = card.uuid == piece.marked
            lines.append(card_rows.card_row(card, history, shown, size.width, marked, glyphs))
        self.show(lines)

    def _visible(self, piece: CardsSlice, room: int) -> tuple[CardView, ...]:
        cards = piece.cards
        if len(cards) <= room or room < 1:
            return cards
        places = [place for place, card in enumerate(cards) if card.uuid == piece.marked]
        last = max(room, places[0] + 1 if places else room)
        return cards[last - room : last]
