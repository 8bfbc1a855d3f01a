"""Makes assets/screenshots from the simulated rig in tmux: `python tests/demo/make_pictures.py`.

Takes five minutes: the stall on the README's picture is a real one of the simulated engines, at
their real speed. PNG where rsvg-convert is installed, else SVG;
pngquant, where it is there, takes two thirds off their size. The font is DejaVu Sans Mono's
(apt install librsvg2-bin pngquant fonts-dejavu-core).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from demo_pane import LARGE, RIGCTL, SMALL, DemoPane  # noqa: E402
from support_pictures import to_svg  # noqa: E402

FOLDER = ROOT / "assets" / "screenshots"


def picture(pane: DemoPane, name: str, size: tuple[int, int]) -> None:
    """What the pane shows now, as a file of that name."""
    svg = to_svg(pane.text("-e", "-N"), size[0])
    if shutil.which("rsvg-convert") is None:
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")
        return
    file = str(FOLDER / f"{name}.png")
    subprocess.run(["rsvg-convert", "-o", file], input=svg.encode(), check=True)
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--output", file, "200", file], check=True)


def screen(pane: DemoPane, key: str, wanted: str, name: str) -> None:
    """One screen over the overview, and back."""
    pane.keys(key)
    pane.until(wanted)
    time.sleep(1.5)
    picture(pane, name, LARGE)
    pane.escape()


def sessions(pane: DemoPane) -> None:
    """Who waits for whom on a small screen, and the one that all wait for in full."""
    pane.press("S")
    pane.until_match(r"▲ stalled \d+ s")
    pane.press("G")
    pane.keys("Enter")
    pane.until("makes wait")
    time.sleep(1.5)
    picture(pane, "session", LARGE)
    pane.escape()
    pane.resize(*SMALL)
    time.sleep(1.5)
    picture(pane, "sessions-80x24", SMALL)
    pane.resize(*LARGE)
    pane.escape()


def team() -> None:
    """Six agents: some wait, one thinks, the next prompts are being read."""
    with DemoPane("team", size=LARGE) as pane:
        pane.until_match(r"● ready.*● ready", patience=90)
        pane.press("S")
        pane.until_match(r"(?s)stalled.*thinking.*prefilling", patience=180)
        picture(pane, "sessions", LARGE)
        pane.press("q")
        pane.until("ENDED 0")


def main() -> int:
    """The wall at real speed: what is ready, what is asked, what is lent, what stalls."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with DemoPane("wall", size=LARGE) as pane:
        pane.until_match(r"● ready.*● ready", patience=90)
        pane.until("3 of 6")
        pane.press("F")
        pane.until("F again: free long")
        time.sleep(1.0)
        picture(pane, "confirm", LARGE)
        pane.escape()
        lend = ["free", "long", "--yes", "--wait", "--for", "2h", "--holder", "training"]
        subprocess.run([*RIGCTL, "--home", pane.home, *lend], check=True, capture_output=True)
        pane.until_match(r"long.*○ lent", patience=60)
        pane.until_match(r"PREFILL STALL [4-9]\d s", patience=120)
        picture(pane, "overview", LARGE)
        pane.resize(*SMALL)
        time.sleep(1.5)
        picture(pane, "overview-80x24", SMALL)
        pane.resize(*LARGE)
        sessions(pane)
        pane.press("1")
        pane.until("▸ standard")
        screen(pane, "Enter", "Start phases", "group")
        screen(pane, "l", "log of standard", "logs")
        screen(pane, "p", "now", "plots")
        screen(pane, "J", "prefill stall began", "journal")
        screen(pane, "?", "Act on the marked group", "help")
        pane.press("q")
        pane.until("ENDED 0")
    team()
    for file in sorted(FOLDER.iterdir()):
        print(f"{file.name:<24} {file.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
