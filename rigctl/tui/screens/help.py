"""Keys and what they do, from the registry, and what the signs mean."""

from __future__ import annotations

from rigctl.tui import actions
from rigctl.tui.actions import Keys
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line
from rigctl.tui.screens.reading import ReadingScreen
from rigctl.tui.state import PanelState

_SECTIONS = {
    "act": "Act on the marked group",
    "look": "Look",
    "sessions": "On the sessions screen",
    "logs": "In logs and journal",
    "plots": "In plots",
    "move": "Move",
    "panel": "Panel",
}


_NOTES = (
    "Yes to a question is the action's own key, pressed again after a moment; esc and enter mean",
    "no. Keys can be changed in [keys] of rig.toml, by the names that stand in brackets in `:`.",
)


def help_lines(keys: Keys, state: PanelState, glyphs: Glyphs) -> list[Line]:
    """One line an action; why it cannot be done now, where that is so."""
    lines: list[Line] = []
    for section, name in _SECTIONS.items():
        lines += [((name, "strong"),)]
        for action in actions.ACTIONS:
            if action.section != section:
                continue
            shown = keys.all_shown(action.id) or f": {action.word}"
            why = action.unavailable(state) if section in {"act", "look"} else ""
            lines.append((("  ", "text"), (f"{shown:<20}", "accent"), (action.help, "text")))
            if why:
                lines.append(((f"{'':22}not now: {why}", "dim"),))
        lines.append(())
    lines += [
        (("Signs", "strong"),),
        _sign(glyphs.ready, "good", "ready", glyphs.busy, "accent", "starting, draining, stopping"),
        _sign(glyphs.open_ring, "accent", "lent or off", glyphs.warning, "warn", "look at this"),
        _sign(glyphs.failed, "bad", "failed, hung, lost", "!", "bad", "hot, or over 100 %"),
        (("  pool  ", "dim"), (glyphs.full * 4, "used"), (" used  ", "text"),
         (glyphs.cached * 4, "cached"), (" cached, gives way  ", "text"),
         (glyphs.track * 4, "track"), (" free", "text")),
        (("  --    ", "dim"), ("no figure; the detail screens say why", "text")),
        (),
        *(((text, "dim"),) for text in _NOTES),
    ]  # fmt: skip
    return lines


def _sign(one: str, role: str, text: str, two: str, other: str, more: str) -> Line:
    return ((f"  {one}     ", role), (f"{text:<24}", "text"), (f"{two}  ", other), (more, "text"))


class HelpScreen(ReadingScreen):
    """The help."""

    wrap = True

    def update_middle(self, state: PanelState) -> None:
        """Availability changes with the state."""
        self.pager.replace(help_lines(self.keys, state, self.pager.glyphs))
        self.retitle()

    def title_parts(self) -> tuple[Line, Line]:
        """Help, and the version it is for."""
        snapshot = self.state.snapshot
        version = f"rigctl {snapshot.rigctl}" if snapshot else ""
        return (("help", "strong"),), ((version, "dim"),) if version else ()
