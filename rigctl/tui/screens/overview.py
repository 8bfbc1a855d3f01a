"""The rig on one screen: groups, cards, what is asked, what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.containers import Horizontal
from textual.widget import Widget

from rigctl.core.reading import Missing, Reading
from rigctl.core.snapshot import CardView, GroupView
from rigctl.tui.actions import BY_ID, Keys
from rigctl.tui.endpoint import client_of, cluster
from rigctl.tui.paint import Line
from rigctl.tui.screens.base import RigScreen
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.card_table import CardsSlice, CardTable
from rigctl.tui.widgets.endpoint_line import EndpointLine
from rigctl.tui.widgets.feed import Feed
from rigctl.tui.widgets.group_panel import GroupPanel, GroupSlice

LEAST_GROUP = 30
"""Cells a group needs to be readable."""


def _free(cards: tuple[CardView, ...]) -> Reading:
    """Bytes of the cards that nobody holds; the first card that cannot tell says why."""
    total = 0.0
    for card in cards:
        for reading, sign in (
            (card.memory_total, 1),
            (card.memory_used, -1),
            (card.memory_reserved, -1),
        ):
            if not isinstance(reading, Missing):
                total += sign * reading
            elif reading is not card.memory_reserved:
                return reading
    return total


class OverviewScreen(RigScreen):
    """Heights are shared out by what the terminal has: cards first, then groups, then events."""

    own: ClassVar[tuple[str, ...]] = ()

    def __init__(self, keys: Keys, history: Callable[[str], tuple[Reading, ...]]) -> None:
        super().__init__(keys)
        self._history = history

    def middle(self) -> list[Widget]:
        """Groups side by side, the endpoint, cards, feed."""
        return [Horizontal(id="groups"), EndpointLine("endpoint"), CardTable("cards"), Feed("feed")]

    def update_middle(self, state: PanelState) -> None:
        """Slices for every widget; group panels are made when the set of groups changes."""
        snapshot = state.snapshot
        self.query_one(Feed).slice = state
        if snapshot is None:
            return
        cards = tuple(snapshot.cards)
        history = {card.uuid: self._history(card.uuid) for card in cards}
        table = self.query_one(CardTable)
        table.slice = CardsSlice(cards, state.card, snapshot.nvml, history)
        visible = self._visible(snapshot.groups, state.group)
        box = self.query_one("#groups", Horizontal)
        panels = list(box.query(GroupPanel))
        for panel in panels[len(visible) :]:
            panel.remove()
        while len(panels) < len(visible):
            panel = GroupPanel()
            panels.append(panel)
            box.mount(panel)
        minute = snapshot.wall
        for panel, view in zip(panels, visible, strict=False):
            indexes = tuple(card.index for card in state.cards_of(view.name))
            marked = view.name == state.group
            hint: Line = ()
            if marked and not BY_ID["reclaim"].unavailable(state):
                hint = ((self.keys.shown("reclaim"), "accent"), (" reclaim", "text"))
            row = cluster(snapshot.endpoint, view.name)
            culprit = client_of(snapshot.endpoint, row.culprit) if row and row.culprit else ""
            panel.slice = GroupSlice(
                view, indexes, marked, minute, hint, _free(state.cards_of(view.name)), row, culprit
            )
        line = self.query_one(EndpointLine)
        line.display = snapshot.endpoint.state != "none"
        line.slice = (
            snapshot.endpoint,
            ((self.keys.shown("sessions"), "accent"), (" sessions", "text")),
        )
        self._share_heights()

    def on_resize(self, event: events.Resize) -> None:
        """Other room: other shares, maybe more or fewer groups side by side."""
        if self.state.snapshot is not None and self.drawn:
            self.update_middle(self.state)

    def copy_text(self) -> tuple[str, str]:
        """The marked card's UUID, else the marked group's address."""
        if self.state.card:
            return self.state.card, "the card's UUID"
        view = self.state.view
        return (view.url, f"{view.name}'s address") if view else ("", "")

    def _visible(self, groups: tuple[GroupView, ...], marked: str) -> tuple[GroupView, ...]:
        fit = max(1, min(len(groups), self.size.width // LEAST_GROUP))
        places = [place for place, view in enumerate(groups) if view.name == marked]
        last = max(fit, places[0] + 1 if places else fit)
        return groups[last - fit : last]

    def _share_heights(self) -> None:
        table = self.query_one(CardTable)
        room = self.size.height - 2 - int(self.query_one(EndpointLine).display)
        groups = 10 if room >= 30 else 9 if room >= 26 else 8 if room >= 21 else 7
        cards = table.wanted_height(room - groups - 4)
        cards = max(2, min(cards, room - groups - 2))
        row = self.query_one("#groups", Horizontal)
        for widget, height in ((row, groups), (table, cards)):
            value = widget.styles.height
            if value is None or value.value != height:
                widget.styles.height = height
