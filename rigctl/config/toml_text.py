"""Values and comments as lines of a TOML file that people read."""

from __future__ import annotations

import re


def commented(line: str, words: str) -> str:
    """The line with its comment in a column of its own."""
    return f"{line:<44}  # {words}" if words else line


def toml_value(value: object) -> str:
    """A value on one line of TOML."""
    import tomli_w

    if isinstance(value, dict):
        pairs = (f"{_key(name)} = {toml_value(item)}" for name, item in value.items())
        return "{ " + ", ".join(pairs) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if value is None:
        return '""'
    return tomli_w.dumps({"value": value}).removeprefix("value = ").rstrip("\n")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)
