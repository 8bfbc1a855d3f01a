"""Who asks what of the rig now: requests and sessions of the endpoint, and its clients' sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.widget import Widget

from rigctl.core.flow import SessionRow
from rigctl.core.snapshot import EndpointView
from rigctl.ports import RigClient
from rigctl.tui.actions import Keys
from rigctl.tui.endpoint import address, queue, sign, told
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, joined, spread, width
from rigctl.tui.screens.filtering import Filtering
from rigctl.tui.state import PanelState
from rigctl.tui.widgets import client_rows, session_rows
from rigctl.tui.widgets.client_rows import Clients
from rigctl.tui.widgets.lines import Lines
from rigctl.tui.widgets.session_table import SessionsSlice, SessionTable

if TYPE_CHECKING:
    from rigctl.tui.app import Panel

_NONE = (
    "This rig has no endpoint: [proxy] in rig.toml gives one address in front of all groups "
    "(rigctl config init writes an example)."
)


def counts(endpoint: EndpointView) -> Line:
    """`5 run   2 queued, oldest 41 s   9 rest`: of all, whatever the filter shows."""
    rows = endpoint.rows
    stands = [session_rows.standing(row) for row in rows.sessions]
    rest = stands.count(2) + rows.more_sessions
    run: Line = ((f"{stands.count(0)} run", "text"),)
    return joined([run, queue(endpoint), ((f"{rest} rest", "dim"),)])


def title_line(endpoint: EndpointView, needle: str, place: str, cells: int, glyphs: Glyphs) -> Line:
    """What runs and waits at the left; filter, place and endpoint at the right."""
    glyph, word, role = sign(endpoint, glyphs)
    left: Line = (("sessions", "strong"),)
    if endpoint.rows.at:
        left = (*left, ("   ", "text"), *counts(endpoint))
    if needle:
        left = (*left, (f"   only: {needle}", "accent"))
    state: Line = ((f"{glyph} {word}", role),)
    where: Line = ((address(endpoint), "text"),) if endpoint.url else ()
    shown: Line = ((place, "dim"),) if place else ()
    right = joined([shown, state, where], limit=cells - width(left) - 3)
    return spread(left, right, cells, glyphs)


def empty(endpoint: EndpointView, needle: str) -> str:
    """What stands there instead of rows: why there are none, and the next step."""
    if endpoint.state == "none":
        return _NONE
    if endpoint.rows.sessions and needle:
        return f"No session has “{needle}”; esc shows all."
    if not told(endpoint):
        say = endpoint.say or "it does not tell of its traffic"
        advice = f" Next: {endpoint.advice}" if endpoint.advice else ""
        return f"The endpoint is {endpoint.state.replace('_', ' ')}: {say}.{advice}"
    return f"Nobody has asked anything yet. Clients reach the rig at {endpoint.url}/v1"


class SessionsScreen(Filtering):
    """A table with a mark; what is marked is what abort and detail mean."""

    own: ClassVar[tuple[str, ...]] = ("abort", "open", "filter", "copy")
    filtered = "sessions"

    def __init__(self, keys: Keys, client: Callable[[], RigClient]) -> None:
        super().__init__(keys)
        self._client = client
        self._needle = ""
        self._rows: tuple[SessionRow, ...] = ()

    def middle(self) -> list[Widget]:
        """Title, table, clients."""
        return [Lines("title"), SessionTable("sessions"), Clients("clients")]

    @property
    def needle(self) -> str:
        """What is looked for now."""
        return self._needle

    def apply_filter(self, needle: str) -> None:
        """Rows with every word of it in some field."""
        self._needle = needle
        self._update(self.state)

    def update_middle(self, state: PanelState) -> None:
        """Rows in their order, the mark where it was, the clients below."""
        self._update(state)

    def on_resize(self, event: events.Resize) -> None:
        """Other room: other shares."""
        super().on_resize(event)
        if self.drawn:
            self._update(self.state)
            self.call_after_refresh(self._retitle)

    def _update(self, state: PanelState) -> None:
        endpoint = state.endpoint
        rows = session_rows.ordered(endpoint.rows.sessions)
        self._rows = tuple(row for row in rows if session_rows.matches(row, self._needle))
        marked = self._marked(state)
        if marked is None and self._rows:
            self.call_later(self._mark_first)
        table = self.query_one(SessionTable)
        table.slice = SessionsSlice(self._rows, marked, empty(endpoint, self._needle))
        clients = self.query_one(Clients)
        old = endpoint.state != "none" and not told(endpoint)
        for widget in (table, clients):
            widget.set_grey(bool(state.lost) or (old and bool(endpoint.rows.sessions)))
        height = client_rows.wanted(endpoint.rows, self.size.width - 2, self.size.height - 4)
        value = clients.styles.height
        if value is None or value.value != height:
            clients.styles.height = height
        clients.slice = endpoint.rows
        self._retitle()

    def _marked(self, state: PanelState) -> SessionRow | None:
        row = state.session_row
        return next((one for one in self._rows if one is row), None)

    def _retitle(self) -> None:
        title = self.query_one("#title", Lines)
        place = self.query_one(SessionTable).place()
        cells = max(0, self.size.width - 2)
        title.show([title_line(self.state.endpoint, self._needle, place, cells, title.glyphs)])

    def on_session_table_picked(self, message: SessionTable.Picked) -> None:
        """A click on a row."""
        self._mark(message.row)

    def _mark(self, row: SessionRow) -> None:
        panel = cast("Panel", self.app)
        panel.set_state(replace(panel.state, request=row.request, session=row.session))

    def _mark_first(self) -> None:
        """A table has a mark as long as it has rows; not once this screen was left."""
        if self.is_current and self._rows and self._marked(self.state) is None:
            self._mark(self._rows[0])

    def _step(self, by: int) -> None:
        """Move the mark; without one the first step down marks the first row."""
        if not self._rows:
            return
        marked = self._marked(self.state)
        places = [at for at, row in enumerate(self._rows) if row is marked]
        here = places[0] if places else (-1 if by > 0 else len(self._rows))
        self._mark(self._rows[max(0, min(len(self._rows) - 1, here + by))])

    def do_down(self) -> None:
        """The next row."""
        self._step(1)

    def do_up(self) -> None:
        """The row before."""
        self._step(-1)

    def do_page_down(self) -> None:
        """One page on."""
        self._step(self.query_one(SessionTable).page())

    def do_page_up(self) -> None:
        """One page back."""
        self._step(-self.query_one(SessionTable).page())

    def do_top(self) -> None:
        """The first row."""
        self._step(-len(self._rows) - 1)

    def do_end(self) -> None:
        """The last row."""
        self._step(len(self._rows) + 1)

    def do_open(self) -> None:
        """The marked one in full."""
        from rigctl.tui.screens.session import SessionScreen

        panel = cast("Panel", self.app)
        if self._marked(self.state) is None:
            panel.say("no session is marked; j marks the next one", "warn")
            return
        screen = SessionScreen(self.keys, self._client)
        panel.push_screen(screen)
        screen.state = panel.state

    def copy_text(self) -> tuple[str, str]:
        """The marked request's id; of a session that rests, its label; else the address."""
        row = self._marked(self.state)
        if row is None:
            return self.state.endpoint.url, "the endpoint's address"
        return (row.request, "the request's id") if row.request else (row.session, "the session")
