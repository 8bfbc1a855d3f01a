"""The digests by which a conversation is known again, and the sizes that are counted beside.

`turns[i]` covers the messages up to the i-th; `chain[i + 1]` the same with system and tools before
them, `chain[0]` those alone. Cumulative: who shares the i-th has everything before it in common.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from xxhash import xxh3_128_digest

from rigctl.core.ask import Digest

DIGEST = 16
OPENING = 4_000
"""Characters of the owner's own rule."""
BLOCK = 4_096
"""Characters, or token ids, of plain prompt that make one link: it has no messages."""
MOST_LINKS = 4_096
"""Links of one chain; what comes after them is in none."""


class Part(NamedTuple):
    """What one message, or the tools, add to a conversation: no text."""

    digest: Digest
    """Of its normal form; empty for what makes no link, as the thinking of earlier turns."""
    text_bytes: int = 0
    pictures: int = 0
    answer: bool = False
    """It is the model's own."""


NOTHING = Part(b"")
"""No tools, or no system text."""


class Past(NamedTuple):
    """What the first messages of a conversation came to: no text."""

    system: Part
    """Of the system messages that lead them."""
    turns: tuple[Digest, ...] = ()
    text_bytes: int = 0
    pictures: int = 0
    messages: int = 0
    answered_at: int = 0


@dataclass(slots=True)
class Chain:
    """What grows while a conversation is walked through."""

    head: Digest = b""
    turns: list[Digest] = field(default_factory=list)
    chain: list[Digest] = field(default_factory=list)
    answered_at: int = 0
    text_bytes: int = 0
    pictures: int = 0
    messages: int = 0
    opening: list[str] = field(default_factory=list)
    opening_left: int = 0
    """Characters of the opening still wanted: `OPENING` at the beginning, if at all."""
    so_far: Digest = b""

    def open(self, text: str) -> None:
        """Text of the prompt's beginning, in its order."""
        if self.opening_left > 0 and text:
            self.opening.append(text[: self.opening_left])
            self.opening_left -= len(text)

    def opening_digest(self) -> Digest:
        """Of the first characters; empty where there are none."""
        text = "".join(self.opening)
        return digest(encode(text)) if text else b""

    def begin(self, system: Part, tools: Part) -> None:
        """System text and tools."""
        self.text_bytes += system.text_bytes + tools.text_bytes
        self.pictures += system.pictures
        self.head = xxh3_128_digest(system.digest + b"\0" + tools.digest)
        self.chain.append(self.head)

    def resume(self, past: Past) -> None:
        """Go on behind messages that were read before."""
        head = self.head
        self.turns = list(past.turns)
        self.chain += [xxh3_128_digest(head + so_far) for so_far in past.turns]
        self.so_far = past.turns[-1] if past.turns else b""
        self.text_bytes += past.text_bytes
        self.pictures += past.pictures
        self.messages += past.messages
        self.answered_at = past.answered_at

    def past(self, system: Part) -> Past:
        """What it came to so far, behind that system text."""
        sums = (self.text_bytes, self.pictures, self.messages, self.answered_at)
        return Past(system, tuple(self.turns), *sums)

    def extend(self, parts: Iterable[Part]) -> None:
        """So many messages more: hundreds, in a long conversation, so `link` is written out."""
        turns, chain, head, so_far = self.turns, self.chain, self.head, self.so_far
        text_bytes, room = self.text_bytes, MOST_LINKS - len(turns)
        for part in parts:
            self.messages += 1
            digest, more, pictures, answer = part
            text_bytes += more
            if pictures:
                self.pictures += pictures
            if answer and not self.answered_at:
                self.answered_at = len(turns)
            if digest and room > 0:
                room -= 1
                so_far = xxh3_128_digest(so_far + digest)
                turns.append(so_far)
                chain.append(xxh3_128_digest(head + so_far))
        self.text_bytes, self.so_far = text_bytes, so_far

    def link(self, part: Digest) -> None:
        """One link more, of everything so far but the head."""
        if len(self.turns) < MOST_LINKS:
            # Digests of one length: no two lists of them spell the same bytes.
            self.so_far = so_far = xxh3_128_digest(self.so_far + part)
            self.turns.append(so_far)
            self.chain.append(xxh3_128_digest(self.head + so_far))


def digest(data: bytes) -> Digest:
    """BLAKE2b of 16 bytes: nothing that a client sends is told by it, and nobody makes two texts
    with the same. Digests are joined by XXH3, which reads none of the text."""
    # Not SHA-256: OpenSSL's way to it touches 40 pages of memory more, which a request pays for.
    return blake2b(data, digest_size=DIGEST).digest()


def encode(text: str) -> bytes:
    """UTF-8; half characters, which JSON can spell, are taken as they are."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
