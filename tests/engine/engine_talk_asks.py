"""The requests of `engine_talk`: one row each, asked of the real and the simulated engine."""

from __future__ import annotations

from typing import Any

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
FLAGS_OF_TALK = (
    *("--reasoning-parser", "qwen3", "--tool-call-parser", "qwen3_coder"),
    *("--enable-session-radix-cache", "--enable-response-store", "--chunked-prefill-size", "128"),
)
HELLO = [{"role": "user", "content": "hello there"}]
OFF = {"chat_template_kwargs": {"enable_thinking": False}}
_CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
_EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
_NAMED = (("get_weather", _CITY), ("get_time", _EMPTY))
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in _NAMED
]
CLAUDE_TOOLS = [{"name": name, "input_schema": schema} for name, schema in _NAMED]
RESPONSE_TOOLS = [{"type": "function", "name": n, "parameters": s} for n, s in _NAMED]
_USAGE = {"stream": True, "stream_options": {"include_usage": True}}
_EACH = {"include_usage": True, "continuous_usage_stats": True}
Ask = tuple[str, str, Any, dict[str, str]]


def _say(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _post(path: str, **body: Any) -> Ask:
    return ("POST", path, {"model": "tiny", **body}, {})


def _chat(**more: Any) -> Ask:
    return _post(CHAT, **{"messages": HELLO, "max_tokens": 4, **more})


def _messages(**more: Any) -> Ask:
    return _post(MESSAGES, **{"messages": HELLO, "max_tokens": 4, **more})


def _response(**more: Any) -> Ask:
    return _post(RESPONSES, **{"input": "hello there", "max_output_tokens": 6, **more})


def _ids(count: int, tokens: int = 1) -> Ask:
    return _post(COMPLETIONS, prompt=[7] * count, max_tokens=tokens)


_EFFORTS = ("xhigh", "medium", "low", "high", "none")
_LONG = _say("word " * 20_000)
_PICTURE = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
_SHOT = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}]

