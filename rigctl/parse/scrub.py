"""Takes the server's own places out of an engine's words, which go on to its clients."""

from __future__ import annotations

import re

_PLACE = re.compile(
    r"""\s*File\ "[^"\n]{1,1000}",\ line\ \d+(?:,\ in\ \S{1,200})?
    (?:\n[ \t]+(?:GET|POST|PUT|DELETE|PATCH|HEAD)\ /[^\s]{0,200})?""",
    re.VERBOSE,
)
"""As FastAPI appends it to what is wrong with a body, and as tracebacks have it."""


def without_paths(message: str) -> str:
    """The message without the file and line of the server's code that refused; what is wrong with
    the request stays, word for word."""
    return _PLACE.sub("", message).strip()
