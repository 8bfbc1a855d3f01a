"""The panel in tmux: every footer key ends in a change that can be seen, at both sizes."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import samples
from terminals import Tmux

from rigctl.tui.actions import Keys
from rigctl.tui.screens.asking import ARM_SECONDS
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.keybar import footer_actions, parts

pytestmark = [pytest.mark.tmux, pytest.mark.timeout(180)]

SIZES = [(120, 36), (80, 24)]

CHANGES = {
    "free": "again: free long",
    "reclaim": "again: reclaim long",
    "toggle": "again: stop long",
    "sleep": "again: sleep-on-idle long",
    "sessions": "This rig has no endpoint",
    "logs": "log of long",
    "plots": "15 min",
    "journal": "filter",
    "commands": "Search for commands",
    "help": "Act on the marked group",
}
"""What the screen shows after each key of the overview's footer, and not before."""

ROOMY = {"sleep"}
"""In the footer of a wide window only; help and palette have it in all."""


def quiet() -> None:
    """No key for as long as a question wants."""
    time.sleep(ARM_SECONDS + 0.3)


def press(pane: Tmux, key: str) -> None:
    """A key as tmux names it."""
    pane.keys("-l", key)


@pytest.mark.parametrize("size", SIZES)
def test_every_footer_key_changes_what_is_seen(size: tuple[int, int]) -> None:
    """Each key in the footer, pressed in a real terminal, and back again; quit is the last."""
    keys = Keys()
    state = PanelState(samples.busy(), group="long")
    wanted = [one for one in footer_actions(state, ()) if one.id != "quit"]
    shown = {action.id for action, _, _ in parts(state, keys, (), size[0])}
    with Tmux("busy", size=size) as pane:
        pane.until("118 tok/s")
        for action in wanted:
            assert action.id in shown | ROOMY, f"{action.id} is not in the footer at {size}"
            change = CHANGES[action.id]
            assert change not in pane.until("118 tok/s"), action.id
            press(pane, keys.shown(action.id))
            pane.until(change)
            pane.keys("Escape")
            pane.until("118 tok/s")
            pane.until(change, gone=True)
            quiet()
        press(pane, "q")
        assert "ENDED 0" in pane.until("ENDED")


@pytest.mark.parametrize("size", SIZES)
def test_free_from_key_to_outcome(size: tuple[int, int]) -> None:
    """F asks, F again frees: draining is seen, then how it ended."""
    with Tmux("busy", size=size) as pane:
        pane.until("118 tok/s")
        press(pane, "F")
        text = pane.until("again: free long")
        assert "434k cached tokens are lost" in text
        quiet()
        press(pane, "F")
        pane.until("draining")
        pane.until("4 of 4 cards free, 94.9 GiB")


@pytest.mark.parametrize("size", SIZES)
def test_reclaim_from_key_to_outcome(size: tuple[int, int]) -> None:
    """The footer offers reclaim while cards are lent; r asks, r again takes them back."""
    with Tmux("picture", size=size) as pane:
        assert "r reclaim" in pane.until("PREFILL STALL")
        press(pane, "r")
        assert "81.2 GiB" in pane.until("again: reclaim long")
        quiet()
        press(pane, "r")
        pane.until("starting")


SESSION_KEYS = (
    ("j", "▸ bob"), ("G", "▸ .*77aa88bb"), ("g", "▸ anna"),
    ("Enter", "asked at"), ("Escape", "1170"),
    ("/", "show only sessions with"), ("stalled", "▸ bob"), ("Enter", "only: stalled"),
    ("Escape", "claude"), ("y", "1170"),
)  # fmt: skip
"""Each key of the sessions screen, and the pattern of what stands there after it."""


@pytest.mark.parametrize("size", SIZES)
def test_every_key_of_the_sessions_screen(size: tuple[int, int]) -> None:
    """Mark, detail, filter and back; abort asks, esc keeps, A twice ends exactly that request."""
    with Tmux("traffic", size=size) as pane:
        text = pane.until("● up")
        assert "a1b2c3d4" in text
        press(pane, "S")
        pane.until("▸ anna")
        for key, change in SESSION_KEYS:
            pane.keys(*([key] if key in {"Enter", "Escape"} else ["-l", key]))
            pane.until_match(change)
            time.sleep(0.3)  # Or the next key would be glued to an escape.
        press(pane, "g")
        pane.until("▸ anna")
        press(pane, "j")
        pane.until("▸ bob")
        press(pane, "A")
        assert "412 tokens" in pane.until("again: abort 99ff0011 of bob")
        quiet()
        pane.keys("Escape")
        pane.until("again: abort", gone=True)
        quiet()
        press(pane, "A")
        pane.until("again: abort 99ff0011 of bob")
        quiet()
        press(pane, "A")
        pane.until_match(r"99ff0011 .*resting")
        pane.keys("Escape")
        pane.until("queue 1")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["monochrome", "colour-blind"])
def test_sessions_are_told_apart_without_colours(size: tuple[int, int], theme: str) -> None:
    """Every state and flag is a sign and a word, in every theme."""
    with Tmux("traffic", "--theme", theme, size=size) as pane:
        pane.until("● up")
        press(pane, "S")
        text = pane.until("▸ anna")
        for part in ("▸ prefilling", "▲ stalled", "● answering", "◐ thinking", "○ queued",
                     "○ held", "· resting", "▲ repeats"):  # fmt: skip
            assert part in text, part


