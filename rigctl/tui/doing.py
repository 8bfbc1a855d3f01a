"""What the panel does itself: marks, screens, themes, the clipboard."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rigctl.tui import acts
from rigctl.tui.screens.base import RigScreen
from rigctl.tui.screens.overview import OverviewScreen

if TYPE_CHECKING:
    from rigctl.tui.app import Panel


def do(panel: Panel, name: str) -> None:
    """Carry out one action; screens are imported when they are first wanted."""
    if name.startswith("group-"):
        _mark(panel, int(name.removeprefix("group-")) - 1)
    elif name in {"next", "previous"}:
        _step(panel, 1 if name == "next" else -1)
    elif name in {"down", "up", "top", "end", "page-down", "page-up"}:
        _move(panel, name)
    elif name in {"open", "sessions", "logs", "plots", "journal", "help"}:
        _open(panel, name)
    elif name == "commands":
        panel.action_command_palette()
    elif name == "back":
        _back(panel)
    elif name == "copy":
        _copy(panel)
    elif name == "copy-address":
        _to_clipboard(panel, panel.state.endpoint.url, "the endpoint's address")
    elif name == "theme":
        _theme(panel)
    elif name == "read-only":
        _read_only(panel)
    elif name == "power":
        acts.begin_power(panel)
    elif name == "quit":
        panel.exit(0)


def _mark(panel: Panel, place: int) -> None:
    groups = panel.state.snapshot.groups if panel.state.snapshot else ()
    if place < len(groups):
        panel.set_state(replace(panel.state, group=groups[place].name, card=""))
    else:
        panel.say(f"there is no group {place + 1}", "warn")


def _step(panel: Panel, by: int) -> None:
    groups = panel.state.snapshot.groups if panel.state.snapshot else ()
    names = [view.name for view in groups]
    if names:
        here = names.index(panel.state.group) if panel.state.group in names else 0
        _mark(panel, (here + by) % len(names))


def _move(panel: Panel, name: str) -> None:
    cards = panel.state.snapshot.cards if panel.state.snapshot else ()
    if not cards or not (isinstance(panel.screen, OverviewScreen)):
        return
    places = [place for place, card in enumerate(cards) if card.uuid == panel.state.card]
    last = len(cards) - 1
    here = places[0] if places else (-1 if name in {"down", "page-down"} else last + 1)
    to = {"down": here + 1, "up": here - 1, "top": 0, "page-up": 0}.get(name, last)
    panel.set_state(replace(panel.state, card=cards[max(0, min(last, to))].uuid))


def _open(panel: Panel, name: str) -> None:
    screen = _screen(panel, name)
    if isinstance(panel.screen, type(screen)):
        return
    if isinstance(panel.screen, RigScreen) and panel.screen.over_another:
        panel.pop_screen()
    # Only one screen lies over the overview, save for a session's detail: back leads there.
    if isinstance(panel.screen, OverviewScreen) or not isinstance(panel.screen, RigScreen):
        panel.push_screen(screen)
    else:
        panel.switch_screen(screen)
    if name != "sessions":
        panel.set_state(replace(panel.state, request="", session=""))
    screen.state = panel.state


def _screen(panel: Panel, name: str) -> RigScreen:
    client = lambda: panel.link.client  # noqa: E731 - a loss makes another client
    if name == "logs":
        from rigctl.tui.screens.logs import LogsScreen

        return LogsScreen(panel.keys, client)
    if name == "journal":
        from rigctl.tui.screens.journal import JournalScreen

        return JournalScreen(panel.keys, client)
    if name == "plots":
        from rigctl.tui.screens.plots import PlotsScreen

        return PlotsScreen(panel.keys, client)
    if name == "sessions":
        from rigctl.tui.screens.sessions import SessionsScreen

        return SessionsScreen(panel.keys, client)
    if name == "help":
        from rigctl.tui.screens.help import HelpScreen

        return HelpScreen(panel.keys)
    if panel.state.card:
        from rigctl.tui.screens.card import CardScreen

        return CardScreen(panel.keys)
    from rigctl.tui.screens.group import GroupScreen

    return GroupScreen(panel.keys)


def _back(panel: Panel) -> None:
    if isinstance(panel.screen, OverviewScreen):
        panel.set_state(replace(panel.state, card="", said=None))
    elif isinstance(panel.screen, RigScreen):
        if not panel.screen.over_another:
            panel.set_state(replace(panel.state, request="", session=""))
        panel.pop_screen()


def _copy(panel: Panel) -> None:
    screen = panel.screen
    text, what = screen.copy_text() if isinstance(screen, RigScreen) else ("", "")
    if not text:
        panel.say("nothing to copy here", "warn")
        return
    _to_clipboard(panel, text, what)


def _to_clipboard(panel: Panel, text: str, what: str) -> None:
    panel.copy_to_clipboard(text)
    panel.say(f"copied {what} (by OSC 52; tmux needs `set -g set-clipboard on`)")


def _theme(panel: Panel) -> None:
    names = [name for name in panel.available_themes if name.startswith("rig-")]
    if not names:
        panel.say("no theme file was found; the panel keeps Textual's own", "warn")
        return
    here = names.index(panel.theme) if panel.theme in names else -1
    panel.theme = names[(here + 1) % len(names)]
    panel.say(f"theme {panel.theme.removeprefix('rig-')}")


def _read_only(panel: Panel) -> None:
    snapshot = panel.state.snapshot
    if snapshot is not None and snapshot.read_only:
        panel.say("the daemon lets this user look, not act; see `rigctl doctor`", "warn")
        return
    only = not panel.state.read_only
    panel.set_state(replace(panel.state, read_only=only))
    panel.say("read-only: acts are off until ! is pressed again" if only else "acts are on again")
