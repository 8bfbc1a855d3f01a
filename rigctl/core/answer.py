"""An answer as its client receives it: what was said by each choice, and how it stands or ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rigctl.core.said import Call, Said, Tags

MOST_TEXT = 8 * 1024 * 1024
"""Characters kept of one answer, all choices and fields together; beyond, it is no longer whole."""
MOST_CHOICES = 128
"""Choices told apart; one server counted tokens in `index` (C26)."""


class Ending(Enum):
    """How a stream stands, or ended."""

    RUNNING = "running"
    COMPLETE = "complete"
    """Every choice has its finish reason, or the dialect's own last event came."""
    TRUNCATED = "truncated"
    """Closed without a finish reason or last event, however cleanly."""
    FAILED = "failed"
    """An error in-band, or the engine aborted it."""
    SUSPICIOUS = "suspicious"
    """`[DONE]` without any finish reason: no clean success, and not to be continued either."""


class Doing(Enum):
    """What the model was last seen to write."""

    NOTHING = ""
    THINKING = "thinking"
    ANSWERING = "answering"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Usage:
    """The engine's own count; None is what it did not tell, which is not 0 (C46)."""

    prompt: int | None = None
    cached: int | None = None
    """Of `prompt`, read from cache."""
    completion: int | None = None
    reasoning: int | None = None
    """Of `completion`, thinking."""


@dataclass(frozen=True, slots=True)
class StreamError:
    """An error that came inside a 200 stream, or as the body of a refusal."""

    message: str
    kind: str = ""
    """Its `type`."""
    code: str = ""
    first: bool = False
    """Nothing of an answer came before it: another engine may try, unnoticed."""


class Answer:
    """One answer's state, told by a reader of its dialect."""

    __slots__ = (
        "_characters",
        "aborted",
        "choices",
        "closed",
        "doing",
        "done",
        "expected",
        "first_error",
        "progress",
        "reason",
        "response",
        "usage",
        "whole",
    )

    def __init__(self, expected: int = 1) -> None:
        """`expected`: choices that were asked for, all prompts together."""
        self.expected = expected
        self.choices: dict[int, Said] = {}
        self.progress = 0
        """Events that carried text, thought or part of a call; comments and empty ones do not."""
        self.doing = Doing.NOTHING
        self.first_error: StreamError | None = None
        self.usage: Usage | None = None
        self.reason = ""
        """Anthropic's stop reason: told before the end, but it is `message_stop` that completes."""
        self.response = ""
        """`/v1/responses`: the id that a later turn may name."""
        self.done = False
        """The dialect's last event was seen: `[DONE]`, `message_stop`, `response.completed`."""
        self.aborted = False
        """The engine ended it by an abort, which it tells as a finish reason."""
        self.closed = False
        """Nothing more comes."""
        self.whole = True
        """All text is kept: within `MOST_TEXT` and `MOST_CHOICES`."""
        self._characters = 0

    def said(self, choice: int | None) -> Said | None:
        """The choice of that index; None where there are too many of them to be choices."""
        index = choice or 0
        found = self.choices.get(index)
        if found is None:
            if len(self.choices) >= MOST_CHOICES:
                self.whole = False
                return None
            found = self.choices[index] = Said()
        return found

    def thought(self, choice: int | None, part: str, field: str, events: int = 1) -> None:
        """Thinking, under the field's name that carried it, by so many events in a row."""
        self.progress += events
        self.doing = Doing.THINKING
        said = self.said(choice)
        if said is None:
            return
        if not said.thinking_field:
            said.thinking_field = field
        if self._room(part):
            said.thinking.add(part)

    def answered(self, choice: int | None, part: str, events: int = 1) -> None:
        """Answer text, inline thinking included, by so many events in a row."""
        self.progress += events
        said = self.choices.get(choice or 0) or self.said(choice)
        if said is None:
            self.doing = Doing.ANSWERING
            return
        if not said.tags.settled:
            said.look_for_tags(part)
        self.doing = Doing.THINKING if said.tags is Tags.OPEN else Doing.ANSWERING
        if self._room(part):
            said.answer.add(part)

    def called(
        self, choice: int | None, index: int | None, name: str, identity: str, arguments: str
    ) -> None:
        """Part of a tool call. One with an index of its own ends the one before it."""
        self.progress += 1
        self.doing = Doing.TOOL
        said = self.said(choice)
        if said is None:
            return
        if index is None:
            # Servers that leave the index out send each call's name once, at its head.
            index = len(said.calls) if name or not said.calls else next(reversed(said.calls))
        call = said.calls.get(index)
        if call is None:
            if len(said.calls) >= MOST_CHOICES:
                self.whole = False
                return
            for other in said.calls.values():
                other.open = False
            call = said.calls[index] = Call()
        call.name = call.name or name
        call.id = call.id or identity
        if arguments:
            call.open = True
            if self._room(arguments):
                call.arguments.add(arguments)

    def finished(self, choice: int | None, reason: str) -> None:
        """A choice's finish reason."""
        if reason == "abort":
            self.aborted = True
        said = self.said(choice)
        if said is None:
            return
        said.finish = reason
        for call in said.calls.values():
            call.open = False

    def failed(self, message: str, kind: str, code: str) -> None:
        """An error in-band; only the first is kept, what follows it is its echo."""
        if self.first_error is None:
            self.first_error = StreamError(message, kind, code, first=self.progress == 0)

    @property
    def ended(self) -> Ending:
        """How it stands; once `closed`, how it ended."""
        if self.first_error is not None or self.aborted:
            return Ending.FAILED
        finished = sum(1 for said in self.choices.values() if said.finish)
        if finished >= self.expected or (self.done and finished):
            return Ending.COMPLETE
        if self.done:
            return Ending.SUSPICIOUS
        return Ending.TRUNCATED if self.closed else Ending.RUNNING

    def _room(self, part: str) -> bool:
        self._characters += len(part)
        if self._characters > MOST_TEXT:
            self.whole = False
        return self.whole
