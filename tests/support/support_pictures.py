"""Turns what a terminal shows into a picture: every run of cells at its own place."""

from __future__ import annotations

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

SIZE = 20.0
WIDE = SIZE * 1233 / 2048
"""A cell of DejaVu Sans Mono, the one font that has all our signs; renderers ignore textLength."""
HIGH = SIZE * 1.164
PAD = 14.0

Cell = tuple[str, str, str, bool]
"""Sign, colour, background, bold."""


def to_svg(capture: str, wide: int) -> str:
    """`tmux capture-pane -e -p -N` as SVG."""
    rows = capture.rstrip("\n").split("\n")
    paper = THEME.background_color.hex
    shapes: list[str] = []
    # One decoder for all rows: tmux lets a style run on into the next one.
    for y, row in enumerate(AnsiDecoder().decode("\n".join(rows))):
        for x, run in _runs(_cells(row)[:wide]):
            shapes += _shapes(x, y, run, paper)
    width, height = wide * WIDE + 2 * PAD, len(rows) * HIGH + 2 * PAD
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-size="{SIZE:.0f}" '
        "font-family=\"'DejaVu Sans Mono', monospace\">\n"
        f'<rect width="100%" height="100%" rx="8" fill="{paper}"/>\n' + "\n".join(shapes) + "\n"
        "</svg>\n"
    )


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


def _shapes(x: int, y: int, run: list[Cell], paper: str) -> list[str]:
    _, ink, own, bold = run[0]
    text = "".join(cell[0] for cell in run)
    left, top = PAD + x * WIDE, PAD + y * HIGH
    out = []
    if own != paper:
        out.append(
            f'<rect x="{left:.2f}" y="{top:.2f}" width="{len(run) * WIDE + 0.5:.2f}" '
            f'height="{HIGH + 0.5:.2f}" fill="{own}"/>'
        )
    if text.strip():
        lead = len(text) - len(text.lstrip())
        weight = ' font-weight="bold"' if bold else ""
        out.append(
            f'<text xml:space="preserve" x="{left + lead * WIDE:.2f}" y="{top + SIZE * 0.93:.2f}" '
            f'fill="{ink}"{weight}>{escape(text.strip())}</text>'
        )
    return out
