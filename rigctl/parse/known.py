"""Messages that were read before: agents send their whole past with every turn, byte for byte.

A message is known again by a fingerprint of its bytes as they were sent, taken at the speed of
memory, and is neither decoded nor normalised nor hashed anew. What is remembered is a digest and
two sizes, never a text.
"""

from __future__ import annotations

from msgspec import Raw
from xxhash import xxh3_128_digest

from rigctl.parse.chains import Part

MOST = 16_384
"""Messages of one generation; two are kept, about 300 bytes a message."""


class Known:
    """The last some ten thousand messages and lists of tools."""

    __slots__ = ("_most", "_new", "_old", "_seed")

    def __init__(self, seed: int = 0, most: int = MOST) -> None:
        """`seed`: a number that no client knows, so that none can make two that look alike."""
        self._seed = seed
        self._most = most
        self._new: dict[bytes, Part] = {}
        self._old: dict[bytes, Part] = {}

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def fingerprint(self, raw: Raw) -> bytes:
        """Of the bytes as they were sent."""
        return xxh3_128_digest(raw, self._seed)

    def find(self, fingerprint: bytes) -> Part | None:
        """What it adds to a conversation, if it was read lately."""
        part = self._new.get(fingerprint)
        if part is None:
            part = self._old.get(fingerprint)
            if part is not None:
                self.keep(fingerprint, part)
        return part

    def keep(self, fingerprint: bytes, part: Part) -> None:
        """It was read. The older half is forgotten when the newer is full."""
        if len(self._new) >= self._most:
            self._old, self._new = self._new, {}
        self._new[fingerprint] = part
