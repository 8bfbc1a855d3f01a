"""What a client has received of one choice: thinking, answer and tool calls, each by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

_JOIN = 256
"""Parts that are joined to one: a part of three letters costs sixty bytes of its own."""

_OPEN, _CLOSE = "<think>", "</think>"


class Tags(Enum):
    """Where a text stands between inline thinking tags."""

    UNTOLD = "untold"
    """Too little text to tell."""
    OPEN = "open"
    CLOSED = "closed"
    LOOSE = "loose"
    """None opened; the template may have done so."""
    NONE = "none"

    def __init__(self, word: str) -> None:
        self.settled = word in ("closed", "none")
        """No later text changes it."""


class Text:
    """Text that comes in many small parts and is read seldom."""

    __slots__ = ("_blocks", "_parts", "characters")

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._parts: list[str] = []
        self.characters = 0

    def add(self, part: str) -> None:
        """Append; the join is put off until there are many parts, and never repeated."""
        parts = self._parts
        parts.append(part)
        self.characters += len(part)
        if len(parts) >= _JOIN:
            self._blocks.append("".join(parts))
            parts.clear()

    def __str__(self) -> str:
        return "".join(self._blocks) + "".join(self._parts)

    def __bool__(self) -> bool:
        return self.characters > 0

    def tail(self, characters: int) -> str:
        """The last so many characters."""
        kept: list[str] = []
        left = characters
        for part in (*reversed(self._parts), *reversed(self._blocks)):
            if left <= 0:
                break
            kept.append(part)
            left -= len(part)
        return "".join(reversed(kept))[-characters:] if characters > 0 else ""


@dataclass(slots=True)
class Call:
    """One tool call as far as it was delivered."""

    name: str = ""
    id: str = ""
    arguments: Text = field(default_factory=Text)
    open: bool = True
    """Its end has not been seen: half of it must never be spliced to another half (C24)."""


@dataclass(slots=True)
class Said:
    """What the client has received of one choice."""

    thinking: Text = field(default_factory=Text)
    answer: Text = field(default_factory=Text)
    """As it was sent: inline tags stay in it."""
    calls: dict[int, Call] = field(default_factory=dict)
    thinking_field: str = ""
    """The name under which the thinking came: `reasoning_content` or `reasoning` (C45)."""
    finish: str = ""
    """The finish reason in the dialect's own words; empty: not finished."""
    tags: Tags = Tags.UNTOLD
    """Where `answer` stands between inline `<think>` tags, for servers without a parser."""
    _tail: str = ""

    @property
    def open_call(self) -> bool:
        """Whether a tool call is half delivered."""
        return any(call.open for call in self.calls.values())

    def visible(self) -> str:
        """The answer without what stands before the end of an inline thought."""
        text = str(self.answer)
        if self.tags is Tags.OPEN:
            return ""
        return text.partition(_CLOSE)[2] if self.tags is Tags.CLOSED else text

    def look_for_tags(self, part: str) -> None:
        """Keep `tags`, given the part of `answer` that comes next; a tag may be cut over two.

        Only a tag at the very head opens: later ones are an answer that talks about tags. A closing
        one without an opening counts once, where no field of its own carried the thinking: the
        template had opened it in the prompt.
        """
        tags = self.tags
        if tags is Tags.UNTOLD:
            head = (self._tail + part).lstrip()
            if head.startswith(_OPEN):
                self.tags, self._tail = Tags.OPEN, ""
                part = head[len(_OPEN) :]
            elif _OPEN.startswith(head):
                self._tail = head
                return
            elif self.thinking:
                self.tags, self._tail = Tags.NONE, ""
                return
            else:
                self.tags, self._tail = Tags.LOOSE, ""
                part = head
        elif tags.settled:
            return
        text = self._tail + part
        if _CLOSE in text:
            self.tags, self._tail = Tags.CLOSED, ""
        else:
            self._tail = text[1 - len(_CLOSE) :]


def all_thought(said: Said) -> bool:
    """Whether a finished choice only thought: no answer, no tool call. Agents see it as empty."""
    if not said.finish or said.calls:
        return False
    thought = bool(said.thinking) or said.tags in (Tags.OPEN, Tags.CLOSED)
    return thought and not said.visible().strip()


def sound(text: str) -> str:
    """The text without a half character at its end, where another engine would have to go on.

    An engine whose token ends inside a character writes U+FFFD and brings the whole one next (C36).
    """
    end = len(text)
    while end and (text[end - 1] == "\ufffd" or "\ud800" <= text[end - 1] <= "\udfff"):
        end -= 1
    return text[:end]
