"""The panel: one link, one frozen state, keys from the registry, screens that take the state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding
from textual.command import Provider
from textual.filter import NoColor
from textual.screen import Screen

from rigctl.core.snapshot import Snapshot
from rigctl.tui import acts, themes
from rigctl.tui.actions import ACTIONS, BY_ID, Keys
from rigctl.tui.ascii_filter import AsciiFilter
from rigctl.tui.glyphs import UNICODE, Glyphs
from rigctl.tui.link import (
    FAULTS,
    ClientFactory,
    Link,
    LinkDown,
    Revive,
    Revived,
    SnapshotArrived,
)
from rigctl.tui.rings import WattRings
from rigctl.tui.screens.base import RigScreen
from rigctl.tui.screens.overview import OverviewScreen
from rigctl.tui.state import Asked, PanelState, Said
from rigctl.tui.widgets.card_rows import SPARK
from rigctl.tui.widgets.card_table import CardTable
from rigctl.tui.widgets.cover import too_small
from rigctl.tui.widgets.group_panel import GroupPanel

SILENT_SECONDS = 30.0
"""Without any word for that long the daemon counts as lost, though the connection stands."""
SAID_SECONDS = 8.0
OUTCOME_SECONDS = 60.0
"""How long the end of an operation stays on the overview."""


def _palette() -> type[Provider]:
    from rigctl.tui.palette import RigCommands

    return RigCommands


class Panel(App[int], inherit_bindings=False):
    """Shows what the daemon says and sends what a person asks; decides nothing about the rig."""

    CSS_PATH = "styles/app.tcss"
    COMMANDS: ClassVar[set[Any]] = {_palette}
    COMMAND_PALETTE_BINDING = ""
    ENABLE_COMMAND_PALETTE = True
    TITLE = "rigctl"

    def __init__(
        self,
        client_factory: ClientFactory,
        *,
        read_only: bool = False,
        theme: str | None = None,
        glyphs: Glyphs = UNICODE,
        keys: Mapping[str, str] | None = None,
        revive: Revive | None = None,
    ) -> None:
        super().__init__()
        self.animation_level = "none"
        self.glyphs = glyphs
        if glyphs.ascii:
            self._filters.append(AsciiFilter())
        if self.no_color:
            # Textual turns colours into greys; the wish was for none at all (C97).
            self._filters.append(NoColor())
        self.keys = Keys(dict(keys or {}))
        for action in ACTIONS:
            if self.keys.of(action.id):
                self._bindings.key_to_bindings.update(_bound(self.keys, action.id))
        self.state = PanelState(read_only=read_only)
        self.link = Link(client_factory, self.post_message, revive)
        self._rings = WattRings(SPARK)
        self._wish = theme
        self._heard = time.monotonic()
        self._in_progress: set[int] = set()
        self._epoch = ""
        self._said = 0

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colours, for themes that lack them."""
        return themes.DEFAULTS

    def get_default_screen(self) -> Screen[None]:
        """The overview."""
        return OverviewScreen(self.keys, self._rings.series)

    def on_mount(self) -> None:
        """Themes, the link, the watch for silence."""
        found, complaints = themes.load()
        wish = themes.add_file(self._wish, found, complaints)
        for theme in found:
            self.register_theme(theme)
        self.theme, sorry = themes.pick(wish, found)
        for text in [*self.keys.complaints, *complaints, *([sorry] if sorry else [])][:1]:
            self.say(text, "warn")
        self.app_resume_signal.subscribe(self, self._paint_anew)
        self.run_worker(self.link.follow(), name="link", exclusive=True)
        self._age = self.set_interval(1.0, self._grow_old, pause=True)
        self.set_interval(5.0, self._listen)

    async def on_unmount(self) -> None:
        """Let go of the socket."""
        await self.link.close()

    def _paint_anew(self, _: object) -> None:
        """Back from a stop (ctrl+z and fg): what stood on the terminal is gone."""
        self.screen.refresh()

    def set_state(self, state: PanelState) -> None:
        """The one place where the panel's state changes; the screens on show take it."""
        self.state = state
        for screen in reversed(self.screen_stack):
            if isinstance(screen, RigScreen):
                screen.take(state)
                break
            redraw = getattr(screen, "redraw", None)
            if redraw is not None and screen.is_mounted:
                redraw()

    def on_snapshot_arrived(self, message: SnapshotArrived) -> None:
        """The daemon's word: it replaces everything but the marks."""
        snapshot = message.snapshot
        self._heard = time.monotonic()
        first = self.state.snapshot is None or snapshot.epoch != self._epoch
        self._epoch = snapshot.epoch
        self._rings.add(snapshot)
        names = [view.name for view in snapshot.groups]
        group = self.state.group
        if group not in names:
            group = snapshot.free_means if snapshot.free_means in names else "".join(names[:1])
        known = {operation.id for operation in snapshot.operations}
        asked = (
            () if first else tuple(one for one in self.state.asked if one.operation not in known)
        )
        self._age.pause()
        self.set_state(
            replace(
                self.state,
                snapshot=snapshot,
                group=group,
                asked=asked,
                ended=self._ended(snapshot, first),
                lost="",
                lost_seconds=0.0,
            )
        )
        if first:
            self.run_worker(self._prime(), group="prime", exclusive=True)

    def on_link_down(self, message: LinkDown) -> None:
        """What is shown grows old from now on."""
        if not self.state.lost:
            self.set_state(replace(self.state, lost=message.why))
        self._grow_old()
        self._age.resume()

    def on_revived(self, message: Revived) -> None:
        """The daemon had died and was started anew."""
        self.say(message.say)

    def on_group_panel_picked(self, message: GroupPanel.Picked) -> None:
        """A click on a group."""
        self.set_state(replace(self.state, group=message.group, card=""))

    def on_card_table_picked(self, message: CardTable.Picked) -> None:
        """A click on a card."""
        self.set_state(replace(self.state, card=message.card))

    def say(self, text: str, role: str = "text") -> None:
        """Answer the person at the keys, for a while."""
        self._said += 1
        mine = self._said
        self.set_state(replace(self.state, said=Said(text, role)))

        def forget() -> None:
            if mine == self._said:
                self.set_state(replace(self.state, said=None))

        self.set_timer(SAID_SECONDS, forget)

    def asked(self, asked: Asked) -> None:
        """The daemon took a command: shown as asked until a snapshot has its operation."""
        operations = self.state.snapshot.operations if self.state.snapshot else ()
        if all(operation.id != asked.operation for operation in operations):
            self.set_state(replace(self.state, asked=(*self.state.asked, asked)))

    async def action_act(self, name: str) -> None:
        """Do an action of the registry, or say why it cannot be done now."""
        action = BY_ID[name]
        why = action.unavailable(self.state)
        if too_small(self.size) and name != "quit":
            return
        if why:
            self.say(why, "warn")
        elif action.command is not None:
            acts.begin(self, action)
        else:
            method = f"do_{name.replace('-', '_')}"
            for owner in (self.screen, self):
                handler = getattr(owner, method, None)
                if handler is not None and handler() is not False:
                    return
            from rigctl.tui import doing

            doing.do(self, name)

    def _ended(self, snapshot: Snapshot, first: bool) -> tuple[int, ...]:
        """Operations that this panel saw running, or asked for, and that ended since."""
        ours = {asked.operation for asked in self.state.asked}
        running = {one.id for one in snapshot.operations if one.state == "running"}
        ended = [
            one.id
            for one in snapshot.operations
            if one.state != "running" and (one.id in self._in_progress or one.id in ours)
        ]
        self._in_progress = running
        fresh = () if first else tuple(one for one in ended if one not in self.state.ended)
        for one in fresh:
            self.set_timer(OUTCOME_SECONDS, lambda one=one: self._forget(one))
        kept = () if first else self.state.ended
        return (*kept, *fresh)

    def _forget(self, operation: int) -> None:
        ended = tuple(one for one in self.state.ended if one != operation)
        self.set_state(replace(self.state, ended=ended))

    def _grow_old(self) -> None:
        age = time.monotonic() - self._heard
        # Minutes are enough once it is minutes: nothing repaints for its own sake.
        self.set_state(replace(self.state, lost_seconds=age if age < 120 else age // 60 * 60))

    def _listen(self) -> None:
        silent = time.monotonic() - self._heard
        if silent > SILENT_SECONDS and not self.state.lost and self.state.snapshot is not None:
            self.on_link_down(LinkDown("the daemon is connected but says nothing"))

    async def _prime(self) -> None:
        try:
            history = await self.link.client.history(60.0)
        except FAULTS:
            return  # The sparkline fills by itself within a minute.
        self._rings.prime(history)


def _bound(keys: Keys, name: str) -> dict[str, list[Binding]]:
    """One action's bindings, by key."""
    made = Binding(keys.of(name), f"act('{name}')", BY_ID[name].word, show=False, id=name)
    found: dict[str, list[Binding]] = {}
    for binding in Binding.make_bindings([made]):
        found.setdefault(binding.key, []).append(binding)
    return found
