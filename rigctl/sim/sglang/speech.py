"""What an answer says, token by token, and where a stop string ends it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rigctl.sim.sglang.prompts import word

END_TOKEN = 248_046
"""The number of the token that ends an answer, told as `matched_stop`."""


@dataclass(frozen=True, slots=True)
class CallPart:
    """A piece of a tool call: first its name, then pieces of its arguments."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    """As the model writes it; what a parser swallows is not shown."""
    thought: bool = False
    shown: bool = True
    call: CallPart | None = None


@dataclass(frozen=True, slots=True)
class _Word:
    raw: str
    call: CallPart | None = None
    hidden: bool = False
    """Swallowed by the tool call parser."""


def _call(raw: str, *part: object) -> _Word:
    call = CallPart(int(str(part[0])), str(part[1]), str(part[2])) if part else None
    return _Word(raw, call, hidden=True)


_SCRIPTS: dict[str, tuple[_Word, ...]] = {
    "short": (_Word("Hello"), _Word(" over"), _Word(" there.")),
    "all": (
        *(_Word("Let me "), _Word("think."), _Word("</think>")),
        *(_Word("\n\nHere"), _Word(" it is."), _call("<tool_call>"), _call("\n<function=get_")),
        _call("weather>\n", 0, "get_weather", ""),
        _call("<parameter=city>\n", 0, "", "{"),
        *(_call("Paris"), _call(" again\n")),
        _call("</parameter>\n", 0, "", '"city": "Paris again"'),
        _call("</function>\n", 0, "", "}"),
        _call("</tool_call>"),
    ),
    "tools": (
        _call("<tool_call>\n<function="),
        _call("get_time>\n", 0, "get_time", "{"),
        _call("</function>\n</tool_call>\n", 0, "", "}"),
        _call("<tool_call>\n<function=get"),
        _call("_weather>\n<parameter=city>\nRome\n", 1, "get_weather", "{"),
        _call("</parameter>\n</function>\n</tool_call>", 1, "", '"city": "Rome"}'),
    ),
}
_SAY = re.compile(r"say:(\w+)")
_SENTENCE = ["I", "will", "look", "at", "the", "file", "again", "and", "then", ""][:-1]
_WIDE = ("größer ", "🐀🐀 ", "日本 ", "naïve ")


def script_of(text: str) -> str:
    """The script that a prompt names, empty when it names none that there is."""
    match = _SAY.search(text)
    return match[1] if match and match[1] in _SCRIPTS else ""


class Speech:
    """The tokens of one answer; equal prompts say the same."""

    def __init__(self, seed: int, thoughts: int, natural: int) -> None:
        self.seed = seed
        self.thoughts = thoughts
        """How many of its first tokens are thought."""
        self.natural = natural
        """Where it ends by itself, in tokens."""
        self.matched: str | int | None = END_TOKEN
        """What ends it there."""
        self.flavour = ""
        self._fixed: dict[int, Token] = {}

    @classmethod
    def scripted(cls, name: str, thinks: bool, tools: bool) -> Speech:
        """A script's answer; where tools are not offered, its calls are plain text."""
        words = _SCRIPTS[name]
        ends = next((n for n, each in enumerate(words) if each.raw == "</think>"), len(words))
        speech = cls(0, min(ends + 1, len(words) + 1) if thinks else 0, len(words) + 1)
        for number, each in enumerate(words):
            if thinks and number <= ends:
                token = Token(each.raw, thought=True, shown=number != ends)
            elif each.hidden and tools:
                token = Token(each.raw, shown=False, call=each.call)
            else:
                token = Token(each.raw)
            speech._fixed[number] = token
        speech._fixed[len(words)] = Token("", thought=thinks and ends == len(words))
        return speech

    @property
    def calls(self) -> bool:
        """Whether it will call a tool."""
        return any(token.call is not None for token in self._fixed.values())

    def token(self, number: int) -> Token:
        """The `number`th token, from 0."""
        fixed = self._fixed.get(number)
        if fixed is not None:
            return fixed
        thought = number < self.thoughts
        if self.flavour == "repeat":
            return Token(_SENTENCE[number % len(_SENTENCE)] + " ", thought)
        if self.flavour == "split":
            return Token(_WIDE[(self.seed + number) % len(_WIDE)], thought)
        return Token(word(self.seed, number), thought)

    def stop_at(self, stops: Sequence[str], limit: int, trim: bool = True) -> None:
        """End it where one of the strings appears; the string itself is not shown."""
        said = ""
        starts: list[int] = []
        for number in range(min(limit, self.natural)):
            starts.append(len(said))
            said += self.token(number).text
            found = [(said.find(stop), stop) for stop in stops if stop in said]
            if not found:
                continue
            at, stop = min(found)
            end = at if trim else at + len(stop)
            for back in range(number, -1, -1):
                whole = self.token(back)
                kept = whole.text[: max(0, end - starts[back])]
                if kept == whole.text:
                    break
                self._fixed[back] = Token(kept, whole.thought, whole.shown, whole.call)
            self.natural, self.matched = number + 1, stop
            return
