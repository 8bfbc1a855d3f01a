"""Each group's log: begun anew at every start, followed while the engine lives."""

from __future__ import annotations

from pathlib import Path

from rigctl.adapters.logfile import LogFiles
from rigctl.adapters.tail import Tail, last_lines
from rigctl.core.ids import GroupName
from rigctl.core.log_facts import LogFact
from rigctl.core.redact import redact
from rigctl.parse.sample import StaticFacts, learn
from rigctl.parse.sglang_log import parse_lines

LAST_LINES = 120
"""Lines of a dead engine's log that are searched for its last words."""


class EngineLogs:
    """Owns the files' names and ages; what a line means is parsed, what follows is decided."""

    def __init__(self, folder: Path) -> None:
        self._files = LogFiles(folder)
        self._tails: dict[GroupName, Tail] = {}
        self._facts: dict[GroupName, StaticFacts] = {}
        self._old_until: dict[GroupName, int] = {}
        """How far the log reached when the engine was adopted."""

    def begin(self, name: GroupName) -> Path:
        """A new run: the old log steps back, the new one is followed from its first byte."""
        path = self._files.begin(name)
        self._follow(name, path)
        return path

    def resume(self, name: GroupName) -> None:
        """An adopted engine: its log is read again from the start of its run."""
        path = self._files.path(name)
        self._follow(name, path)
        try:
            self._old_until[name] = path.stat().st_size
        except OSError:
            self._old_until[name] = 0

    def _follow(self, name: GroupName, path: Path) -> None:
        old = self._tails.pop(name, None)
        if old is not None:
            old.close()
        self._tails[name] = Tail(path)
        self._facts[name] = StaticFacts()
        self._old_until.pop(name, None)

    def read(self, name: GroupName) -> tuple[tuple[LogFact, ...], int, bool]:
        """What the new lines say, by how many bytes the log grew, and whether they are old ones."""
        tail = self._tails.get(name)
        if tail is None:
            return (), 0, False
        before = tail.offset
        facts = parse_lines(tail.read())
        known = self._facts[name]
        for fact in facts:
            known = learn(known, fact)
        self._facts[name] = known
        old = before < self._old_until.get(name, 0)
        return facts, max(0, tail.offset - before), old

    def known(self, name: GroupName) -> StaticFacts:
        """What the log has told of this run so far."""
        return self._facts.get(name, StaticFacts())

    def last_words(self, name: GroupName) -> tuple[str, ...]:
        """The log's last lines, redacted, the unfinished one included; none where it is gone."""
        try:
            found = last_lines(self._files.path(name), LAST_LINES)
        except OSError:
            return ()
        lines = (*found.lines, found.rest) if found.rest else found.lines
        return tuple(redact(line) for line in lines)

    def path(self, name: str, previous: int = 0) -> Path:
        """The log of a run: 0 the present one, 1 the one before."""
        return self._files.path(name, previous)

    def tidy(self) -> str:
        """Keep every log under its cap; what went wrong, or empty."""
        return self._files.tidy()

    def close(self) -> None:
        """Stop following."""
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()
