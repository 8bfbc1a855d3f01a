"""Folds a line that repeats into one line and a count, as people want to see a flood (C68)."""

from __future__ import annotations

import re

_STAMP = re.compile(r"^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\] ]*\]?\s*")
"""A leading time differs in every line of a flood and is left out of the comparison."""


class Fold:
    """Feed lines, show what comes back. The first of a kind shows at once, the count after it."""

    def __init__(self) -> None:
        self._body: str | None = None
        self._repeats = 0

    def feed(self, line: str) -> list[str]:
        """What to show now that this line came."""
        body = _STAMP.sub("", line)
        if body and body == self._body:
            self._repeats += 1
            return []
        shown = self.flush()
        self._body = body
        return [*shown, line]

    def flush(self) -> list[str]:
        """The count that is due, for the end or a pause; the same line may go on after it."""
        if self._repeats == 0:
            return []
        count, self._repeats = self._repeats, 0
        return [f"  … and the same again x {count}"]
