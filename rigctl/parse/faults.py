"""What an error says, in whichever envelope it came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_MESSAGE = 4_000
"""Characters kept of an error's message."""


def fault_of(found: Mapping[str, Any]) -> tuple[str, str, str]:
    """Message, type and code of an error object.

    The object may lie in `error` (OpenAI, Anthropic, llama.cpp), be bare (SGLang's `object:
    "error"`), be a plain text in `error` (Ollama) or in `detail` (FastAPI, a list of them for a
    body that fits no schema).
    """
    inner = found.get("error")
    if isinstance(inner, str):
        return inner[:MOST_MESSAGE], _text(found.get("type")), _text(found.get("code"))
    if isinstance(inner, Mapping):
        found = inner
    message = _text(found.get("message"))
    if not message:
        message = _detail(found.get("detail"))
    return message[:MOST_MESSAGE], _text(found.get("type")), _text(found.get("code"))


def _detail(detail: object) -> str:
    if isinstance(detail, str):
        return detail
    if isinstance(detail, list):
        return "; ".join(
            str(one["msg"]) for one in detail if isinstance(one, Mapping) and "msg" in one
        )
    return ""


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return ""
