"""The single changes that a body may need, each by its own rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from rigctl.core.ask import Endpoint
from rigctl.parse.extras import CUSTOM, PRIORITY
from rigctl.parse.messages import BILLING, SYSTEM
from rigctl.parse.opened import Opened, plain_value

if TYPE_CHECKING:
    from rigctl.parse.rewrite import Wishes

_KWARGS = frozenset({Endpoint.CHAT, Endpoint.RESPONSES, Endpoint.TOKENIZE})
_ANTHROPIC = frozenset({Endpoint.MESSAGES, Endpoint.COUNT_TOKENS})
OFF: Mapping[str, Any] = {"thinking": False, "enable_thinking": False}
"""The names by which templates take "no thinking": DeepSeek's and Kimi's, Qwen's and GLM's."""


class Changes:
    """What is taken out of a body's top level and what is put there instead."""

    __slots__ = ("dropped", "notes", "opened", "put")

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.dropped: set[str] = set()
        self.put: dict[str, Any] = {}
        self.notes: list[str] = []

    @property
    def touched(self) -> bool:
        """Whether the client's bytes cannot stay as they are."""
        return bool(self.dropped or self.put) or self.opened.plain is not None

    def drop(self, key: str, *, note: bool = True) -> None:
        """Take a key out, if it is there."""
        there = key in self.opened.extras or getattr(self.opened.body, key, UNSET) is not UNSET
        if not there or key in self.dropped:
            return
        self.dropped.add(key)
        if note:
            self.notes.append(f"{key} taken out")

    def replace(self, key: str, value: object, note: str) -> None:
        """Another value for a key."""
        self.dropped.add(key)
        self.put[key] = value
        if note:
            self.notes.append(note)


def strip(changes: Changes, priorities: bool) -> None:
    """Take out what reaches into the engine."""
    for key in sorted(changes.opened.extras):
        changes.drop(key)
    if not priorities:
        changes.drop(PRIORITY)


def budget(changes: Changes, wishes: Wishes, takes: bool) -> int | None:
    """Take `custom_params` out, and say the thinking budget to put in their place, or None.

    A client's number works within the owner's cap. Below zero, or no whole number, it asks for no
    end at all: it becomes the cap, or is gone where the engine's own limit is the only one.
    """
    sent = changes.opened.body.custom_params
    changes.drop(CUSTOM, note=sent is not None)
    if not (wishes.budgets and takes):
        return None
    asked: Any = sent.get("thinking_budget") if isinstance(sent, dict) else None
    if asked is None:
        asked = wishes.thinking
    if asked is None:
        return None
    cap = wishes.think_cap
    if type(asked) is not int or asked < 0:
        changes.notes.append("thinking budget: not a number of tokens")
        return cap
    if cap is not None and asked > cap:
        changes.notes.append(f"thinking budget: at most {cap} tokens")
        return cap
    return int(asked)


def usage(changes: Changes, added: dict[str, Any]) -> bool:
    """Ask for the usage chunk, unless the client does; whether it is asked for by us alone."""
    options = changes.opened.body.stream_options
    if options is UNSET:
        added["stream_options"] = {"include_usage": True}
        return True
    if options is None:
        options = {}
    if not isinstance(options, dict) or options.get("include_usage") is True:
        return False
    if options.get("include_usage") not in (None, False):
        return False  # no flag: the engine has its own words for it
    changes.replace("stream_options", {**options, "include_usage": True}, "")
    return True


def effort(
    changes: Changes, endpoint: Endpoint, levels: Mapping[str, str], added: dict[str, Any]
) -> None:
    """Translate a level of effort that the template would refuse, wherever it stands."""
    body = changes.opened.body
    kwargs = body.chat_template_kwargs if endpoint in _KWARGS else UNSET
    kwargs = dict(kwargs) if isinstance(kwargs, dict) else {}
    before = dict(kwargs)
    if endpoint in _ANTHROPIC:
        holder, inner = "output_config", body.output_config
    elif endpoint is Endpoint.RESPONSES:
        holder, inner = "reasoning", body.reasoning
    else:
        holder, inner = "", UNSET
        level = body.reasoning_effort
        if isinstance(level, str) and level in levels and levels[level] != level:
            to = levels[level]
            if to:
                changes.replace("reasoning_effort", to, f"effort {to}")
            else:
                changes.drop("reasoning_effort", note=False)
                kwargs = {**OFF, **kwargs}
                changes.notes.append("effort: no thinking")
    if holder and isinstance(inner, dict):
        level = inner.get("effort")
        if isinstance(level, str) and level in levels and levels[level] != level:
            to = levels[level]
            rest = {key: value for key, value in inner.items() if key != "effort"}
            if to:
                changes.replace(holder, {**rest, "effort": to}, f"effort {to}")
            else:
                changes.replace(holder, rest, "effort: no thinking")
                if endpoint in _ANTHROPIC:
                    changes.replace("thinking", {"type": "disabled"}, "")
                else:
                    kwargs = {**OFF, **kwargs}
    level = kwargs.get("reasoning_effort")
    if isinstance(level, str) and level in levels and levels[level] != level:
        if levels[level]:
            kwargs["reasoning_effort"] = levels[level]
        else:
            del kwargs["reasoning_effort"]
            kwargs = {**OFF, **kwargs}
    if kwargs != before:
        changes.replace("chat_template_kwargs", kwargs, "")


def billing(changes: Changes, endpoint: Endpoint) -> None:
    """Take the billing line off the head of the system text; never off a user's (C18)."""
    body = changes.opened.body
    if endpoint in _ANTHROPIC:
        cleaned = _cleaned(body.system)
        if cleaned is not None:
            changes.replace("system", cleaned, "billing line taken off")
        return
    if endpoint is Endpoint.RESPONSES:
        cleaned = _cleaned(body.instructions)
        if cleaned is not None:
            changes.replace("instructions", cleaned, "billing line taken off")
        return
    messages = body.messages
    first = plain_value(messages[0]) if isinstance(messages, list) and messages else None
    if not isinstance(first, dict):
        return
    if first.get("role") not in SYSTEM:
        return
    cleaned = _cleaned(first.get("content"))
    if cleaned is not None:
        changes.replace(
            "messages", [{**first, "content": cleaned}, *messages[1:]], "billing line taken off"
        )


def _cleaned(content: object) -> Any:
    """The content without the line, or None where there is none."""
    if isinstance(content, str):
        found = BILLING.match(content)
        return content[found.end() :] if found is not None else None
    if not isinstance(content, list) or not content or not isinstance(content[0], dict):
        return None
    text = content[0].get("text")
    found = BILLING.match(text) if isinstance(text, str) else None
    if found is None or not isinstance(text, str):
        return None
    rest = text[found.end() :]
    # Some servers refuse a block of no text.
    return [{**content[0], "text": rest}, *content[1:]] if rest else content[1:]
