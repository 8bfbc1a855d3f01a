"""Messages in a normal form: what two turns of one conversation have in common, byte by byte.

Clients send the same message in other words on the next turn: a text as a list of one block, with
a `cache_control` moved on, with other ids, with null for no text, with the thinking left out. None
of that makes it another message here.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rigctl.parse.chains import NOTHING, Part, digest, encode

BILLING = re.compile(r"x-anthropic-billing-header:[^\n]*(?:\n|\Z)")
"""A line that changes with every request, at the very head of the system text (C18)."""

SYSTEM = frozenset({"system", "developer"})
_PICTURES = frozenset(
    {"image_url", "input_image", "image", "video_url", "video", "audio_url", "input_audio", "audio"}
)
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_TEXTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
_CALLS = frozenset({"tool_use", "server_tool_use"})
_CALL_ITEMS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "mcp_call"})
_RESULT_ITEMS = frozenset({"function_call_output", "custom_tool_call_output"})
_WHOLE_PICTURE = 64 * 1024
_SLICES = 64
_CALL_SHARE = 128
"""Bytes a template writes around one call; its JSON is written with blanks, counted apart."""
_MOVING = frozenset({"cache_control", "id", "tool_use_id", "call_id", "tool_call_id", "status"})


def without_billing(text: str) -> str:
    """The system text without the billing line at its head, if there is one."""
    found = BILLING.match(text)
    return text[found.end() :] if found is not None else text


def read_system(system: object, leading: list[Any]) -> tuple[Part, str]:
    """System text and the system messages that lead: what they add, and their text."""
    if system is None and len(leading) == 1:
        content = leading[0].get("content")
        if isinstance(content, str):  # one system message of plain text, as most clients send
            text = without_billing(content)
            data = encode(text)
            return Part(digest(data), len(data)), text
    reader = _Reader()
    out: list[str] = []
    first = True
    for part in (system, *(one.get("content") for one in leading)):
        start = len(out)
        reader.content(part, out)
        if first and len(out) > start:
            # Only the first text of all, where the line stands by itself or before the rest.
            out[start] = without_billing(out[start])
            first = False
    text = "".join(out)
    data = encode(text)
    return Part(digest(data), len(data) + reader.text_bytes, reader.pictures), text


def read_tools(tools: object) -> Part:
    """The tools that a request offers, without the marks that clients move about on them."""
    if not isinstance(tools, list) or not tools:
        return NOTHING
    data = _json([_still(tool) for tool in tools])
    return Part(digest(data), spaced(data))


def read_message(message: Any) -> tuple[Part, list[str]]:
    """One message, or one item of `input`: what it adds, and the text in its normal form."""
    if type(message) is dict and len(message) == 2:
        role, content = message.get("role"), message.get("content")
        if isinstance(role, str) and isinstance(content, str):  # most messages of most clients
            data = encode(f"{role}\0{content}")
            return Part(digest(data), len(data), 0, role == "assistant"), [content]
    reader = _Reader()
    if not isinstance(message, dict):
        out = ["?\0"]
        reader.content(message, out)
        return reader.part(out), []
    role = message.get("role")
    if not isinstance(role, str):
        role = message.get("type")
        if role in _THOUGHTS:
            reader.unhashed(message)
            return Part(b"", reader.text_bytes), []
        if role in _CALL_ITEMS:
            role = "assistant"
    content = message.get("content")
    out = [role if isinstance(role, str) else "?", "\0"]
    if isinstance(content, str):
        out.append(content)
    else:
        reader.content(content, out)
    text = out[2:]
    if len(message) > 2:
        reader.rest(message, out)
    return reader.part(out, role == "assistant"), text


class _Reader:
    """Brings one message into its normal form, and counts what a template writes for it."""

    __slots__ = ("pictures", "text_bytes")

    def __init__(self) -> None:
        self.text_bytes = 0
        self.pictures = 0

    def part(self, out: list[str], answer: bool = False) -> Part:
        """All that was read."""
        data = encode("".join(out))
        return Part(digest(data), self.text_bytes + len(data), self.pictures, answer)

    def rest(self, message: dict[str, Any], out: list[str]) -> None:
        """Calls, results and names beside the content."""
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            for call in calls:
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict):
                    self.call(function.get("name"), function.get("arguments"), out)
        kind = message.get("type")
        if kind in _CALL_ITEMS:
            self.call(message.get("name"), message.get("arguments", message.get("input")), out)
        elif kind in _RESULT_ITEMS:
            out.append("\0result\0")
            self.content(message.get("output"), out)
        name = message.get("name")
        if isinstance(name, str) and kind not in _CALL_ITEMS:
            out.append("\0name\0" + name)
        for field in ("reasoning_content", "reasoning"):
            thought = message.get(field)
            if isinstance(thought, str):
                self.text_bytes += len(encode(thought))

    def content(self, content: object, out: list[str]) -> None:
        if content is None:
            return
        if isinstance(content, str):
            out.append(content)
        elif isinstance(content, list):
            for block in content:
                self.block(block, out)
        else:
            # Not what any engine takes: it gives its own 400. Until then it is counted as it is.
            out.append(_json(content).decode("utf-8", "replace"))

    def block(self, block: Any, out: list[str]) -> None:
        if not isinstance(block, dict):
            self.content(block, out)
            return
        kind = block.get("type")
        text = block.get("text")
        if isinstance(text, str) and (kind in _TEXTS or kind is None):
            out.append(text)
        elif kind in _CALLS:
            self.call(block.get("name"), block.get("input"), out)
        elif kind == "tool_result":
            out.append("\0result\0")
            self.content(block.get("content"), out)
        elif kind in _THOUGHTS:
            self.unhashed(block)
        elif kind in _PICTURES:
            self.pictures += 1
            out.append("\0picture\0" + _picture(block))
        else:
            out.append(f"\0{kind}\0" + _json(_still(block)).decode("utf-8", "replace"))

    def call(self, name: object, arguments: object, out: list[str]) -> None:
        if isinstance(arguments, str):
            text = arguments
            self.text_bytes += text.count(",") + text.count(":")
        else:
            data = _json(arguments)
            text = data.decode("utf-8", "replace")
            self.text_bytes += spaced(data) - len(data)
        self.text_bytes += _CALL_SHARE
        out.append(f"\0call\0{name if isinstance(name, str) else ''}\0{text}")

    def unhashed(self, thought: dict[str, Any]) -> None:
        """Thinking of earlier turns: clients keep it or leave it out, templates too."""
        self.text_bytes += len(_json(thought))


def spaced(data: bytes) -> int:
    """Bytes of compact JSON once a template has written it with its blanks, at most."""
    return len(data) + data.count(b",") + data.count(b":")


def _json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, RecursionError):
        return repr(value).encode("utf-8", "replace")


def _still(block: Any) -> Any:
    """A block without what clients move about between turns."""
    if isinstance(block, dict) and not _MOVING.isdisjoint(block):
        return {key: value for key, value in block.items() if key not in _MOVING}
    return block


def _picture(block: dict[str, Any]) -> str:
    """Digest of a picture: of slices all over it where it is large, and of its length."""
    found: object = block.get("image_url", block.get("source", block.get("input_audio")))
    if isinstance(found, dict):
        found = found.get("url") or found.get("data") or found
    data = encode(found) if isinstance(found, str) else _json(found if found is not None else block)
    if len(data) > _WHOLE_PICTURE:
        step = len(data) // _SLICES
        part = _WHOLE_PICTURE // _SLICES
        slices = (data[at : at + part] for at in range(0, len(data), step))
        data = b"%d:" % len(data) + b"".join(slices) + data[-part:]
    return digest(data).hex()
