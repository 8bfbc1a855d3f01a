"""Typed values out of one TOML table; each fault is noted with its line, and reading goes on."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar, cast

from rigctl.config.faults import Faults, nearest
from rigctl.config.flags import mask
from rigctl.config.lines import KeyPath

Kind = TypeVar("Kind")
Otherwise = TypeVar("Otherwise")

_WORDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}

_SUFFIXES = {"k": 1000, "m": 1000**2, "ki": 1024, "mi": 1024**2}


class Table:
    """One table of the file. Each reader gives the default where the key is absent or faulty."""

    def __init__(
        self,
        data: Mapping[str, object],
        at: KeyPath,
        lines: Mapping[KeyPath, int],
        faults: Faults,
        title: str,
    ) -> None:
        self.data = data
        self.at = at
        self.lines = lines
        self.faults = faults
        self.title = title
        """How a message names the table: `[rig]`, `group "long"`."""

    def line(self, *key: str | int) -> int:
        """Line of a key, or of the table where the key is not written."""
        path: KeyPath = (*self.at, *key)
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 0)

    def fault(self, key: str | int | tuple[str | int, ...], say: str) -> None:
        """Note what is wrong with a key."""
        path = key if isinstance(key, tuple) else (key,)
        self.faults.add(f"{self.title}: {say}", self.line(*path))

    def origin(self, key: str) -> str:
        """`rig.toml:14`, or `default`."""
        if key not in self.data:
            return "default"
        return f"{Path(self.faults.path).name}:{self.line(key)}"

    def refuse_unknown(self, known: Iterable[str], otherwise: Mapping[str, str], hint: str) -> None:
        """Note every key that is not known, with the nearest that is."""
        names = tuple(known)
        for key in self.data:
            if key in names:
                continue
            plain = key.strip("-").replace("-", "_").lower()
            meant = otherwise.get(plain) or (plain if plain in names else nearest(plain, names))
            advice = f"did you mean `{meant}`?" if meant else hint
            self.fault(key, f"unknown key `{key}`: {advice}")

    def text(self, key: str, default: str = "", *, needed: bool = False) -> str:
        """A string that can stand on a command line; `needed` ones may not be empty."""
        value = self._typed(key, str, default)
        if needed and key in self.data and isinstance(self.data[key], str) and not value.strip():
            self.fault(key, f"`{key}` is empty")
        if "\0" in value:
            self.fault(key, f"`{key}` has a NUL character, which no command line can carry")
            return default
        return value

    def argument(self, key: str, default: str = "", *, needed: bool = False) -> str:
        """Text that becomes the value of an engine flag, so it may not look like a flag."""
        value = self.text(key, default, needed=needed)
        if value.startswith("-"):
            self.fault(key, f"`{key}` begins with `-`: the engine would take {value!r} for a flag")
        return str(Path(value).expanduser()) if value.startswith("~/") else value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        return self._typed(key, bool, default)

    def whole(self, key: str, least: int = 1, most: int = 2**53) -> int | None:
        """A whole number within limits, or None where the key is absent."""
        value = self._typed(key, int, None)
        return value if value is None or self._within(key, value, least, most) else None

    def number(self, key: str, default: float, least: float = 0.0) -> float:
        """A number of at least `least`."""
        value = self.maybe_number(key, least)
        return default if value is None else value

    def maybe_number(self, key: str, least: float = 0.0, most: float = math.inf) -> float | None:
        """A number within limits, or None where the key is absent."""
        value = self._typed(key, float, None)
        return value if value is None or self._within(key, value, least, most) else None

    def choice(self, key: str, default: str, among: tuple[str, ...]) -> str:
        """One of a few words."""
        value = self._typed(key, str, default)
        if value in among:
            return value
        near = nearest(value, among)
        advice = f"did you mean {near!r}?" if near else f"it is one of {', '.join(among)}"
        self.fault(key, f"`{key}` cannot be {value!r}: {advice}")
        return default

    def words(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of strings."""
        value = self.data.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            try:
                parts = shlex.split(value)
            except ValueError:
                parts = value.split()
            listed = ", ".join(_quoted(part) for part in mask(parts))
            self.fault(key, f"`{key}` is a list of words: write {key} = [{listed}]")
            return default
        if not isinstance(value, list):
            self.fault(key, f"`{key}` is a list of words, not {_kind(value)}")
            return default
        for position, word in enumerate(value):
            if not isinstance(word, str):
                self.fault(
                    (key, position), f"`{key}` holds {_kind(word)}: write it as {_quoted(word)}"
                )
            elif "\0" in word:
                self.fault((key, position), f"`{key}` has a NUL character")
        return tuple(word for word in value if isinstance(word, str) and "\0" not in word)

    def variables(self, key: str) -> dict[str, str]:
        """A table of environment variables."""
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            self.fault(key, f'`{key}` is a table: write {key} = {{ NAME = "value" }}')
            return {}
        for name, text in value.items():
            if not name.isidentifier() or not name.isascii():
                self.fault((key, name), f"`{key}`: {name!r} is no name for a variable")
            elif not isinstance(text, str):
                self.fault((key, name), f"`{key}.{name}` is text: write {name} = {_quoted(text)}")
            elif "\0" in text:
                self.fault((key, name), f"`{key}.{name}` has a NUL character")
        return {name: text for name, text in value.items() if isinstance(text, str)}

    def _within(self, key: str, value: float, least: float, most: float) -> bool:
        if least <= value <= most and math.isfinite(value):
            return True
        limit = f"at least {least:g}" if most >= 2**53 else f"from {least:g} to {most:g}"
        self.fault(key, f"`{key}` = {value:g}: it must be {limit}")
        return False

    def _typed(self, key: str, kind: type[Kind], default: Otherwise) -> Kind | Otherwise:
        """The value if it has the kind; a whole number serves as a number, true never as 1."""
        value = self.data.get(key)
        if value is None:
            return default
        if kind is float and type(value) is int:
            return cast("Kind", float(value))
        if type(value) is kind:
            return value
        self.fault(
            key, f"`{key}` is {_WORDS[kind]}, not {_kind(value)}{_instead(key, kind, value)}"
        )
        return default


def _instead(key: str, kind: type, value: object) -> str:
    """The nearest right way to write it, where it can be told."""
    if kind is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f": write {key} = {_quoted(value)}"
    if not isinstance(value, str):
        return ""
    folded = value.strip().lower()
    if kind is bool and folded in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return f": write {key} = {'true' if folded in ('true', 'yes', 'on', '1') else 'false'}"
    if kind in (int, float):
        digits = folded.replace("_", "").replace(",", "")
        for suffix in ("ki", "mi", "k", "m", ""):
            stem = digits.removesuffix(suffix)
            if digits.endswith(suffix) and stem.isdecimal():
                return f": write {key} = {int(stem) * _SUFFIXES.get(suffix, 1):_}"
    return ""


def _kind(value: object) -> str:
    """What a TOML value is, in a word."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return f"text ({value!r})" if len(value) <= 60 else "text"
    if isinstance(value, (int, float)):
        return f"a number ({value})"
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, dict) else "a date or time"


def _quoted(value: object) -> str:
    """A value as a TOML string."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def field_names(kind: type) -> tuple[str, ...]:
    """The keys of a table are the fields of its dataclass."""
    return tuple(field.name for field in dataclasses.fields(kind))
