"""What routing needs to know of a request: its size, its session, its dialect. Never its text."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

Digest = bytes
"""16 bytes: of BLAKE2b over normalised text, joined to longer ones by XXH3. Equal text, equal
digest, nothing to read back."""


_SIDE = frozenset({"/v1/messages/count_tokens", "/v1/embeddings", "/tokenize"})


class Endpoint(Enum):
    """The paths that are forwarded to an engine; `value` is the path there."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    MESSAGES = "/v1/messages"
    COUNT_TOKENS = "/v1/messages/count_tokens"
    RESPONSES = "/v1/responses"
    EMBEDDINGS = "/v1/embeddings"
    TOKENIZE = "/tokenize"

    def __init__(self, path: str) -> None:
        self.generates = path not in _SIDE
        """Whether it takes a slot and a session; the others are side calls (C47)."""

    # Asked in every step of a request's way: Enum's own hash is a Python function.
    __hash__ = object.__hash__


class Dialect(Enum):
    """In whose words a client wants its errors."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class Size(NamedTuple):
    """What can be told of a prompt's length without a tokenizer."""

    text_bytes: int = 0
    """UTF-8 bytes of everything the template renders, tools and tool calls included. No token is
    shorter than a byte, so with the template's own share this is a proof of `fits`."""
    token_ids: int = 0
    """Prompt given as numbers: exact."""
    pictures: int = 0
    messages: int = 0


class SessionId(NamedTuple):
    """An explicit id that a client sent; the first source in the stated order that is there."""

    source: str
    """`x-claude-code-session-id`, `metadata.user_id`, `prompt_cache_key` …"""
    key: str
    """Hashed: what a client calls its session is its own business."""


class Ask(NamedTuple):
    """One request, as far as the rules look at it."""

    endpoint: Endpoint
    dialect: Dialect
    stream: bool = False
    body_bytes: int = 0
    size: Size = Size()
    output: int | None = None
    """Tokens of answer asked for; None where the client left it to the engine."""
    session: SessionId | None = None
    chain: tuple[Digest, ...] = ()
    """Cumulative: system and tools, then with each message. Two asks of one conversation share a
    beginning; the longest one known tells whose next turn this is (C19)."""
    turns: tuple[Digest, ...] = ()
    """The same without system and tools: finds a conversation again whose system prompt carries a
    clock. Counts only from the first assistant message on, which no two conversations share."""
    answered_at: int = 0
    """Index in `turns` of the first one that includes an assistant message; 0: there is none."""
    opening: Digest = b""
    """Of the first 4,000 characters: the owner's own rule, where it is set."""
    previous_response: str = ""
    """`/v1/responses`: only the cluster that gave this answer knows it (C48)."""
    effort: str = ""
    thinking: int | None = None
    """Thinking budget the client asked for, in tokens."""
    choices: int = 1
    tools: bool = False
    constrained: bool = False
    """Grammar, JSON schema or log probabilities: such an answer is never continued elsewhere."""
    model: str = ""
