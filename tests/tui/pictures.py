"""Turns a tmux capture into a picture: `python pictures.py SCENE 120x36 OUT.svg [keys …]`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from support_pictures import to_svg
from terminals import Tmux


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
