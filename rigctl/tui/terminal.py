"""The terminal itself: can a panel be opened on it, and what makes it usable again."""

from __future__ import annotations

from collections.abc import Mapping

_RESETS = (
    "\x1b[?1000l",  # mouse clicks
    "\x1b[?1002l",  # mouse drags
    "\x1b[?1003l",  # mouse moves
    "\x1b[?1015l",  # urxvt mouse coordinates
    "\x1b[?1006l",  # SGR mouse coordinates
    "\x1b[?1016l",  # mouse in pixels
    "\x1b[?1004l",  # focus events
    "\x1b[?2004l",  # bracketed paste
    "\x1b[?2048l",  # in-band resize reports
    "\x1b[?2026l",  # synchronised output
    "\x1b[<u",  # Kitty keyboard protocol
    "\x1b[?1049l",  # alternate screen
    "\x1b[?7h",  # line wrap
    "\x1b[0m",  # colours
    "\x1b[?25h",  # cursor
)


def reset_sequence() -> str:
    """What a panel that was killed with -9 could not write (C95); harmless at any time."""
    return "".join(_RESETS)


def plain_reason(environ: Mapping[str, str], stdin_isatty: bool, stdout_isatty: bool) -> str:
    """Why no panel can be opened here, or empty; the caller shows the plain status then."""
    if not stdout_isatty:
        return "the output is not a terminal"
    if not stdin_isatty:
        return "the input is not a terminal, so no key could be read"
    if environ.get("TERM", "") in {"", "dumb", "unknown"}:
        return f"TERM is {environ.get('TERM') or 'not set'}: this terminal cannot place text"
    return ""
