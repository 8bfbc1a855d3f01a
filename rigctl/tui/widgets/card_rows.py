"""The card table as rows of spans: columns that come and go with the width, numbers never cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rigctl.core.reading import Missing, Reading, known
from rigctl.core.snapshot import CardView
from rigctl.tui import words
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, bar, fit, spark

HOT = 83.0
"""Degrees from which a 3090 class card starts to hold its clocks down."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What a column gets to draw a card with."""

    card: CardView
    history: Sequence[Reading]
    glyphs: Glyphs
    bar_cells: int


@dataclass(frozen=True, slots=True)
class Column:
    """A fixed number of cells; rank 0 is always there, the highest rank goes first."""

    name: str
    cells: int
    rank: int
    draw: Callable[[Cell], Line]
    right: bool = True


def _card(cell: Cell) -> Line:
    card = cell.card
    name = words.card_name(card.name)
    return ((f"{name[:8]:<5}", "text"), (f"{cell.glyphs.dot}{card.short}", "dim"))


def use(card: CardView) -> tuple[str, str]:
    """The word for what the card is used for; an engine's own card needs none."""
    return {
        "engine": ("", "dim"),
        "lent": ("lent", "dim"),
        "free": ("free", "dim"),
        "foreign": ("foreign", "warn"),
        "leftover": ("leftover", "warn"),
        "lost": ("LOST", "bad"),
        "unknown": ("?", "dim"),
    }.get(card.use, (card.use, "dim"))


def _pstate(cell: Cell) -> Line:
    value = cell.card.pstate
    if isinstance(value, Missing):
        return (("--", "dim"),)
    return ((f"P{value:.0f}", "good" if value >= 8 else "text"),)


def _watts_bar(cell: Cell) -> Line:
    watts, limit = cell.card.watts, cell.card.limit_watts
    share: Reading = watts
    if not isinstance(watts, Missing):
        share = limit if isinstance(limit, Missing) else watts / max(limit, 1.0)
    role = "warn" if known(share, 0) > 0.95 else "used"
    return bar(share, cell.bar_cells, cell.glyphs, role)


def _watts(cell: Cell) -> Line:
    watts, limit = cell.card.watts, cell.card.limit_watts
    role = "dim" if isinstance(watts, Missing) else "strong"
    if isinstance(watts, Missing):
        return ((f"{words.ABSENT:>4}", role), (f" / {words.number(limit):>3}", "dim"))
    return ((f"{words.number(watts):>4}", role), (f" / {words.number(limit):>3}", "dim"))


def _util(cell: Cell) -> Line:
    return _unit(words.number(cell.card.utilisation), " %")


def _unit(figure: str, unit: str) -> Line:
    if figure == words.ABSENT:
        return ((figure, "dim"), (" " * len(unit), "dim"))
    return ((figure, "text"), (unit, "dim"))


def _memory(cell: Cell) -> Line:
    used, total = cell.card.memory_used, cell.card.memory_total
    role = "dim" if isinstance(used, Missing) else "text"
    return (
        (f"{words.gib(used):>5}", role),
        (f" / {words.gib_whole(total):>2} GiB", "dim"),
    )


def _memory_short(cell: Cell) -> Line:
    used, total = cell.card.memory_used, cell.card.memory_total
    role = "dim" if isinstance(used, Missing) else "text"
    return ((f"{words.gib(used):>4}", role), (f" / {words.gib_whole(total):>2}", "dim"))


def _celsius(cell: Cell) -> Line:
    value = cell.card.celsius
    if isinstance(value, Missing):
        return ((words.ABSENT, "dim"), (" ", "text"))
    hot = value >= HOT
    return ((words.number(value), "bad" if hot else "text"), ("!" if hot else " ", "bad"))


def _fan(cell: Cell) -> Line:
    return _unit(words.number(cell.card.fan), " %")


def _clock(cell: Cell) -> Line:
    held = cell.card.throttle
    down = not isinstance(held, Missing) and bool(held)
    role = "dim" if isinstance(cell.card.clock_mhz, Missing) else "text"
    return (
        (words.number(cell.card.clock_mhz), role),
        (cell.glyphs.held_down if down else " ", "warn"),
    )


