"""Turns a tmux capture into a picture: `python pictures.py SCENE 120x36 OUT.svg [keys …]`."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from terminals import Tmux

THEME = TerminalTheme(
    (16, 20, 24),
    (211, 217, 223),
    [(0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0),
     (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)],
)  # fmt: skip
"""For cells in the terminal's own colours: the panel's dark background and foreground."""


def to_svg(capture: str, wide: int, title: str = "rigctl") -> str:
    """`tmux capture-pane -e -p` as SVG; blanks are kept, which some renderers drop otherwise."""
    console = Console(
        width=wide, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    # One decoder for all rows: tmux lets a style run on into the next one.
    for row in AnsiDecoder().decode(capture.rstrip("\n")):
        console.print(row, no_wrap=True, overflow="crop", soft_wrap=True)
    svg = console.export_svg(title=title, theme=THEME, unique_id="rigctl")
    return svg.replace("<text ", '<text xml:space="preserve" ')


def main() -> int:
    """Open a scene, press keys, write the picture."""
    scene, size, out, *keys = sys.argv[1:]
    arguments = [key for key in keys if key.startswith("--")]
    wide, high = (int(part) for part in size.split("x"))
    with Tmux(scene, *arguments, size=(wide, high)) as pane:
        pane.until("W of")
        for key in keys:
            if not key.startswith("--"):
                pane.keys(key)
                time.sleep(0.8)
        time.sleep(1.0)
        Path(out).write_text(to_svg(pane.text("-e", "-N"), wide), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
