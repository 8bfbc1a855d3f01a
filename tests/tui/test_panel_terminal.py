"""Where no panel can be opened, the reason is said in words."""

from __future__ import annotations

import pytest

from rigctl.tui.glyphs import ASCII, UNICODE, choose, to_ascii
from rigctl.tui.terminal import plain_reason

GOOD = {"TERM": "xterm-256color", "LANG": "de_DE.UTF-8"}


@pytest.mark.case("C100")
def test_no_terminal_means_no_panel() -> None:
    """A pipe or /dev/null at either end is named; a real terminal has no reason."""
    assert plain_reason(GOOD, True, True) == ""
    assert "output is not a terminal" in plain_reason(GOOD, True, False)
    assert "input is not a terminal" in plain_reason(GOOD, False, True)


@pytest.mark.case("C97")
@pytest.mark.parametrize("term", ["dumb", "", "unknown", None])
def test_a_dumb_terminal_gets_plain_text(term: str | None) -> None:
    """TERM=dumb or none at all cannot place text."""
    environ = {} if term is None else {"TERM": term}
    assert "TERM is" in plain_reason(environ, True, True)


@pytest.mark.case("C98")
@pytest.mark.parametrize(
    ("environ", "utf8"),
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "de_DE.utf8@euro"}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),  # Python's own coercion of LANG=C
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "de_DE"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({}, False),
        ({"LANG": "C", "RIGCTL_ASCII": "0"}, True),
        ({"LANG": "en_US.UTF-8", "RIGCTL_ASCII": "1"}, False),
        ({"LANG": "en_US.UTF-8", "TERM": "linux"}, False),
    ],
)
def test_the_signs_follow_the_locale(environ: dict[str, str], utf8: bool) -> None:
    """UTF-8 signs only where the terminal's locale is UTF-8, and not on the Linux console."""
    assert choose(environ) is (UNICODE if utf8 else ASCII)


@pytest.mark.case("C98")
def test_ascii_text_keeps_its_cells() -> None:
    """Translation is sign for sign: no column moves."""
    text = "“training” 515 W → 128 W · 67 °C … 4–7 ≥ €"
    assert to_ascii(text).isascii()
    assert len(to_ascii(text)) == len(text)


def test_every_sign_is_one_cell() -> None:
    """Both sets, so that frames and bars are straight."""
    from dataclasses import fields

    from rich.cells import cell_len

    several = {"degree": 2, "ramp": 8, "corners": 4, "quotes": 2}
    for glyphs in (UNICODE, ASCII):
        for field in fields(glyphs):
            value = getattr(glyphs, field.name)
            if not isinstance(value, str):
                continue
            wanted = 1 if glyphs is ASCII and field.name == "degree" else several.get(field.name, 1)
            assert cell_len(value) == wanted, field.name
    assert all(getattr(ASCII, field.name).isascii() for field in fields(ASCII)
               if isinstance(getattr(ASCII, field.name), str))  # fmt: skip
