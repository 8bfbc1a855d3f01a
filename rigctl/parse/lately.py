"""What was looked for lately: a table that forgets what nobody asks for any more."""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")


class Lately(Generic[Value]):
    """By fingerprint, in two generations: the older is forgotten when the newer is full, and what
    is asked for again counts as new."""

    __slots__ = ("_most", "_new", "_old")

    def __init__(self, most: int) -> None:
        """`most`: of one generation."""
        self._most = most
        self._new: dict[bytes, Value] = {}
        self._old: dict[bytes, Value] = {}

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def __repr__(self) -> str:
        return f"Lately({self._new | self._old!r})"

    def find(self, key: bytes) -> Value | None:
        """What is kept under that fingerprint."""
        value = self._new.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.keep(key, value)
        return value

    def keep(self, key: bytes, value: Value) -> None:
        """Keep it under that fingerprint."""
        if len(self._new) >= self._most:
            self._old, self._new = self._new, {}
        self._new[key] = value
