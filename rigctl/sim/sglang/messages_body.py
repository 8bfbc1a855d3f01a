"""`/v1/messages`: its body as the chat that SGLang makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rigctl.sim.sglang.refusals import MESSAGES, InvalidError, RefusedError

Body = Mapping[str, Any]


def chat_of_messages(body: Body, counting: bool = False) -> dict[str, Any]:
    """A chat body. RefusedError as SGLang words it.

    Extras (`rid`, `session_id`, `custom_params` …) are dropped, as the real one drops them.
    """
    needed = ("model", "messages") if counting else ("model", "messages", "max_tokens")
    for name in needed:
        if name not in body:
            raise InvalidError(MESSAGES, (name,), "Field required", dict(body))
    if not counting and isinstance(body["max_tokens"], int) and body["max_tokens"] <= 0:
        raise InvalidError(MESSAGES, ("max_tokens",), "Value error, max_tokens must be positive", 0)
    messages: list[dict[str, Any]] = []
    system = body.get("system")
    if system:
        parts = [system] if isinstance(system, str) else [part.get("text", "") for part in system]
        messages.append({"role": "system", "content": "\n".join(parts)})
    if not isinstance(body["messages"], list):
        raise InvalidError(
            MESSAGES, ("messages",), "Input should be a valid list", body["messages"]
        )
    for number, message in enumerate(body["messages"]):
        messages += _message(number, message)
    if not body["messages"]:
        messages = []
    chat: dict[str, Any] = {"model": body["model"], "messages": messages}
    chat |= {"max_tokens": body.get("max_tokens"), "stream": bool(body.get("stream"))}
    chat |= {"stop": body.get("stop_sequences"), **_thinking(body), **_tools(body)}
    return chat


def _thinking(body: Body) -> dict[str, Any]:
    found: dict[str, Any] = {}
    thinking = body.get("thinking")
    if isinstance(thinking, Mapping):
        budget = thinking.get("budget_tokens")
        say = ""
        if thinking.get("type") == "enabled" and budget is None:
            say = "thinking.budget_tokens is required when thinking.type is 'enabled'"
        elif isinstance(budget, int) and budget < 1024:
            say = f"thinking.budget_tokens must be >= 1024 (got {budget})"
        if say:
            raise InvalidError(MESSAGES, ("thinking",), f"Value error, {say}", budget)
        found["chat_template_kwargs"] = {"enable_thinking": thinking.get("type") != "disabled"}
    effort = (body.get("output_config") or {}).get("effort")
    if effort is not None:
        if effort not in ("minimal", "low", "medium", "high", "xhigh", "max"):
            say = "Input should be 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'"
            raise InvalidError(MESSAGES, ("output_config", "effort"), say, effort)
        found["reasoning_effort"] = "max" if effort == "xhigh" else effort
    return found


def _tools(body: Body) -> dict[str, Any]:
    own = [tool for tool in body.get("tools") or () if "input_schema" in tool]
    if not own:
        return {}
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool["input_schema"],
            },
        }
        for tool in own
    ]
    choice = body.get("tool_choice") or {"type": "auto"}
    kinds: dict[str, object] = {"auto": "auto", "none": "none", "any": "required"}
    named = {"type": "function", "function": {"name": choice.get("name")}}
    return {"tools": tools, "tool_choice": kinds.get(str(choice.get("type")), named)}


def _message(number: int, message: object) -> list[dict[str, Any]]:
    place = ("messages", number)
    if not isinstance(message, Mapping):
        raise InvalidError(MESSAGES, place, "Input should be a valid dictionary", message)
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        say = "Input should be 'user', 'assistant' or 'system'"
        raise InvalidError(MESSAGES, (*place, "role"), say, role)
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if not isinstance(content, list):
        raise InvalidError(
            MESSAGES, (*place, "content", "str"), "Input should be a valid string", content
        )
    out: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for block in content:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "image":
            parts.append({"type": "image_url"})
        elif kind == "redacted_thinking":
            raise RefusedError(
                "Anthropic redacted_thinking history is not supported",
                kind="invalid_request_error",
            )
        elif kind == "thinking":
            parts.append({"type": "text", "text": f"<think>\n{block['thinking']}\n</think>\n\n"})
        elif kind == "tool_use":
            parts.append({"type": "text", "text": json.dumps([block.get("name"), block["input"]])})
        elif kind == "tool_result":
            if parts:
                out.append({"role": role, "content": parts})
                parts = []
            said = block.get("content") or ""
            out.append({"role": "tool", "content": said})
        elif kind == "text":
            parts.append({"type": "text", "text": block.get("text", "")})
    if parts or not out:
        out.append({"role": role, "content": parts})
    return out
