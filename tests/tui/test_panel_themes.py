"""The five themes: whole, readable at every colour depth, and a bad one is no disaster."""

from __future__ import annotations

from pathlib import Path

import pytest
import samples
from open_panels import OpenPanel
from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from textual.color import Color
from textual.theme import Theme

from rigctl.tui import themes

LOADED, COMPLAINTS = themes.load()
TEXTS = ("foreground", "accent", "success", "warning", "error", "rig-dim")
GRAPHICS = ("rig-used", "rig-cached", "rig-spark")
GROUNDS = ("background", "panel", "surface")
DEPTHS = (ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD)


def colour(theme: Theme, name: str) -> Color:
    """A colour of the theme by its name."""
    value = theme.variables.get(name) or getattr(theme, name)
    assert isinstance(value, str)
    return Color.parse(value)


def at_depth(one: Color, depth: ColorSystem) -> Color:
    """What a terminal of that depth makes of it, as Rich sends it."""
    rich = RichColor.from_rgb(*one.rgb).downgrade(depth)
    triplet = rich.get_truecolor(DEFAULT_TERMINAL_THEME)
    if depth is ColorSystem.STANDARD and rich.number is not None:
        from rich._palettes import STANDARD_PALETTE
        from rich.palette import Palette  # noqa: F401 - documents where the sixteen come from

        triplet = STANDARD_PALETTE[rich.number]
    return Color(*triplet)


def luminance(one: Color) -> float:
    """WCAG relative luminance."""
    parts = []
    for value in one.rgb:
        share = value / 255
        parts.append(share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4)
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: Color, other: Color) -> float:
    """WCAG contrast ratio, 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_five_themes_ship_and_all_load() -> None:
    """Dark, light, high contrast, colour-blind safe, monochrome, in that order."""
    assert COMPLAINTS == []
    assert [theme.name for theme in LOADED[:5]] == [f"rig-{name}" for name in themes.ORDER]


@pytest.mark.case("C97")
@pytest.mark.parametrize("depth", DEPTHS, ids=lambda depth: depth.name.lower())
@pytest.mark.parametrize("theme", LOADED, ids=lambda theme: theme.name)
def test_every_text_can_be_read_on_every_ground(theme: Theme, depth: ColorSystem) -> None:
    """WCAG AA for text at 4.5 to 1; what few colours cannot give keeps at least 3 to 1."""
    wanted = {ColorSystem.TRUECOLOR: 4.5, ColorSystem.EIGHT_BIT: 4.0}.get(depth, 3.0)
    for ground in GROUNDS:
        below = at_depth(colour(theme, ground), depth)
        for name in TEXTS:
            ratio = contrast(at_depth(colour(theme, name), depth), below)
            assert ratio >= wanted, f"{name} on {ground}: {ratio:.2f}"


@pytest.mark.parametrize("theme", LOADED, ids=lambda theme: theme.name)
def test_bars_stand_out_and_their_track_does_not_vanish(theme: Theme) -> None:
    """Graphics at 3 to 1 (cached at 2.5, its sign differs too), the track just visible."""
    ground = colour(theme, "background")
    for name in GRAPHICS:
        least = 2.5 if name == "rig-cached" else 3.0
        assert contrast(colour(theme, name), ground) >= least, name
    assert contrast(colour(theme, "rig-track"), ground) >= 1.3


def test_high_contrast_is_high() -> None:
    """Seven to one for every text."""
    theme = next(theme for theme in LOADED if theme.name == "rig-high-contrast")
    for name in TEXTS:
        assert contrast(colour(theme, name), colour(theme, "background")) >= 7


def test_monochrome_has_no_hue() -> None:
    """Greys only."""
    theme = next(theme for theme in LOADED if theme.name == "rig-monochrome")
    for name in (*TEXTS, *GRAPHICS, *GROUNDS, "rig-track", "rig-edge", "primary"):
        red, green, blue = colour(theme, name).rgb
        assert red == green == blue, name


def test_colour_blind_safe_never_sets_red_against_green() -> None:
    """Good is blue and bad is orange: they differ in blue, which every common deficiency sees."""
    theme = next(theme for theme in LOADED if theme.name == "rig-colour-blind")
    good, bad = colour(theme, "success"), colour(theme, "error")
    assert abs(good.b - bad.b) > 100


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = ", "not TOML"),
        ('name = "odd"', "primary is missing"),
        ("NEARLY", "is not a colour"),
        ("LACKING", "rig-track is missing"),
    ],
)
async def test_a_bad_theme_falls_back_and_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    open_panel: OpenPanel,
    text: str,
    complaint: str,
) -> None:
    """The file is named, the panel opens with another."""
    whole = (themes.folder() / "dark.toml").read_text()
    if text == "NEARLY":
        text = whole.replace('"dark"', '"odd"').replace("#7aa2c9", "bluish")
    elif text == "LACKING":
        text = "\n".join(row for row in whole.splitlines() if "rig-track" not in row)
    for name in themes.ORDER:
        (tmp_path / f"{name}.toml").write_text((themes.folder() / f"{name}.toml").read_text())
    (tmp_path / "odd.toml").write_text(text)
    monkeypatch.setattr(themes, "folder", lambda: tmp_path)
    found, complaints = themes.load()
    assert len(found) == 5
    assert len(complaints) == 1
    assert "odd" in complaints[0]
    assert complaint in complaints[0]
    async with open_panel(samples.calm(), theme="odd") as opened:
        await opened.until_text("theme odd.toml")
        assert opened.panel.theme == "rig-dark"


async def test_no_theme_file_at_all_is_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_panel: OpenPanel
) -> None:
    """Without any file Textual's own theme serves, with our colours defaulted."""
    monkeypatch.setattr(themes, "folder", lambda: tmp_path)
    async with open_panel(samples.calm()) as opened:
        await opened.until_text("theme dark")
        assert opened.panel.theme == "textual-dark"
        await opened.pilot.press("t")
        await opened.until_text("no theme file was found")


async def test_the_theme_key_walks_through_all(open_panel: OpenPanel) -> None:
    """t: the next theme, and its name."""
    async with open_panel(samples.calm(), theme="monochrome") as opened:
        assert opened.panel.theme == "rig-monochrome"
        for name in themes.ORDER:
            await opened.pilot.press("t")
            await opened.until_text(f"theme {name}")
            assert opened.panel.theme == f"rig-{name}"


async def test_a_theme_can_be_a_file_of_ones_own(tmp_path: Path, open_panel: OpenPanel) -> None:
    """--theme FILE: read and used; a file that is not there is said, and another shown."""
    own = tmp_path / "mine.toml"
    own.write_text((themes.folder() / "dark.toml").read_text().replace('"dark"', '"mine"'))
    async with open_panel(samples.calm(), theme=str(own)) as opened:
        assert opened.panel.theme == "rig-mine"
    async with open_panel(samples.calm(), theme=str(tmp_path / "gone.toml")) as opened:
        await opened.until_text("cannot be read")
        assert opened.panel.theme == "rig-dark"
