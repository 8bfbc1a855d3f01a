"""Per-client totals under the sessions: who asks how much, and what the endpoint cannot do here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.reactive import var

from rigctl.core.flow import ClientRow, FlowRows
from rigctl.tui import words
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, fit, wrapped
from rigctl.tui.widgets.lines import Lines

Figure = Callable[[ClientRow], str]

_COLUMNS: tuple[tuple[str, int, int, Figure], ...] = (
    ("running", 7, 0, lambda row: _running(row)),
    ("requests", 8, 0, lambda row: str(row.requests)),
    ("failed", 6, 0, lambda row: str(row.failed)),
    ("cancelled", 9, 5, lambda row: str(row.cancelled)),
    ("prompt", 6, 1, lambda row: words.tokens(row.prompt_tokens)),
    ("cached", 6, 1, lambda row: words.tokens(row.cached_tokens)),
    ("output", 6, 1, lambda row: words.tokens(row.output_tokens)),
    ("thinking", 8, 2, lambda row: words.tokens(row.thinking_tokens)),
    ("uncounted", 9, 6, lambda row: str(row.uncounted)),
)
"""Name, cells, rank (the highest goes first) and figure."""

LEAD, GAP, OFF = 2, 2, 12
ROOMY = 100
"""Cells from which a client's name has twelve of them."""


def _running(row: ClientRow) -> str:
    return str(row.running) if row.limit is None else f"{row.running} of {row.limit}"


def ordered(clients: Sequence[ClientRow]) -> tuple[ClientRow, ...]:
    """Who runs something first, then who asked most; equal ones by name."""
    return tuple(sorted(clients, key=lambda row: (-row.running, -row.requests, row.client)))


def client_lines(rows: FlowRows, cells: int, height: int, glyphs: Glyphs) -> list[Line]:
    """At most that many rows: a rule, names of columns, clients, then what is off here."""
    if height < 3 or not rows.clients:
        return []
    shown = list(_COLUMNS)
    named = 12 if cells >= ROOMY else 10
    while LEAD + named + sum(size + GAP for _, size, _, _ in shown) > cells:
        worst = max(shown, key=lambda column: column[2])
        if worst[2] == 0:
            break
        shown.remove(worst)
    name = f"{'client':<{named}}"
    names = "".join(f"{' ' * GAP}{text:>{size}}" for text, size, _, _ in shown)
    lines: list[Line] = [((glyphs.rule * cells, "edge"),), ((f"{' ' * LEAD}{name}{names}", "dim"),)]
    clients = ordered(rows.clients)
    room = height - 2
    whole = clients if len(clients) <= room else clients[: room - 1]
    for row in whole:
        who = fit(((row.client, "strong"),), named, glyphs)
        figures = tuple(_cell(text, size, figure(row), row) for text, size, _, figure in shown)
        lines.append(((" " * LEAD, "text"), *who, *figures))
    if len(whole) < len(clients):
        more = words.plural(len(clients) - len(whole), "more client")
        lines.append(((f"{' ' * LEAD}{more}: ", "dim"), ("rigctl sessions", "accent")))
    lines += _off(rows, cells, height - len(lines))
    return [fit(line, cells, glyphs) for line in lines[:height]]


def _off(rows: FlowRows, cells: int, height: int) -> list[Line]:
    """What the endpoint cannot do here, in whole sentences; those without room are counted."""
    said = [wrapped(say, max(8, cells - LEAD - OFF)) for say in rows.off]
    room = height - 1
    if not said or room < 1:
        return []
    shown: list[str] = []
    for place, sentence in enumerate(said):
        last = place == len(said) - 1
        if len(shown) + len(sentence) > room - (0 if last else 1):
            more = words.plural(len(said) - place, "more of the kind", "more of the kind")
            shown.append(f"{more}: rigctl endpoint")
            break
        shown += sentence
    lead = [f"{'off here':<{OFF}}", *[" " * OFF] * (len(shown) - 1)]
    return [
        (),
        *(
            (((" " * LEAD + name), "dim"), (text, "dim"))
            for name, text in zip(lead, shown, strict=True)
        ),
    ]


def _cell(name: str, size: int, text: str, row: ClientRow) -> tuple[str, str]:
    full = name == "running" and row.limit is not None and row.running >= row.limit
    bad = name == "failed" and row.failed > 0
    return (f"{' ' * GAP}{text:>{size}}", "warn" if full or bad else "text")


def wanted(rows: FlowRows, cells: int, room: int) -> int:
    """Rows it would fill: at most a third of the room, or what the sessions leave."""
    if not rows.clients:
        return 0
    full = 2 + len(rows.clients) + len(_off(rows, cells, 99))
    left = room - 1 - len(rows.sessions)
    return max(3, min(full, max(room // 3, left)))


class Clients(Lines):
    """Shows one proxy's clients."""

    slice: var[FlowRows | None] = var(None)

    def watch_slice(self, new: FlowRows | None) -> None:
        """Draw what changed."""
        self._redraw()

    def on_resize(self) -> None:
        """Other room, other columns."""
        self._redraw()

    def _redraw(self) -> None:
        if self.slice is not None and self.size.width >= 10:
            self.show(client_lines(self.slice, self.size.width, self.size.height, self.glyphs))
