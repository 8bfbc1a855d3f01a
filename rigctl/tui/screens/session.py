"""One request or session in full: what it does, what it cost, where it went and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rigctl.core.flow import SessionRow
from rigctl.core.reading import Missing
from rigctl.ports import RigClient
from rigctl.tui import words
from rigctl.tui.actions import Keys
from rigctl.tui.endpoint import cluster
from rigctl.tui.glyphs import Glyphs
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


def detail(state: PanelState, row: SessionRow, cells: int, glyphs: Glyphs) -> list[Line]:
    """Everything the snapshot says of it."""
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
        field("client", "no key asked" if row.client == "-" else row.client),
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
    return side_by_side([now, who], [route, prompt], cells, glyphs)


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

    def do_open(self) -> None:
        """This is the detail already."""

    def update_middle(self, state: PanelState) -> None:
        """The text anew; only rows that changed are repainted."""
        row = state.session_row
        if row is not None:
            self.pager.replace(detail(state, row, self.size.width - 2, self.pager.glyphs))
        self.retitle()

    def title_parts(self) -> tuple[Line, Line]:
        """Whose it is."""
        row = self.state.session_row
        if row is None:
            gone = f"session {self.state.session} is not told of any more"
            return ((gone, "warn"),), ()
        of = "" if row.client == "-" else f" {self.pager.glyphs.dot} {row.client}"
        return ((f"session {row.session}", "strong"), (of, "text")), ()

    def copy_text(self) -> tuple[str, str]:
        """The request's id; of a session that rests, its label."""
        row = self.state.session_row
        if row is None:
            return "", ""
        return (row.request, "the request's id") if row.request else (row.session, "the session")
