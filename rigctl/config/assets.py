"""Finds the files that ship with rigctl: in the installed wheel, else in the checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def asset(*parts: str) -> Path:
    """The path of a shipped file, like `asset("units", "rigctl.service")`.

    FileNotFoundError names both places where it was looked for.
    """
    places = (_PACKAGE / "_assets", _PACKAGE.parent / "assets")
    for place in places:
        found = place.joinpath(*parts)
        if found.exists():
            return found
    looked = " or ".join(str(place.joinpath(*parts)) for place in places)
    raise FileNotFoundError(f"{'/'.join(parts)} is missing from this installation: not in {looked}")