@pytest.mark.case("C99")
def test_escape_glued_to_a_key_is_never_yes() -> None:
    """`ESC y` and `ESC F` in one read, before and after the quiet moment: nothing is freed."""
    with Tmux("busy", size=(80, 24)) as pane:
        for glued in ((0x1B, 0x79), (0x1B, 0x46), (0x1B, 0x1B, 0x46), (0x46, 0x46, 0x46), (0x0D,)):
            for wait in (0.0, ARM_SECONDS + 0.3):
                pane.until("118 tok/s")
                press(pane, "F")
                pane.until("again: free long")
                time.sleep(wait if glued != (0x46, 0x46, 0x46) else 0.0)
                pane.bytes(*glued)
                time.sleep(0.3)
                pane.keys("Escape")
                pane.until("again: free long", gone=True)
                time.sleep(0.5)  # Or the next key would be glued to this escape.
                assert "draining" not in pane.text()


@pytest.mark.case("C99")
def test_an_arrow_key_split_over_two_reads_is_no_answer() -> None:
    """`ESC` and, 150 ms later, `[B`: at most a no, never a yes, and the panel goes on."""
    with Tmux("busy", size=(80, 24)) as pane:
        pane.until("118 tok/s")
        press(pane, "F")
        pane.until("again: free long")
        quiet()
        pane.bytes(0x1B)
        time.sleep(0.15)
        pane.bytes(0x5B, 0x42)
        time.sleep(0.3)
        pane.keys("Escape")
        pane.until("again: free long", gone=True)
        assert "draining" not in pane.until("118 tok/s")


@pytest.mark.case("C96")
def test_a_pane_that_shrinks_to_nothing_comes_back() -> None:
    """tmux at width one with the panel in it, then wide again."""
    with Tmux("picture", size=(120, 36)) as pane:
        pane.until("PREFILL STALL")
        for wide, high in [(40, 12), (20, 5), (1, 1), (300, 80), (70, 24), (5, 60), (80, 24)]:
            pane.resize(wide, high)
            time.sleep(0.05)
        pane.until("PREFILL STALL")
        pane.resize(40, 12)
        pane.until("window too small (need 60x20)")
        pane.resize(120, 36)
        pane.until("60 s")


@pytest.mark.case("C97")
@pytest.mark.parametrize("term", ["screen", "screen-256color", "tmux-256color", "xterm", "linux"])
def test_states_are_words_on_every_terminal(term: str) -> None:
    """Whatever the terminal can colour, states are written out."""
    with Tmux("picture", size=(80, 24), TERM=term, COLORTERM="") as pane:
        text = pane.until("PREFILL STALL")
        for word in ("ready", "lent", "84!", "queue 1"):
            assert word in text


@pytest.mark.case("C97")
def test_no_color_means_none_and_empty_means_unset() -> None:
    """NO_COLOR=1: not one colour code; NO_COLOR= is as if it were not there."""
    with Tmux("picture", size=(80, 24), NO_COLOR="1") as pane:
        pane.until("PREFILL STALL")
        codes = set(re.findall(r"\x1b\[([0-9;]*)m", pane.text("-e")))
        # Bold and reverse may be there, and the codes that mean the terminal's own colours.
        assert codes <= {"0", "1", "2", "4", "7", "39", "49", ""}, codes
    with Tmux("picture", size=(80, 24), NO_COLOR="") as pane:
        pane.until("PREFILL STALL")
        assert "38;2;" in pane.text("-e")


@pytest.mark.case("C98")
@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "C"}, {"LC_ALL": "POSIX"}, {"LANG": "de_DE"}, {"LANG": "de_DE.ISO-8859-1"},
        {"LANG": "C", "PYTHONIOENCODING": "ascii"},
    ],
)  # fmt: skip
def test_without_utf8_every_sign_is_ascii(env: dict[str, str]) -> None:
    """No box, bar, degree or arrow outside ASCII, and no traceback."""
    with Tmux("picture", size=(80, 24), **env) as pane:
        text = pane.until("PREFILL STALL")
        assert text.isascii()
        assert "+- standard" in text
        assert "########" in text


@pytest.mark.case("C99")
def test_nothing_needs_a_mouse() -> None:
    """With --no-mouse no mouse report is asked for, and the keys reach group, card and back."""
    with Tmux("busy", "--no-mouse", size=(80, 24)) as pane:
        pane.until("118 tok/s")
        assert pane.run("display", "-p", "#{mouse_any_flag}").strip() == "0"
        pane.keys("Enter")
        pane.until("Pools")
        pane.keys("Escape")
        pane.until("·c2f1")
        pane.keys("j", "Enter")
        pane.until("P-states today")


@pytest.mark.case("C95")
def test_no_panel_outlives_its_tmux_server() -> None:
    """kill-server in the middle of a repaint: the panel is gone soon, not stuck on its output."""
    pane = Tmux("moving", size=(120, 36))
    try:
        pane.until("tok/s")
        shell = pane.run("list-panes", "-F", "#{pane_pid}").strip()
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        assert children
    finally:
        pane.close()
    end = time.monotonic() + 15
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < end, f"{children} outlive their terminal"
        time.sleep(0.05)
