"""Messages that were read before: agents send their whole past with every turn, byte for byte.

A message is known again by a fingerprint of its bytes as they were sent, taken at the speed of
memory, and is neither decoded nor normalised nor hashed anew. What is remembered is a digest and
two sizes, never a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Raw
from xxhash import xxh3_128_digest

from rigctl.parse.chains import Part
from rigctl.parse.lately import Lately

MOST = 4_096
"""Messages of one generation; two are kept, about 300 bytes a message."""


class Known:
    """The last some thousand messages and lists of tools."""

    __slots__ = ("_parts", "_seed")

    def __init__(self, seed: int = 0, most: int = MOST) -> None:
        """`seed`: a number that no client knows, so that none can make two that look alike."""
        self._seed = seed
        self._parts = Lately[Part](most)

    def __len__(self) -> int:
        return len(self._parts)

    def read(self, raws: Sequence[Raw], reader: Callable[[Raw], Part]) -> list[Part]:
        """What each adds to a conversation; `reader` is asked for those that are new."""
        kept, seed = self._parts, self._seed
        parts: list[Part] = []
        for raw in raws:
            fingerprint = xxh3_128_digest(raw, seed)
            part = kept.find(fingerprint)
            if part is None:
                part = reader(raw)
                kept.keep(fingerprint, part)
            parts.append(part)
        return parts
