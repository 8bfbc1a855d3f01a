"""Messages in a normal form: what two turns of one conversation have in common, byte by byte.

Clients send the same message in other words on the next turn: a text as a list of one block, with
a `cache_control` moved on, with other ids, with null for no text, with the thinking left out. None
of that makes it another message here.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rigctl.parse.chains import Chain, digest, encode

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
_NOTHING = digest(b"")
_WHOLE_PICTURE = 64 * 1024
_SLICES = 64
_CALL_SHARE = 128
"""Bytes a template writes around one call; its JSON is written with blanks, counted apart."""
_MOVING = frozenset({"cache_control", "id", "tool_use_id", "call_id", "tool_call_id", "status"})


def without_billing(text: str) -> str:
    """The system text without the billing line at its head, if there is one."""
    found = BILLING.match(text)
    return text[found.end() :] if found is not None else text


class Walk:
    """Goes through one conversation and fills its chain."""

    __slots__ = ("_chain", "_so_far")

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._so_far = _NOTHING

    def head(self, system: object, tools: object, leading: list[Any]) -> None:
        """System text, system messages that lead, and tools."""
        chain = self._chain
        out: list[str] = []
        first = True
        for part in (system, *(one.get("content") for one in leading)):
            start = len(out)
            self._content(part, out)
            if first and len(out) > start:
                # Only the first text of all, where the line stands by itself or before the rest.
                out[start] = without_billing(out[start])
                first = False
        text = "".join(out)
        chain.open(text)
        data = encode(text)
        chain.text_bytes += len(data)
        tools_data = b""
        if isinstance(tools, list) and tools:
            tools_data = _json([_still(tool) for tool in tools])
            chain.text_bytes += spaced(tools_data)
        chain.begin(data + b"\0" + tools_data)

    def message(self, message: Any) -> None:
        """One message, or one item of `input`."""
        chain = self._chain
        chain.messages += 1
        if not isinstance(message, dict):
            out = ["?\0"]
            self._content(message, out)
            self._link("".join(out))
            return
        role = message.get("role")
        if not isinstance(role, str):
            role = message.get("type")
            if role in _THOUGHTS:
                self._unhashed(message)
                return
            if role in _CALL_ITEMS:
                role = "assistant"
        if role == "assistant" and not chain.answered_at:
            chain.answered_at = len(chain.turns)
        content = message.get("content")
        if isinstance(content, str) and isinstance(role, str) and len(message) == 2:
            if chain.opening_left > 0:
                chain.open(content)
            self._link(f"{role}\0{content}")  # most messages of most clients
            return
        out = [role if isinstance(role, str) else "?", "\0"]
        if isinstance(content, str):
            out.append(content)
        else:
            self._content(content, out)
        if chain.opening_left > 0:
            chain.open("".join(out[2:]))
        if len(message) > 2:
            self._rest(message, out)
        self._link("".join(out))

    def _link(self, text: str) -> None:
        chain = self._chain
        data = encode(text)
        chain.text_bytes += len(data)
        # A digest of one length before each message: no two lists of them spell the same bytes.
        self._so_far = digest(self._so_far + data)
        chain.link(self._so_far)

    def _rest(self, message: dict[str, Any], out: list[str]) -> None:
        """Calls, results and names beside the content."""
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            for call in calls:
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict):
                    self._call(function.get("name"), function.get("arguments"), out)
        kind = message.get("type")
        if kind in _CALL_ITEMS:
            self._call(message.get("name"), message.get("arguments", message.get("input")), out)
        elif kind in _RESULT_ITEMS:
            out.append("\0result\0")
            self._content(message.get("output"), out)
        name = message.get("name")
        if isinstance(name, str) and kind not in _CALL_ITEMS:
            out.append("\0name\0" + name)
        for field in ("reasoning_content", "reasoning"):
            thought = message.get(field)
            if isinstance(thought, str):
                self._chain.text_bytes += len(encode(thought))

    def _content(self, content: object, out: list[str]) -> None:
        if content is None:
            return
        if isinstance(content, str):
            out.append(content)
        elif isinstance(content, list):
            for block in content:
                self._block(block, out)
        else:
            # Not what any engine takes: it gives its own 400. Until then it is counted as it is.
            out.append(_json(content).decode("utf-8", "replace"))

    def _block(self, block: Any, out: list[str]) -> None:
        if not isinstance(block, dict):
            self._content(block, out)
            return
        kind = block.get("type")
        text = block.get("text")
        if isinstance(text, str) and (kind in _TEXTS or kind is None):
            out.append(text)
        elif kind in _CALLS:
            self._call(block.get("name"), block.get("input"), out)
        elif kind == "tool_result":
            out.append("\0result\0")
            self._content(block.get("content"), out)
        elif kind in _THOUGHTS:
            self._unhashed(block)
        elif kind in _PICTURES:
            self._chain.pictures += 1
            out.append("\0picture\0" + _picture(block))
        else:
            out.append(f"\0{kind}\0" + _json(_still(block)).decode("utf-8", "replace"))

    def _call(self, name: object, arguments: object, out: list[str]) -> None:
        if isinstance(arguments, str):
            text = arguments
            self._chain.text_bytes += text.count(",") + text.count(":")
        else:
            data = _json(arguments)
            text = data.decode("utf-8", "replace")
            self._chain.text_bytes += spaced(data) - len(data)
        self._chain.text_bytes += _CALL_SHARE
        out.append(f"\0call\0{name if isinstance(name, str) else ''}\0{text}")

    def _unhashed(self, thought: dict[str, Any]) -> None:
        """Thinking of earlier turns: clients keep it or leave it out, templates too."""
        self._chain.text_bytes += len(_json(thought))


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
