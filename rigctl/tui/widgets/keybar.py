"""The last line: the keys that matter here, made from the registry."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.reactive import var

from rigctl.tui import actions
from rigctl.tui.actions import Action, Keys
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, fit
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.lines import Lines

_SHORT = {"sleep-on-idle": "sleep", "start/stop": "start", "commands": "menu"}

_DROP = ("sleep", "plots", "toggle", "free", "journal", "sessions", "commands", "logs", "reclaim")
"""What goes first where the footer is narrow; each is in the palette and the help."""


def footer_actions(state: PanelState, own: tuple[str, ...]) -> list[Action]:
    """The screen's own actions first, then the panel's by rank; reclaim only while it can be."""
    ranked = sorted((one for one in actions.ACTIONS if one.footer), key=lambda one: one.footer)
    shown = [actions.BY_ID[name] for name in own]
    for action in ranked:
        lent = action.id == "reclaim" and action.unavailable(state)
        freed = action.id == "free" and state.view is not None and state.view.lease is not None
        if lent or freed or action in shown:
            continue
        shown.append(action)
    snapshot = state.snapshot
    if state.read_only or (snapshot is not None and snapshot.read_only):
        # On a screen of its own an act that is off is not offered at all.
        shown = [one for one in shown if one.command is None or one.id not in own]
    return shown


def parts(
    state: PanelState, keys: Keys, own: tuple[str, ...], cells: int
) -> list[tuple[Action, str, str]]:
    """Action, key and word of each that fits; the least important go first, help stays."""
    shown = footer_actions(state, own)
    gap = 3
    table = [(action, keys.shown(action.id), actions.word(action, state)) for action in shown]
    if _size(table, gap) > cells:
        table = [(action, key, _SHORT.get(word, word)) for action, key, word in table]
    while _size(table, 2) > cells and len(table) > 1:
        name = next((name for name in _DROP if any(one[0].id == name for one in table)), "")
        table = [one for one in table if one[0].id != name] if name else table[:-1]
    return table


def _size(table: list[tuple[Action, str, str]], gap: int) -> int:
    return sum(len(key) + 1 + len(word) for _, key, word in table) + gap * (len(table) - 1) + 2


def keybar_line(
    state: PanelState, keys: Keys, own: tuple[str, ...], cells: int, glyphs: Glyphs
) -> tuple[Line, list[tuple[int, int, str]]]:
    """The line, and which cells belong to which action."""
    table = parts(state, keys, own, cells)
    gap = 3 if _size(table, 3) <= cells else 2
    out: list[tuple[str, str]] = [(" ", "text")]
    zones: list[tuple[int, int, str]] = []
    x = 1
    for place, (action, key, word) in enumerate(table):
        if place:
            out.append((" " * gap, "text"))
            x += gap
        can = not action.unavailable(state)
        out += [(key, "accent" if can else "dim"), (f" {word}", "text" if can else "dim")]
        zones.append((x, x + len(key) + 1 + len(word), action.id))
        x += len(key) + 1 + len(word)
    return fit(tuple(out), cells, glyphs), zones


class KeyBar(Lines):
    """Shows the keys; a click is as good as the key."""

    ALLOW_SELECT: ClassVar[bool] = False

    slice: var[PanelState] = var(PanelState())

    def __init__(self, keys: Keys, own: tuple[str, ...] = ()) -> None:
        super().__init__("keybar")
        self._keys = keys
        self._own = own
        self._zones: list[tuple[int, int, str]] = []

    def watch_slice(self, new: PanelState) -> None:
        """Draw what changed."""
        self._redraw()

    def on_resize(self) -> None:
        """Other width, other keys."""
        self._redraw()

    async def on_click(self, event: events.Click) -> None:
        """Do what the key would."""
        for left, right, name in self._zones:
            if left <= event.x < right:
                await self.app.run_action(f"act('{name}')")

    def _redraw(self) -> None:
        if self.size.width > 2:
            line, self._zones = keybar_line(
                self.slice, self._keys, self._own, self.size.width, self.glyphs
            )
            self.show([line])
