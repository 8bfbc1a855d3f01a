"""Requests and sessions as rows of spans: columns come and go, states are words, figures whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rigctl.core.flow import SessionRow
from rigctl.core.reading import Missing
from rigctl.tui import words
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, bar, fit, width

WAITING = frozenset({"queued", "held"})
LEAD = 2
"""Cells of the mark and the blank after it."""
GAP = 2
LEAST_STATE = 27
"""Cells in which every state can be read; columns go until the state has them."""
ROOMY = 100
"""Cells from which names may be longer than eight."""
BAR = 4
FULL_STATE = 30
"""Cells in which whom it waits for is said in full."""
MOST_NAME = 12
"""Cells of a client's or cluster's name in its column; the detail has all of it."""


def standing(row: SessionRow) -> int:
    """0 runs, 1 waits, 2 rests: the order of the table."""
    if row.state == "resting":
        return 2
    return 1 if row.state in WAITING else 0


def ordered(rows: Sequence[SessionRow]) -> tuple[SessionRow, ...]:
    """What runs, as the endpoint lists it; then what waits, oldest first; then what rests."""

    def place(row: SessionRow) -> tuple[int, float]:
        stands = standing(row)
        return stands, {0: 0.0, 1: -row.seconds, 2: row.seconds}[stands]

    return tuple(sorted(rows, key=place))


def matches(row: SessionRow, needle: str) -> bool:
    """Whether every word of the needle stands in some field of the row, case ignored."""
    fields = (
        row.request, row.session, row.client, row.cluster, row.state, row.say, row.behind,
        row.rule, row.endpoint, *row.flags,
    )  # fmt: skip
    text = " ".join(fields).lower()
    return all(word in text for word in needle.lower().split())


def say_state(row: SessionRow) -> tuple[str, str]:
    """The state in words, and shorter for a narrow column."""
    lasts = words.age(row.seconds)
    if row.state == "stalled":
        behind = row.behind
        if not behind:
            return row.say or f"stalled {lasts}", f"stalled {lasts}"
        return f"stalled {lasts} behind {behind}", f"stalled {lasts}: {behind}"
    if row.state in WAITING:
        if not row.say:
            return f"{row.state} {lasts}", f"{row.state} {lasts}"
        short = row.say.replace("place ", "").replace(", about ", ", ~")
        return f"{row.state}: {row.say}", f"{row.state} {short}"
    # A prompt that waits for another one to be read, or a cache that is gone: said where it fits.
    long = f"{row.state} {lasts}, {row.say}" if row.say else f"{row.state} {lasts}"
    return long, f"{row.state} {lasts}"


def state(row: SessionRow, cells: int, glyphs: Glyphs) -> Line:
    """Sign and words in that many cells; flags after them, else a mark that there are some."""
    sign, role = {
        "queued": (glyphs.open_ring, "text"),
        "held": (glyphs.open_ring, "text"),
        "prefilling": (glyphs.now, "accent"),
        "thinking": (glyphs.busy, "text"),
        "answering": (glyphs.ready, "good"),
        "stalled": (glyphs.warning, "warn"),
        "resting": (glyphs.dot, "dim"),
    }.get(row.state, ("?", "text"))
    flags = [", ".join(row.flags)] if row.flags else []
    if len(row.flags) > 1:
        flags.append(f"{row.flags[0]} +{len(row.flags) - 1}")
    marks = [*(f"  {glyphs.warning} {flag}" for flag in flags), f" {glyphs.warning}"]
    choices = [(text, mark) for mark in (marks if flags else [""]) for text in say_state(row)]
    fitting = (one for one in choices if len(one[0]) + len(one[1]) + 2 <= cells)
    text, mark = next(fitting, choices[-1])
    line: Line = ((f"{sign} ", role), (text, "dim" if row.state == "resting" else role))
    line = fit(line, max(1, cells - len(mark)), glyphs) if width(line) + len(mark) > cells else line
    return (*line, (mark, "warn")) if mark else line


@dataclass(frozen=True, slots=True)
class Column:
    """Cells and rank: rank 0 is always there, the highest goes first; cells 0 takes the rest."""

    name: str
    cells: int
    rank: int
    draw: Callable[[SessionRow, int, Glyphs], Line]
    right: bool = True


def _who(row: SessionRow, cells: int, glyphs: Glyphs) -> Line:
    if not row.client:  # Told only while a request of the session runs.
        return ((words.ABSENT, "dim"),)
    return fit(((row.client, "strong"),), cells, glyphs)


def _session(row: SessionRow, cells: int, glyphs: Glyphs) -> Line:
    return fit(((row.session, "text"),), cells, glyphs)


def _where(row: SessionRow, cells: int, glyphs: Glyphs) -> Line:
    text = row.cluster or words.ABSENT
    return fit(((text, "text" if row.cluster else "dim"),), cells, glyphs)


def _figure(text: str, role: str = "text") -> Line:
    return ((text, "dim" if text == words.ABSENT else role),)


def _context(row: SessionRow, cells: int, glyphs: Glyphs) -> Line:
    """Tokens, and beside them their share of the cluster's pool as a small bar."""
    figure = _figure(f"{words.tokens(row.context):>{cells - BAR - 1}}")
    return (*figure, (" ", "text"), *bar(row.pool_share, BAR, glyphs))


