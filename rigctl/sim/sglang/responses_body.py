"""`/v1/responses`: its body as the chat that SGLang makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rigctl.sim.sglang.refusals import RESPONSES, InvalidError

Body = Mapping[str, Any]


def chat_of_response(body: Body, earlier: Sequence[Body] = ()) -> dict[str, Any]:
    """A chat body; `earlier` are the messages of the response that this one follows."""
    if "input" not in body:
        raise InvalidError(RESPONSES, ("input",), "Field required", dict(body))
    messages: list[Body] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    messages += [*earlier, *input_messages(body)]
    chat: dict[str, Any] = {"model": body.get("model"), "messages": messages}
    chat |= {"stream": bool(body.get("stream")), "tool_choice": body.get("tool_choice")}
    chat["tools"] = [
        {"type": "function", "function": {key: tool.get(key) for key in ("name", "parameters")}}
        for tool in body.get("tools") or ()
        if tool.get("type") == "function"
    ]
    wanted = body.get("max_output_tokens")
    if isinstance(wanted, int):
        chat["max_tokens"] = max(1, wanted - 2)  # SGLang keeps two back
    chat["reasoning_effort"] = (body.get("reasoning") or {}).get("effort")
    for name in ("chat_template_kwargs", "ignore_eos", "session_id", "custom_params"):
        if name in body:
            chat[name] = body[name]
    return chat


def input_messages(body: Body) -> list[dict[str, Any]]:
    """The input as chat messages."""
    source = body["input"]
    if isinstance(source, str):
        return [{"role": "user", "content": source}]
    if not isinstance(source, list):
        raise InvalidError(RESPONSES, ("input",), "Input should be a valid list", source)
    found: list[dict[str, Any]] = []
    for item in source:
        kind = item.get("type", "message") if isinstance(item, Mapping) else None
        if kind == "message":
            role = item.get("role", "user")
            found.append({"role": role, "content": _content(item.get("content"))})
        elif kind == "function_call_output":
            found.append({"role": "tool", "content": str(item.get("output", ""))})
        elif kind in ("function_call", "reasoning"):
            found.append({"role": "assistant", "content": str(item.get("arguments", ""))})
        else:
            raise InvalidError(RESPONSES, ("input",), "Input should be a valid item", item)
    return found


def _content(content: object) -> object:
    if not isinstance(content, list):
        return content
    kinds = {"input_text": "text", "output_text": "text", "input_image": "image_url"}
    return [{**part, "type": kinds.get(part.get("type"), part.get("type"))} for part in content]
