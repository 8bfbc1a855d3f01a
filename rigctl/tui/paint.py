"""Lines made of (text, role) pairs, and the small drawings in them; colours come later, by role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from rigctl.core.reading import Missing, Reading
from rigctl.tui.glyphs import Glyphs

Span = tuple[str, str]
"""Text and the role it plays: `dim`, `strong`, `warn` …; a theme gives the role its colour."""
Line = tuple[Span, ...]

ROLES = (
    "text",
    "dim",
    "strong",
    "accent",
    "used",
    "cached",
    "track",
    "spark",
    "good",
    "warn",
    "bad",
    "edge",
    "edge-marked",
    "edge-warn",
    "edge-bad",
    "cursor",
)
"""Every role a span may have; the house test holds each theme to all of them."""


def width(line: Iterable[Span]) -> int:
    """Cells the line takes."""
    return sum(cell_len(text) for text, _ in line)


def fit(line: Line, cells: int, glyphs: Glyphs) -> Line:
    """The line in exactly that many cells: padded, or cut at the right with a mark (C96)."""
    if cells <= 0:
        return ()
    have = width(line)
    if have == cells:
        return line
    if have < cells:
        return (*line, (" " * (cells - have), "text"))
    kept: list[Span] = []
    left = cells - 1
    for text, role in line:
        size = cell_len(text)
        if size <= left:
            kept.append((text, role))
            left -= size
            continue
        if left:
            kept.append((set_cell_size(text, left), role))
        break
    return (*kept, (glyphs.ellipsis, "dim"))


def spread(left: Line, right: Line, cells: int, glyphs: Glyphs) -> Line:
    """Left and right part with the room between; the left one gives way."""
    gap = cells - width(left) - width(right)
    if gap >= 1:
        return (*left, (" " * gap, "text"), *right)
    room = cells - width(right) - 1
    if room < 8:
        return fit(left, cells, glyphs)
    return (*fit(left, room, glyphs), (" ", "text"), *right)


def joined(parts: Sequence[Line], gap: str = "   ", limit: int | None = None) -> Line:
    """Parts side by side; with a limit, later parts that do not fit are left out whole."""
    out: list[Span] = []
    have = 0
    for part in parts:
        if not part:
            continue
        size = width(part) + (len(gap) if out else 0)
        if limit is not None and have + size > limit:
            continue
        if out:
            out.append((gap, "text"))
        out.extend(part)
        have += size
    return tuple(out)


def bar(share: Reading, cells: int, glyphs: Glyphs, role: str = "used") -> Line:
    """A thin bar; a share over one fills it and no more (C74), an absent one is all track."""
    return stacked(((share, role),), cells, glyphs)


def stacked(parts: Sequence[tuple[Reading, str]], cells: int, glyphs: Glyphs) -> Line:
    """Shares of one whole side by side, each in its role, the rest as track."""
    if cells <= 0:
        return ()
    spans: list[Span] = []
    sum_halves = filled = 0
    total = 0.0
    whole = cells * 2
    for share, role in parts:
        if isinstance(share, Missing) or share <= 0:
            continue
        total = min(1.0, total + share)
        end = round(total * whole)
        # A share that is there at all is seen: half a cell is the least.
        end = min(whole, max(end, sum_halves + 1))
        take = end // 2 - filled
        if take > 0:
            spans.append(((glyphs.cached if role == "cached" else glyphs.full) * take, role))
            filled += take
        sum_halves = end
    if sum_halves % 2 and filled < cells and parts:
        last = [role for share, role in parts if not isinstance(share, Missing) and share > 0]
        spans.append((glyphs.half, last[-1]))
        filled += 1
    if filled < cells:
        spans.append((glyphs.track * (cells - filled), "track"))
    return tuple(spans)


def spark(values: Sequence[Reading], top: float, glyphs: Glyphs) -> str:
    """One sign a value, scaled to `top`; an absent value is a blank, never a zero."""
    ramp = glyphs.ramp
    signs: list[str] = []
    for value in values:
        if isinstance(value, Missing):
            signs.append(" ")
            continue
        level = int(value / top * len(ramp)) if top > 0 else 0
        signs.append(ramp[max(0, min(len(ramp) - 1, level))])
    return "".join(signs)


def wrapped(text: str, cells: int) -> list[str]:
    """The text in rows of at most that many cells, broken at blanks where there are any."""
    if cells <= 0:
        return []
    rows: list[str] = []
    row = ""
    for word in text.split(" "):
        trial = f"{row} {word}" if row else word
        if cell_len(trial) <= cells:
            row = trial
            continue
        if row:
            rows.append(row)
        while cell_len(word) > cells:
            rows.append(set_cell_size(word, cells).rstrip("\0"))
            word = word[len(rows[-1]) :]
        row = word
    rows.append(row)
    return rows


def hanging(line: Line, cells: int, most: int = 0) -> list[Line]:
    """The line in rows, its last span wrapped under itself; `most` rows at most, 0 for all.

    What does not fit into the last row is left for `fit` to cut.
    """
    if not line:
        return [line]
    *head, (text, role) = line
    indent = width(head)
    if width(line) <= cells or cells - indent < 12 or most == 1:
        return [line]
    rows = wrapped(text, cells - indent)
    if most and len(rows) > most:
        rows = [*rows[: most - 1], " ".join(rows[most - 1 :])]
    blank: Line = ((" " * indent, "text"),)
    return [(*(head if place == 0 else blank), (row, role)) for place, row in enumerate(rows)]


def boxed(
    title: Line, state: Line, rows: Sequence[Line], cells: int, edge: str, glyphs: Glyphs
) -> list[Line]:
    """A frame of our own: title at the left and state at the right of its upper edge."""
    corner = glyphs.corners
    inner = max(0, cells - 4)
    head: Line = ((" ", edge), *title, (" ", edge)) if title else ()
    tail: Line = ((" ", edge), *state, (" ", edge)) if state else ()
    room = max(0, cells - 4)
    if width(head) + width(tail) > room:
        head = (*fit(head, max(0, room - width(tail)), glyphs),)
    line = glyphs.rule * max(0, room - width(head) - width(tail))
    top: Line = (
        (corner[0] + glyphs.rule, edge),
        *head,
        (line, edge),
        *tail,
        (glyphs.rule + corner[1], edge),
    )
    out = [fit(top, cells, glyphs) if width(top) != cells else top]
    left, right = (glyphs.side + " ", edge), (" " + glyphs.side, edge)
    out.extend((left, *fit(row, inner, glyphs), right) for row in rows)
    out.append(((corner[2] + glyphs.rule * max(0, cells - 2) + corner[3], edge),))
    return out
