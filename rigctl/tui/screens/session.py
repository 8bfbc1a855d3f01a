"""One request or session in full: what it does, what it cost, where it went and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rigctl.core.flow import RouteRecord, SessionRow
from rigctl.core.reading import Missing
from rigctl.ports import RigClient
from rigctl.tui import words
from rigctl.tui.actions import Keys
from rigctl.tui.endpoint import cluster
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.link import FAULTS
from rigctl.tui.paint import Line
from rigctl.tui.screens.group import field, heading, reading, side_by_side
from rigctl.tui.screens.reading import ReadingScreen
from rigctl.tui.state import PanelState
from rigctl.tui.widgets import session_rows

RULES = {
    "length": "only this cluster's window takes it",
    "home": "its prefix is cached there",
    "free": "the first choice had a free slot",
    "overflow": "the first choice was full",
    "queue": "it waited for the shortest queue",
    "only": "no other cluster takes work now",
    "retry": "sent anew: the first try was lost before a byte",
    "moved": "it left its home, which is away or too small for it",
    "pinned": "only the cluster of its earlier answer knows it",
    "side": "a question beside the answers: it takes no slot",
}
"""What each rule of core.clusters.Why means, for people."""

_FLAGS = {
    "all-thought": "the answer was thought and nothing else",
    "repeats": "the answer repeats itself",
    "resent": "lost before a byte and sent anew",
    "moved": "it left its home; its prompt was read anew",
}


ASK_SECONDS = 5.0
ASKED = 200
"""Decisions that are asked for; the session's last one is among them or long past."""


def detail(
    state: PanelState, row: SessionRow, decision: RouteRecord | None, cells: int, glyphs: Glyphs
) -> list[Line]:
    """Everything the snapshot says of it, and the endpoint's last decision about it in words."""
    now: list[Line] = [heading("Now"), (("  ", "text"), *session_rows.state(row, 60, glyphs))]
    if row.behind:
        now.append(field("waits for", f"session {row.behind}, whose prompt is read", "warn"))
    now += _makes_wait(state, row)
    now += [field(flag, _FLAGS.get(flag, ""), "warn") for flag in row.flags]
    now += [
        field("produced", words.plural(row.produced, "token")),
        reading("speed", row.rate, f"{words.number(row.rate, 1)} tok/s"),
    ]
    who = [
        heading("Whose"),
        field("client", _client(row)),
        field("session", row.session),
        field("turn", str(row.turn)),
        field("request", row.request or "none runs"),
        field("asked at", row.endpoint or words.ABSENT),
    ]
    prompt = [
        heading("Context"),
        reading("tokens", row.context, words.tokens(row.context)),
        reading("from cache", row.cached, _cached(row)),
        reading("of the pool", row.pool_share, words.share(row.pool_share)),
    ]
    route = [
        heading("Route"),
        field("cluster", row.cluster or "none yet"),
        field("rule", f"{row.rule or words.ABSENT}  {RULES.get(row.rule, '')}".rstrip()),
        field("waited", words.duration(round(row.waited, 1))),
        reading("first byte", row.first_byte, f"after {words.brief(row.first_byte)}"),
    ]
    lines = side_by_side([now, who], [route, prompt], cells, glyphs)
    return lines if decision is None else [*lines, (), *_decided(decision)]


def _decided(record: RouteRecord) -> list[Line]:
    """Why it went where it went, as `rigctl route explain` has it."""
    estimate = f"{words.tokens(float(record.tokens))} tokens" if record.tokens else "not estimated"
    how = f", {record.how}" if record.how else ""
    lines = [
        heading("Last decision"),
        field("at", f"{words.clock_seconds(record.wall)} for request {record.request}"),
        field("went to", f"{record.cluster or 'nobody'} by the rule {record.rule}"),
        field("because", record.say),
        field("known by", record.source or "nothing: a new session"),
        field("prompt", f"{estimate}{how}"),
    ]
    if record.status:
        lines.append(field("answered", f"HTTP {record.status}"))
    return lines


def _client(row: SessionRow) -> str:
    if row.client:
        return "no key asked" if row.client == "-" else row.client
    return f"{words.ABSENT}  (told while a request runs)"


def _cached(row: SessionRow) -> str:
    if isinstance(row.cached, Missing) or isinstance(row.context, Missing) or not row.context:
        return words.tokens(row.cached)
    return f"{words.tokens(row.cached)}, {words.share(min(1.0, row.cached / row.context))}"


def _makes_wait(state: PanelState, row: SessionRow) -> list[Line]:
    found = cluster(state.endpoint, row.cluster)
    if found is None or found.culprit != row.session or not found.waiting_behind:
        return []
    return [field("makes wait", " ".join(found.waiting_behind), "warn")]


class SessionScreen(ReadingScreen):
    """The marked one, kept true while it is looked at."""

    own: ClassVar[tuple[str, ...]] = ("abort", "copy")
    over_another: ClassVar[bool] = True
    wrap = True
    hang = True

    def __init__(self, keys: Keys, client: Callable[[], RigClient]) -> None:
        super().__init__(keys)
        self._client = client
        self._asked = ""
        self._decision: RouteRecord | None = None

    def on_mount(self) -> None:
        """Decisions are told a moment after they were made."""
        super().on_mount()
        self.set_interval(ASK_SECONDS, self._ask_again)

    def do_open(self) -> None:
        """This is the detail already."""

    def update_middle(self, state: PanelState) -> None:
        """The text anew; only rows that changed are repainted."""
        row = state.session_row
        if row is not None:
            if self._asked != f"{row.session} {row.request}":
                self._asked = f"{row.session} {row.request}"
                self._ask_again()
            cells, glyphs = self.size.width - 2, self.pager.glyphs
            self.pager.replace(detail(state, row, self._decision, cells, glyphs))
        self.retitle()

    def _ask_again(self) -> None:
        row = self.state.session_row
        if row is not None and not self.state.lost:
            self.run_worker(self._ask(row.session), group="routes", exclusive=True)

    async def _ask(self, session: str) -> None:
        """The newest decision about this session: of the request under way, once it is told."""
        found = None
        try:
            async for record in self._client().routes(ASKED):
                if record.session == session:
                    found = record
        except FAULTS:
            return  # The rule in the row still says which one it was.
        if found != self._decision:
            self._decision = found
            self.update_middle(self.state)

    def title_parts(self) -> tuple[Line, Line]:
        """Whose it is."""
        row = self.state.session_row
        if row is None:
            gone = f"session {self.state.session} is not told of any more"
            return ((gone, "warn"),), ()
        of = f" {self.pager.glyphs.dot} {row.client}" if row.client.strip("-") else ""
        return ((f"session {row.session}", "strong"), (of, "text")), ()

    def copy_text(self) -> tuple[str, str]:
        """The request's id; of a session that rests, its label."""
        row = self.state.session_row
        if row is None:
            return "", ""
        return (row.request, "the request's id") if row.request else (row.session, "the session")
