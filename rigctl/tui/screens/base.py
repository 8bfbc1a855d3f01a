"""What every screen has: header, key bar, and one way to take the panel's state."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from rigctl.tui.actions import Keys
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.cover import Cover, too_small
from rigctl.tui.widgets.header import Header
from rigctl.tui.widgets.keybar import KeyBar
from rigctl.tui.widgets.lines import RoleStyles


class RigScreen(Screen[None], inherit_bindings=False):
    """Keys live on the app, made from the registry; a screen answers `do_<action>` methods."""

    own: ClassVar[tuple[str, ...]] = ()
    """Actions of this screen that its key bar names first."""
    over_another: ClassVar[bool] = False
    """Lies over another screen than the overview; back leads there."""

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self.keys = keys
        self.state = PanelState()
        self.drawn = False
        """Whether the widgets are there to take a state."""

    def compose(self) -> ComposeResult:
        """Header, the screen's own middle, key bar."""
        yield Header("header")
        yield from self.middle()
        yield KeyBar(self.keys, self.own)
        yield Cover("cover")

    def middle(self) -> list[Widget]:
        """The screen's own widgets."""
        return []

    def take(self, state: PanelState) -> None:
        """A new state: hand slices on; a lost daemon greys what it told."""
        self.state = state
        if not self.drawn:
            return
        for widget in self.query(RoleStyles):
            if not isinstance(widget, KeyBar):
                widget.set_grey(bool(state.lost) and not isinstance(widget, Header))
        self.query_one(Header).slice = state
        self.query_one(KeyBar).slice = state
        self.update_middle(state)

    def on_mount(self) -> None:
        """Draw at once with what is known."""
        self.drawn = True
        self.take(self.state)

    def on_screen_resume(self) -> None:
        """Another screen lay over this one: take what came meanwhile."""
        now = getattr(self.app, "state", self.state)
        assert isinstance(now, PanelState)
        self.take(now)

    def on_resize(self, event: events.Resize) -> None:
        """Cover everything while the window is too small, uncover when it is not."""
        self.set_class(too_small(event.size), "-small")

    def update_middle(self, state: PanelState) -> None:
        """Hand the middle its slices."""

    def copy_text(self) -> tuple[str, str]:
        """What the copy key takes, and what to call it."""
        return "", ""
