"""Prompts without a tokenizer: text cut in pieces of known length that can be compared.

A token is four bytes. `tok:50000:name` stands for 50,000 tokens of text called `name`, so that
a long session travels as a short body; the same mark is the same text, and is cached as such.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BYTES_PER_TOKEN = 4
PIECE_TOKENS = 256
ROLE_TOKENS = 4
"""What the chat template adds around a message."""

_MARK = re.compile(r"tok:(\d+)(?::([\w.-]+))?")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of tokens; equal keys are equal tokens."""

    key: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class Prompt:
    pieces: tuple[Piece, ...]
    chat: bool = False
    """Whether it ends where an assistant begins to speak."""

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)


def _key(*parts: str) -> bytes:
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=12).digest()


def _plain(text: str) -> list[Piece]:
    data = text.encode("utf-8", "replace")
    step = PIECE_TOKENS * BYTES_PER_TOKEN
    return [
        Piece(
            hashlib.blake2b(data[at : at + step], digest_size=12).digest(),
            max(1, round(len(data[at : at + step]) / BYTES_PER_TOKEN)),
        )
        for at in range(0, len(data), step)
    ]


def cut(text: str) -> list[Piece]:
    """The pieces of a text, marks expanded."""
    pieces: list[Piece] = []
    at = 0
    for mark in _MARK.finditer(text):
        pieces += _plain(text[at : mark.start()])
        count, name = int(mark[1]), mark[2] or ""
        for number in range(0, count, PIECE_TOKENS):
            pieces.append(Piece(_key("mark", name, str(number)), min(PIECE_TOKENS, count - number)))
        at = mark.end()
    return pieces + _plain(text[at:])


def message_text(message: Mapping[str, Any]) -> str:
    """What a chat message says, its parts joined. ValueError for a shape that is none."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    raise ValueError("message content must be a string, a list of parts or null")


def chat_pieces(role: str, text: str) -> list[Piece]:
    """One message as the template writes it."""
    return [Piece(_key("role", role), ROLE_TOKENS), *cut(text.strip())]


def chat_prompt(messages: Sequence[Mapping[str, Any]]) -> Prompt:
    """A chat as one prompt. ValueError says what is wrong with the messages."""
    pieces: list[Piece] = []
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError("every message needs a role")
        pieces += chat_pieces(message["role"], message_text(message))
    return Prompt((*pieces, Piece(_key("role", "assistant"), ROLE_TOKENS)), chat=True)


def plain_prompt(text: str) -> Prompt:
    """A completion's prompt: the text as it is."""
    return Prompt(tuple(cut(text)))


def ids_prompt(ids: Iterable[int]) -> Prompt:
    """A prompt given as token ids."""
    numbers = list(ids)
    return Prompt(
        tuple(
            Piece(_key("ids", *map(str, part)), len(part))
            for part in (
                numbers[at : at + PIECE_TOKENS] for at in range(0, len(numbers), PIECE_TOKENS)
            )
        )
    )


_WORDS = [
    "the",
    "and",
    "for",
    "not",
    "you",
    "can",
    "all",
    "out",
    "use",
    "now",
    "one",
    "two",
    "set",
    "run",
    "new",
    "old",
    "get",
    "put",
    "map",
    "key",
]


def word(seed: int, number: int) -> str:
    """The answer's `number`th token: four bytes, always the same for a seed."""
    return _WORDS[(seed * 7919 + number * 104729 + number * number % 31) % len(_WORDS)] + " "