ASKS: dict[str, Ask] = {
    # chat
    "chat all": _chat(messages=_say("say:all"), max_tokens=60, tools=TOOLS),
    "chat all stream": _chat(messages=_say("say:all"), max_tokens=60, tools=TOOLS, **_USAGE),
    "chat all no tools": _chat(messages=_say("say:all"), max_tokens=60),
    "chat all none": _chat(
        messages=_say("say:all"), max_tokens=60, tools=TOOLS, tool_choice="none"
    ),
    "chat tools": _chat(messages=_say("say:tools"), max_tokens=60, tools=TOOLS, **OFF),
    "chat short": _chat(messages=_say("say:short"), max_tokens=60),
    "chat short stream": _chat(messages=_say("say:short"), max_tokens=60, stream=True, **OFF),
    "chat usage each": _chat(stream=True, stream_options=_EACH, **OFF),
    "chat n": _chat(n=2),
    "chat n stream": _chat(n=2, max_tokens=1, stream=True, **OFF),
    "chat n zero": _chat(n=0),
    "chat stop": _chat(messages=_say("say:short"), stop=[" over"], **OFF),
    "chat stop kept": _chat(messages=_say("say:short"), stop=[" over"], no_stop_trim=True, **OFF),
    "chat stop stream": _chat(messages=_say("say:short"), stop=[" over"], stream=True, **OFF),
    "chat stop while thinking": _chat(messages=_say("say:short"), stop=" over"),
    "chat logprobs": _chat(logprobs=True, top_logprobs=2, max_tokens=1),
    "chat logprobs stream": _chat(logprobs=True, top_logprobs=1, max_tokens=2, stream=True),
    "chat continue": _chat(
        messages=[*HELLO, {"role": "assistant", "content": "round"}],
        continue_final_message=True,
        **OFF,
    ),
    "chat priority": _chat(priority=3),
    "chat budget": _chat(custom_params={"thinking_budget": 1}),
    "chat other model": _chat(model="another"),
    "chat no model": ("POST", CHAT, {"messages": HELLO, "max_tokens": 2}, {}),
    "chat required": _chat(tools=TOOLS, tool_choice="required"),
    "chat required of none": _chat(tool_choice="required"),
    "chat unknown tool": _chat(
        tools=TOOLS, tool_choice={"type": "function", "function": {"name": "no"}}
    ),
    "chat regex": _chat(regex="[a-z]+"),
    "chat json": _chat(response_format={"type": "json_object"}),
    "chat too many": _chat(max_tokens=-1),
    "chat no messages": ("POST", CHAT, {"model": "tiny"}, {}),
    "chat text messages": _chat(messages="hello"),
    "chat null content": _chat(messages=[{"role": "user", "content": None}]),
    "chat bad role": _chat(messages=[{"role": "nobody", "content": "x"}]),
    "chat picture": _chat(messages=[{"role": "user", "content": _PICTURE}]),
    "chat no json": ("POST", CHAT, b"{", {}),
    "chat an array": ("POST", CHAT, b"[]", {}),
    "chat no body": ("POST", CHAT, b"", {}),
    "chat text": ("POST", CHAT, b"{}", {"Content-Type": "text/plain"}),
    "chat too long": _chat(messages=_LONG),
    "chat too long stream": _chat(messages=_LONG, stream=True),
    **{
        f"effort {e}": _chat(reasoning_effort=e) for e in ("xhigh", "medium", "low", "high", "none")
    },
    "effort stream": _chat(reasoning_effort="high", stream=True),
    "effort unknown": _chat(reasoning_effort="silly"),
    # completions: the exact bounds of the window (8192) and of the pool's longest prompt (4089)
    "ids 4089": _ids(4089),
    "ids 4090": _ids(4090),
    "ids 8191": _ids(8191),
    "ids 8192": _ids(8192),
    "ids with answer 8193": _ids(4000, 4193),
    "completion stream": _post(COMPLETIONS, prompt="hello", max_tokens=2, **_USAGE),
    # messages
    "messages all": _messages(messages=_say("say:all"), max_tokens=60, tools=CLAUDE_TOOLS),
    "messages all stream": _messages(
        messages=_say("say:all"), max_tokens=60, tools=CLAUDE_TOOLS, stream=True
    ),
    "messages tools stream": _messages(
        messages=_say("say:all"),
        max_tokens=60,
        tools=CLAUDE_TOOLS,
        stream=True,
        tool_choice={"type": "none"},
    ),
    "messages cut": _messages(stream=True),
    "messages off": _messages(thinking={"type": "disabled"}),
    "messages stop": _messages(
        messages=_say("say:short"), stop_sequences=[" over"], thinking={"type": "disabled"}
    ),
    "messages extras": _messages(rid="x", session_id="s", custom_params={"thinking_budget": 1}),
    "messages system": _messages(system=[{"type": "text", "text": "be brief"}]),
    "messages too long": _messages(messages=_LONG),
    "messages too long stream": _messages(messages=_LONG, stream=True),
    "messages too wide stream": _messages(max_tokens=8190, stream=True),
    "messages no maximum": _post(MESSAGES, messages=HELLO),
    "messages zero": _messages(max_tokens=0),
    "messages none": _messages(messages=[]),
    "messages null content": _messages(messages=[{"role": "user", "content": None}]),
    "messages picture": _messages(messages=[{"role": "user", "content": _SHOT}]),
    "messages small budget": _messages(thinking={"type": "enabled", "budget_tokens": 100}),
    "messages no budget": _messages(thinking={"type": "enabled"}),
    "messages effort": _messages(output_config={"effort": "high"}),
    "messages effort xhigh": _messages(output_config={"effort": "xhigh"}),
    "messages effort low": _messages(output_config={"effort": "low"}),
    "messages effort stream": _messages(output_config={"effort": "high"}, stream=True),
    "messages no json": ("POST", MESSAGES, b"{", {}),
    "messages get": ("GET", MESSAGES, None, {}),
    "count": _post(f"{MESSAGES}/count_tokens", messages=HELLO),
    "count effort": _post(
        f"{MESSAGES}/count_tokens", messages=HELLO, output_config={"effort": "high"}
    ),
    # responses
    "response": _response(),
    "response stream": _response(stream=True),
    "response all stream": _response(
        input="say:all", max_output_tokens=60, tools=RESPONSE_TOOLS, stream=True
    ),
    "response short": _response(input="say:short", max_output_tokens=60),
    "response text": _response(input="say:all", max_output_tokens=60, stream=True),
    "response unknown": _response(previous_response_id="resp_no"),
    "response get unknown": ("GET", f"{RESPONSES}/resp_no", None, {}),
    "response no input": _post(RESPONSES),
    "response too long": _response(input="word " * 20_000),
    "response too long stream": _response(input="word " * 20_000, stream=True),
    "response effort": _response(reasoning={"effort": "high"}, stream=True),
    "response kept": _response(request_id="resp_kept"),
    "response follows": _response(previous_response_id="resp_kept"),
    "response get": ("GET", f"{RESPONSES}/resp_kept", None, {}),
    # the rest
    "embeddings": _post("/v1/embeddings", input="hello"),
    "model": ("GET", "/v1/models/tiny", None, {}),
    "model other": ("GET", "/v1/models/other", None, {}),
    "hello": ("GET", "/", None, {}),
    "hello head": ("HEAD", "/", None, {}),
    "models head": ("HEAD", "/v1/models", None, {}),
    "nothing": ("GET", "/v1/nothing", None, {}),
    "tokenize": _post("/tokenize", messages=HELLO),
    "tokenize effort": _post("/tokenize", messages=HELLO, reasoning_effort="high"),
    "tokenize several": _post("/tokenize", prompt=["hello", "you"]),
    "tokenize long": _post("/tokenize", prompt="word " * 9_000),
    "tokenize nothing": _post("/tokenize"),
}

_ENDLESS = {"model": "tiny", "max_tokens": 1500, "ignore_eos": True}
_MANY = {"model": "tiny", "max_tokens": 5, "prompt": list(range(100, 3100)), "stream": True}
ABORTS: dict[str, tuple[str, dict[str, Any], str, dict[str, str]]] = {
    "chat": (CHAT, {**_ENDLESS, "messages": HELLO, "rid": "a1", **_USAGE}, "a1", {}),
    "chat whole": (CHAT, {**_ENDLESS, "messages": HELLO, "rid": "a2"}, "a2", {}),
    "completion": (COMPLETIONS, {**_ENDLESS, "prompt": "hi", "rid": "a3", **_USAGE}, "a3", {}),
    "messages": (
        MESSAGES,
        {"model": "tiny", "messages": HELLO, "max_tokens": 1500, "stream": True},
        "a4",
        {"x-override-rid": "a4"},
    ),
    "messages whole": (
        MESSAGES,
        {"model": "tiny", "messages": HELLO, "max_tokens": 1500},
        "a5",
        {"x-override-rid": "a5"},
    ),
    "response": (
        RESPONSES,
        {"model": "tiny", "input": "hi", "max_output_tokens": 1500, "stream": True}
        | {"request_id": "a6"},
        "a6",
        {},
    ),
    "prefill": (COMPLETIONS, {**_MANY, "rid": "a7"}, "a7", {}),
}
