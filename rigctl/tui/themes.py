"""The panel's colours: one TOML file a theme, from the wheel or the checkout."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

ORDER = ("dark", "light", "high-contrast", "colour-blind", "monochrome")
"""The themes that ship, in the order the theme key walks through them."""

VARIABLES = (
    "rig-dim",
    "rig-used",
    "rig-cached",
    "rig-track",
    "rig-spark",
    "rig-edge",
)
"""Colours of our own that every theme must name beside Textual's."""

BASE = (
    "primary",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "success",
    "warning",
    "error",
)

DEFAULTS = {
    "rig-dim": "#8a949f",
    "rig-used": "#7aa2c9",
    "rig-cached": "#4a6a8a",
    "rig-track": "#2b343e",
    "rig-spark": "#5b7d9e",
    "rig-edge": "#33404c",
}
"""Stand in when a theme of somebody else lacks ours; without them the style sheet cannot load."""


class ThemeError(Exception):
    """A theme file that cannot be used; says which, and why."""


def folder() -> Path:
    """Where themes lie: inside the installed package, else beside it in the checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_themes"
    return installed if installed.is_dir() else package.parent / "themes"


def parse(text: str, source: str) -> Theme:
    """One theme file; ThemeError names the first thing that is wrong with it."""
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ThemeError(f"{source}: not TOML: {error}") from error
    variables = table.get("variables", {})
    for key in ("name", *BASE):
        if not isinstance(table.get(key), str):
            raise ThemeError(f"{source}: {key} is missing; it must be a colour such as #7aa2c9")
    for key in VARIABLES:
        if not isinstance(variables.get(key), str):
            raise ThemeError(f"{source}: [variables] {key} is missing")
    for key, value in [*((key, table[key]) for key in BASE), *variables.items()]:
        try:
            Color.parse(value)
        except ColorParseError as error:
            raise ThemeError(f"{source}: {key} = {value!r} is not a colour") from error
    return Theme(
        name=f"rig-{table['name']}",
        dark=bool(table.get("dark", True)),
        secondary=table["primary"],
        variables={**variables, "border": variables["rig-edge"]},
        **{key: table[key] for key in BASE},
    )


def load(where: Path | None = None) -> tuple[list[Theme], list[str]]:
    """Every usable theme in order, and a complaint for each that is not."""
    base = where or folder()
    themes: list[Theme] = []
    complaints: list[str] = []
    names = [*ORDER, *sorted({path.stem for path in base.glob("*.toml")} - set(ORDER))]
    for name in names:
        path = base / f"{name}.toml"
        try:
            themes.append(parse(path.read_text(encoding="utf-8"), path.name))
        except OSError as error:
            complaints.append(f"theme {name}: {error.strerror or error}: {path}")
        except ThemeError as error:
            complaints.append(f"theme {error}")
    return themes, complaints


def add_file(wish: str | None, themes: list[Theme], complaints: list[str]) -> str | None:
    """A wish that is a file is read and added; the wish as a name, or None where it is bad."""
    if not wish or not wish.endswith(".toml"):
        return wish
    path = Path(wish).expanduser()
    try:
        theme = parse(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        complaints.insert(0, f"theme {wish} cannot be read: {error}")
        return None
    except ThemeError as error:
        complaints.insert(0, f"theme {error}")
        return None
    themes[:] = [*(one for one in themes if one.name != theme.name), theme]
    return theme.name


def pick(wish: str | None, themes: list[Theme]) -> tuple[str, str]:
    """The name to use and, where the wish cannot be met, a sentence about it."""
    names = [theme.name for theme in themes]
    first = names[0] if names else "textual-dark"
    if not wish:
        return first, ""
    full = wish if wish.startswith("rig-") else f"rig-{wish}"
    if full in names:
        return full, ""
    known = ", ".join(name.removeprefix("rig-") for name in names)
    shown = first.removeprefix("rig-")
    return first, f"theme {wish!r} cannot be used, {shown} is shown; there are: {known or 'none'}"
