"""Turns what a terminal shows into a picture: every run of cells at its own place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape

from rich.ansi import AnsiDecoder
from rich.color import Color
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

THEME = TerminalTheme(
    (16, 20, 24),
    (211, 217, 223),
    [(0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0),
     (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)],
)  # fmt: skip
"""For cells in the terminal's own colours: the panel's dark background and foreground."""

SIZE = 16.0
WIDE = SIZE * 1233 / 2048
"""A cell of DejaVu Sans Mono, the one font that has all our signs; renderers ignore textLength."""
HIGH = SIZE * 1.164
PAD = 12.0

Cell = tuple[str, str, str, bool]
"""Sign, colour, background, bold."""


def to_svg(capture: str, wide: int) -> str:
    """`tmux capture-pane -e -p -N` as SVG."""
    rows = capture.rstrip("\n").split("\n")
    paper = THEME.background_color.hex
    papers: list[str] = []
    inks: list[str] = []
    # One decoder for all rows: tmux lets a style run on into the next one.
    for y, row in enumerate(AnsiDecoder().decode("\n".join(rows))):
        cells = _cells(row)[:wide]
        papers += _papers(y, cells, paper)
        for x, run in _runs(cells):
            inks += _inks(x, y, run)
    shapes = [*papers, *inks]
    width, height = wide * WIDE + 2 * PAD, len(rows) * HIGH + 2 * PAD
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-size="{SIZE:.0f}" '
        "font-family=\"'DejaVu Sans Mono', monospace\">\n"
        f'<rect width="100%" height="100%" fill="{_most(rows) or paper}"/>\n'
        + "\n".join(shapes)
        + "\n"
        "</svg>\n"
    )


def _most(rows: list[str]) -> str:
    """The background that most cells have: the frame's too, whatever the theme."""
    found = Counter(
        cell[2] for row in AnsiDecoder().decode("\n".join(rows)) for cell in _cells(row)
    )
    return found.most_common(1)[0][0] if found else ""


def _cells(row: Text) -> list[Cell]:
    styles = [Style()] * len(row)
    for span in row.spans:
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        for at in range(span.start, min(span.end, len(row))):
            styles[at] = styles[at] + style
    out: list[Cell] = []
    for sign, style in zip(row.plain, styles, strict=True):
        ink, paper = _hex(style.color, True), _hex(style.bgcolor, False)
        if style.reverse:
            ink, paper = paper, ink
        out.append((sign, ink, paper, bool(style.bold)))
    return out


def _hex(color: Color | None, ink: bool) -> str:
    return (color or Color.default()).get_truecolor(THEME, foreground=ink).hex


def _runs(cells: list[Cell]) -> Iterator[tuple[int, list[Cell]]]:
    """Cells of one look; signs beyond ASCII stand alone, so that no font moves what follows."""
    start = 0
    for at in range(1, len(cells) + 1):
        if (
            at == len(cells)
            or cells[at][1:] != cells[start][1:]
            or not (cells[at][0].isascii() and cells[at - 1][0].isascii())
        ):
            yield start, cells[start:at]
            start = at


def _papers(y: int, cells: list[Cell], paper: str) -> Iterator[str]:
    """Backgrounds on whole pixels, so that no seam shows between two."""
    top, bottom = round(PAD + y * HIGH), round(PAD + (y + 1) * HIGH)
    start = 0
    for at in range(1, len(cells) + 1):
        if at < len(cells) and cells[at][2] == cells[start][2]:
            continue
        left, right = round(PAD + start * WIDE), round(PAD + at * WIDE)
        if cells[start][2] != paper:
            yield (
                f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" '
                f'fill="{cells[start][2]}"/>'
            )
        start = at


def _inks(x: int, y: int, run: list[Cell]) -> Iterator[str]:
    _, ink, _, bold = run[0]
    text = "".join(cell[0] for cell in run)
    if text.strip():
        left = PAD + (x + len(text) - len(text.lstrip())) * WIDE
        weight = ' font-weight="bold"' if bold else ""
        yield (
            f'<text xml:space="preserve" x="{left:.2f}" y="{PAD + y * HIGH + SIZE * 0.93:.2f}" '
            f'fill="{ink}"{weight}>{escape(text.strip())}</text>'
        )