def _pool(row: SessionRow, *_: object) -> Line:
    over = not isinstance(row.pool_share, Missing) and row.pool_share > 1
    return _figure(words.share(row.pool_share), "warn" if over else "text")


def _rate(row: SessionRow, *_: object) -> Line:
    if row.state in {*WAITING, "prefilling", "resting"}:
        return _figure(words.ABSENT)  # Nothing has come yet, or nothing comes: no speed.
    stalled = row.state == "stalled" and row.rate == 0
    return _figure(words.number(row.rate), "bad" if stalled else "strong")


def _wait(row: SessionRow, *_: object) -> Line:
    return _figure(words.ABSENT if row.state == "resting" else words.brief(row.waited))


def columns(rows: Sequence[SessionRow], cells: int) -> list[Column]:
    """The columns that fit; names are as wide as the longest on show, within reason."""
    most = MOST_NAME if cells >= ROOMY else 8
    who = _widest([row.client for row in rows], "who", most)
    session = max(8, _widest([row.session for row in rows], "session", most))
    where = _widest([row.cluster for row in rows], "where", most)
    rule = _widest([row.rule for row in rows], "rule", 8)
    least = FULL_STATE if cells >= ROOMY else LEAST_STATE
    shown = [
        Column("who", who, 0, _who, right=False),
        Column("session", session, 0, _session, right=False),
        Column("where", where, 3, _where, right=False),
        Column("state", 0, 0, state, right=False),
        Column("context", 6 + BAR, 0, _context),
        Column("pool", 5, 6, _pool),
        Column("tok/s", 5, 2, _rate),
        Column("wait", 6, 5, _wait),
        Column("1st byte", 8, 7, lambda row, *_: _figure(words.brief(row.first_byte))),
        Column("turn", 4, 8, lambda row, *_: _figure(str(row.turn))),
        Column("rule", rule, 9, lambda row, *_: _figure(row.rule or words.ABSENT, "dim"), False),
    ]
    while cells - _wide(shown) < least:
        worst = max(shown, key=lambda column: column.rank)
        if worst.rank == 0:
            break
        shown.remove(worst)
    return shown


def _widest(texts: Sequence[str], name: str, most: int) -> int:
    return min(most, max([len(name), *(len(text) for text in texts)]))


def _wide(shown: Sequence[Column]) -> int:
    return LEAD + sum(column.cells for column in shown) + GAP * (len(shown) - 1)


def heading(shown: Sequence[Column], cells: int, glyphs: Glyphs) -> Line:
    """Names of the columns, over their figures."""
    parts = []
    for column in shown:
        size = column.cells or max(1, cells - _wide(shown))
        parts.append(f"{column.name:>{size}}" if column.right else f"{column.name:<{size}}")
    return fit(((" " * LEAD + (" " * GAP).join(parts), "dim"),), cells, glyphs)


def session_row(
    row: SessionRow, shown: Sequence[Column], cells: int, marked: bool, glyphs: Glyphs
) -> Line:
    """One request or session, exactly that wide; a figure that is too long pushes, it is not cut
    from the left."""
    out: list[tuple[str, str]] = [(glyphs.marker if marked else " ", "accent"), (" ", "text")]
    for place, column in enumerate(shown):
        size = column.cells or max(1, cells - _wide(shown))
        drawn = column.draw(row, size, glyphs)
        pad = (" " * max(0, size - width(drawn)), "text")
        if place:
            out.append((" " * GAP, "text"))
        out.extend((pad, *drawn) if column.right else (*drawn, pad))
    return fit(tuple(span for span in out if span[0]), cells, glyphs)