def _use(cell: Cell) -> Line:
    """An engine's own card names its group: which cards belong together needs no other mark."""
    if cell.card.use == "engine":
        return fit(((cell.card.group, "dim"),), min(8, len(cell.card.group)), cell.glyphs)
    return (use(cell.card),)


def _spark(cell: Cell) -> Line:
    top = known(cell.card.limit_watts, 0.0)
    if top <= 0:
        top = max((known(value, 0.0) for value in cell.history), default=0.0)
    return ((spark(cell.history, top, cell.glyphs), "spark"),)


SPARK = 15
"""Cells of the 60 s sparkline: one for every four seconds."""


def columns(cells: int, glyphs: Glyphs) -> list[Column]:
    """The columns that fit, in their order; bars and sparkline go before figures do."""
    short = Column("GiB", 9, 2, _memory_short)
    every = [
        Column("#", 2, 0, lambda cell: ((str(cell.card.index), "dim"),)),
        Column("card", 11, 0, _card, right=False),
        Column("use", 8, 5, _use, right=False),
        Column("P", 3, 6, _pstate, right=False),
        Column("watts", 10, 7, _watts_bar, right=False),
        Column("", 10, 0, _watts),
        Column("util", 5, 1, _util),
        Column("memory", 14, 2, _memory),
        Column(glyphs.degree, 4, 0, _celsius),
        Column("fan", 5, 8, _fan),
        Column("clock", 6, 9, _clock),
        Column("60 s", SPARK, 10, _spark, right=False),
    ]
    shown = list(every)
    while _wide(shown) > cells:
        worst = max(shown, key=lambda column: column.rank)
        if worst.rank == 0:
            break
        if worst.name == "watts" and short not in shown:
            shown = [short if column.draw is _memory else column for column in shown]
        else:
            shown.remove(worst)
    return shown


LEAD = 1
"""The cell of the mark; a wide table keeps as much free at its right."""
GAP = 2


def _wide(shown: list[Column]) -> int:
    return LEAD + sum(column.cells for column in shown) + GAP * (len(shown) - 1)


def heading(shown: list[Column], cells: int, glyphs: Glyphs) -> Line:
    """Names of the columns, dim, over their figures."""
    spare = max(0, cells - _wide(shown) - LEAD)
    parts: list[str] = []
    named = {column.name for column in shown}
    for column in shown:
        name = column.name
        if not name and "watts" not in named:
            name = "watts"
        size = column.cells + _extra(column, shown, spare)
        parts.append(f"{name:>{size}}" if column.right else f"{name:<{size}}")
    # The sign for hot stands right of the figure, so its name stands one cell to the left.
    text = (" " * GAP).join(parts).replace(f" {glyphs.degree}  ", f"{glyphs.degree}   ")
    return fit(((" " + text, "dim"),), cells, glyphs)


def _extra(column: Column, shown: list[Column], spare: int) -> int:
    """Spare cells go to the watts bar, up to twice its size."""
    return min(spare, 14) if column.name == "watts" and len(shown) > 1 else 0


def card_row(
    card: CardView,
    history: Sequence[Reading],
    shown: list[Column],
    cells: int,
    marked: bool,
    glyphs: Glyphs,
) -> Line:
    """One card; a lost one says so across the row, and keeps its number and label."""
    spare = max(0, cells - _wide(shown) - LEAD)
    lead = (glyphs.marker if marked else " ", "accent")
    if card.lost:
        cell = Cell(card, history, glyphs, 0)
        text = f"{glyphs.lost} LOST  {card.lost}"
        line: Line = (
            lead,
            (f"{card.index:>2}  ", "dim"),
            *fit(_card(cell), 11, glyphs),
            ("  ", "text"),
            (text, "bad"),
        )
        return fit(line, cells, glyphs)
    out: list[tuple[str, str]] = [lead]
    for place, column in enumerate(shown):
        size = column.cells + _extra(column, shown, spare)
        drawn = column.draw(Cell(card, history, glyphs, size))
        have = sum(len(text) for text, _ in drawn)
        pad = (" " * max(0, size - have), "text")
        if place:
            out.append((" " * GAP, "text"))
        out.extend((pad, *drawn) if column.right else (*drawn, pad))
    return fit(tuple(span for span in out if span[0]), cells, glyphs)
