"""Faults of the owner's file, gathered so that one run names them all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rigctl.config.schema import ConfigError


class SeveralFaultsError(ConfigError):
    """All faults of one file, one line each; path and line are those of the first."""

    def __init__(self, faults: Iterable[ConfigError]) -> None:
        self.faults = tuple(faults)
        first = self.faults[0]
        rest = "".join(f"\n{fault}" for fault in self.faults[1:])
        super().__init__(f"{first.say}{rest}", path=first.path, line=first.line)


class Faults:
    """Takes faults while a file is read, and raises them together at the end."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[ConfigError] = []

    def add(self, say: str, line: int = 0) -> None:
        """Note a fault; line 0 means the file as a whole."""
        self.found.append(ConfigError(say, path=self.path, line=line))

    def take(self, error: ConfigError) -> None:
        """Note what another reader found, keeping its own file and line."""
        self.found.extend(error.faults if isinstance(error, SeveralFaultsError) else (error,))

    def raise_if_any(self) -> None:
        """Raise what was found, in the order of the lines."""
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise SeveralFaultsError(sorted(self.found, key=lambda fault: (fault.path, fault.line)))


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most like this one, or empty where none is like it."""
    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def origin_line(origin: str) -> int:
    """The line in an origin such as `rig.toml:14`; 0 for a default or an override."""
    name, _, line = origin.rpartition(":")
    return int(line) if name and " " not in name and line.isdecimal() else 0
