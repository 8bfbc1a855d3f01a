"""How long bodies began: the next turn of a conversation is read from where the last one ended.

Agents send their whole past with every turn, byte for byte. As an engine knows a prefix of tokens
by the hashes of its blocks, a body's beginning is known here by those of its own: what stands
before the last block that two bodies share need not be read again, and is cut out before decoding.
The same bytes leave a parser in the same state, so what is left reads as it would have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Raw
from xxhash import xxh3_128

from rigctl.parse.chains import Past
from rigctl.parse.lately import Lately

BLOCK = 32 * 1024
"""Bytes from one place to the next at which a beginning is known again."""
LONGEST = 4 * 1024 * 1024
"""Bytes of a body whose beginnings are remembered: twice what fills a window of 524,288 tokens."""
MOST = 1_024
"""Places of one generation; two are kept."""
_LIST = re.compile(rb'"messages"[ \t\r\n]*:[ \t\r\n]*\[')
_NEXT = re.compile(rb"[ \t\r\n]*,?[ \t\r\n]*")


class Beginning(NamedTuple):
    """A beginning that was read before."""

    start: int
    """Just after the bracket that opens the list of messages."""
    end: int
    """Just after the last message that is known."""
    past: Past

    def rest(self, raw: bytes) -> bytes:
        """The body without the messages that are known."""
        return raw[: self.start] + raw[_next(raw, self.end) :]


class Beginnings:
    """The last some thousand places."""

    __slots__ = ("_block", "_places", "_seed")

    def __init__(self, seed: int = 0, most: int = MOST, block: int = BLOCK) -> None:
        """`seed`: as of `Known`. `block`: bytes between two places."""
        self._seed = seed
        self._block = block
        self._places = Lately[Beginning](most)

    def __len__(self) -> int:
        return len(self._places)

    def takes(self, raw: bytes) -> bool:
        """Whether a body is long enough for it, and not too long."""
        return self._block <= len(raw) <= LONGEST

    def find(self, raw: bytes) -> Beginning | None:
        """The longest beginning of this body that is known."""
        if not self.takes(raw):
            return None
        found = None
        for _, mark in self._marks(raw):  # none is kept where no message has ended yet
            found = self._places.find(mark) or found
        return found

    def remember(
        self, raw: bytes, start: int, ends: Sequence[int], past_at: Callable[[int], Past]
    ) -> None:
        """A body whose messages end at those places; `past_at` tells, in their order, what the
        first so many of them came to."""
        at = 0
        for place, mark in self._marks(raw):
            while at < len(ends) and ends[at] <= place:
                at += 1
            if at and self._places.find(mark) is None:
                self._places.keep(mark, Beginning(start, ends[at - 1], past_at(at)))

    def _marks(self, raw: bytes) -> Iterator[tuple[int, bytes]]:
        """The end of each whole block, and a fingerprint of everything up to there."""
        view, state = memoryview(raw), xxh3_128(seed=self._seed)
        block = self._block
        for place in range(block, len(raw) + 1, block):
            state.update(view[place - block : place])
            yield place, state.digest()


def _next(raw: bytes, at: int) -> int:
    """Past the comma, where one follows."""
    found = _NEXT.match(raw, at)
    return at if found is None else found.end()


def list_start(raw: bytes) -> int | None:
    """Where a list of messages may begin: to be proven by `ends_of` and by reading the rest."""
    found = _LIST.search(raw)
    return None if found is None else found.end()


def ends_of(raw: bytes, at: int, messages: Sequence[Raw]) -> list[int] | None:
    """Where each of these messages ends, the first one after `at`; None where none stands there."""
    ends: list[int] = []
    for each in messages:
        at = _next(raw, at)
        piece = bytes(each)
        if not raw.startswith(piece, at):
            return None
        at += len(piece)
        ends.append(at)
    return ends
