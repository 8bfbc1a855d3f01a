"""Request bodies read as SGLang's serving layers read them, into wishes."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from rigctl.sim.sglang import prompts
from rigctl.sim.sglang.faults import find_fault
from rigctl.sim.sglang.generation import CHAT, COMPLETIONS, GENERATE, Wish
from rigctl.sim.sglang.identity import Identity
from rigctl.sim.sglang.messages_body import chat_of_messages
from rigctl.sim.sglang.refusals import (
    MESSAGES,
    RESPONSES,
    EngineRefusedError,
    InvalidError,
    RefusedError,
    check_effort,
    check_lengths,
    only_text,
)
from rigctl.sim.sglang.responses_body import chat_of_response
from rigctl.sim.sglang.speech import Speech, script_of

PATHS = (CHAT, COMPLETIONS, GENERATE, MESSAGES, RESPONSES)
Body = Mapping[str, Any]
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max")
_ROLES = ("system", "assistant", "tool", "function", "developer", "latest_reminder", "root", "user")
_GRAMMARS = ("regex", "ebnf", "response_format")


def read_wish(
    path: str,
    body: Body,
    identity: Identity,
    think_limit: int,
    fault: str = "",
    override: str | None = None,
    earlier: Sequence[Body] = (),
) -> Wish:
    """Check a body as SGLang's serving layer does. RefusedError carries its words.

    `fault` goes wrong with every answer, `override` is the id from `x-override-rid`, `earlier`
    are the messages of a stored response that this one follows.
    """
    given = body
    if path == MESSAGES:
        body = chat_of_messages(body)
    elif path == RESPONSES:
        body = chat_of_response(body, earlier)
    rid = _rid(path, given, body, override)
    if path in (COMPLETIONS, GENERATE):
        sampling = body if path == COMPLETIONS else body.get("sampling_params") or {}
        source = body.get("prompt") if path == COMPLETIONS else None
        source = body.get("text") or body.get("input_ids") if path == GENERATE else source
        prompt, text, thinks = _text_or_ids(path, source), str(source), False
    else:
        sampling = body
        prompt, text = read_chat(path, body, identity)
        thinks = bool(identity.args.get("reasoning_parser")) and thinking_wanted(body)
    _grammar(body, identity)
    wanted = _limit(path, sampling)
    late: RefusedError | None = None
    limit = 1
    try:
        limit = check_lengths(prompt.tokens, wanted, identity)
    except RefusedError as wrong:
        # These two answer 200 before anything looks at the length.
        if not (body.get("stream") and path in (MESSAGES, RESPONSES)):
            raise
        late = wrong
    options = body.get("stream_options") or {}
    tools = bool(body.get("tools")) and body.get("tool_choice") != "none"
    tools = tools and bool(identity.args.get("tool_call_parser"))
    return Wish(
        path,
        rid,
        str(body.get("model") or ("default" if path == CHAT else identity.name)),
        prompt,
        limit,
        _speeches(body, sampling, prompt, text, limit, thinks, tools, identity, think_limit, fault),
        bool(body.get("stream")),
        bool(options.get("include_usage")),
        bool(options.get("continuous_usage_stats")),
        tools,
        thinks,
        _logprobs(path, body),
        str(body.get("session_id") or ""),
        find_fault(text, fault),
        late,
        dict(given),
    )


def thinking_wanted(body: Body) -> bool:
    """Whether the template is told to let it think."""
    kwargs = body.get("chat_template_kwargs") or {}
    wanted = kwargs.get("enable_thinking", body.get("reasoning_effort") != "none")
    return wanted is not False


def read_chat(path: str, body: Body, identity: Identity) -> tuple[prompts.Prompt, str]:
    """A chat's prompt as the template writes it, and its last message's text."""
    effort = body.get("reasoning_effort")
    if effort is not None and effort not in _EFFORTS and not isinstance(effort, float):
        raise InvalidError(
            path, ("reasoning_effort",), f"Input should be one of {_EFFORTS}", effort
        )
    if "messages" not in body:
        raise InvalidError(path, ("messages",), "Field required", dict(body))
    messages = body["messages"]
    if not isinstance(messages, list):
        raise InvalidError(path, ("messages",), "Input should be a valid list", messages)
    if not messages:
        raise RefusedError("Messages cannot be empty.")
    for number, message in enumerate(messages):
        _message(path, number, message)
    prompt = prompts.chat_prompt(messages)
    front: tuple[prompts.Piece, ...] = ()
    added = check_effort(effort, identity)
    if added:
        front = (prompts.Piece(f"effort {effort or 'xhigh'}".encode(), added),)
    _tools(body)
    if body.get("tools") and body.get("tool_choice") != "none":
        front = (*front, *prompts.cut(json.dumps(body["tools"])))
    pieces = prompt.pieces
    if body.get("continue_final_message") and messages[-1].get("role") == "assistant":
        pieces = pieces[:-1]
    text = prompts.message_text(messages[-1])
    return prompts.Prompt((*front, *pieces), chat=True), text


def _message(path: str, number: int, message: object) -> None:
    place = ("messages", number)
    if not isinstance(message, Mapping):
        raise InvalidError(path, place, "Input should be a valid dictionary", message)
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or role.lower() not in _ROLES:
        say = f"Value error, 'role' must be one of {', '.join(map(repr, _ROLES[:-1]))}"
        raise InvalidError(path, (*place, "role"), say, role)
    if not isinstance(content, str | list) and (role == "user" or content is not None):
        raise InvalidError(path, (*place, "content"), "Input should be a valid string", content)
    only_text(content)


def _tools(body: Body) -> None:
    tools, choice = body.get("tools") or [], body.get("tool_choice")
    if choice == "required" and not tools:
        raise RefusedError("Tools cannot be empty if tool choice is set to required.")
    if isinstance(choice, Mapping):
        name = (choice.get("function") or {}).get("name")
        if not any((tool.get("function") or {}).get("name") == name for tool in tools):
            raise RefusedError(f"Tool '{name}' not found in tools list.")


def _grammar(body: Body, identity: Identity) -> None:
    """A grammar is asked for where there is none to make it."""
    kinds = [body.get(name) for name in _GRAMMARS]
    plain = isinstance(kinds[2], Mapping) and kinds[2].get("type") == "text"
    wanted = any(kinds[:2]) or bool(kinds[2] and not plain)
    wanted = wanted or body.get("tool_choice") not in (None, "auto", "none")
    if wanted and identity.args.get("grammar_backend") == "none":
        raise EngineRefusedError(
            "Grammar-based generation (json_schema, regex, ebnf, structural_tag) is not supported "
            "when the server is launched with --grammar-backend none"
        )


def _rid(path: str, given: Body, body: Body, override: str | None) -> str:
    rid = given.get("request_id") if path == RESPONSES else body.get("rid")
    if path == RESPONSES:
        return str(rid or f"resp_{uuid.uuid4().hex}")
    if override is not None:
        return override
    if path == MESSAGES or rid is None:
        return uuid.uuid4().hex
    if isinstance(rid, list):
        if body.get("n", 1) == 1:
            say = "Internal server error: unhashable type: 'list'"
            raise RefusedError(say, 500, "InternalServerError")
        raise RefusedError(
            "The specified rids length mismatch with the batch_size for batch processing."
        )
    if not isinstance(rid, str):
        raise InvalidError(path, ("rid", "str"), "Input should be a valid string", rid)
    return rid


def _limit(path: str, sampling: Body) -> int | None:
    wanted = sampling.get("max_completion_tokens")
    wanted = sampling.get("max_tokens") if wanted is None else wanted
    wanted = sampling.get("max_new_tokens") if wanted is None else wanted
    if wanted is None:
        return {COMPLETIONS: 16, GENERATE: 128}.get(path)
    if not isinstance(wanted, int):
        raise InvalidError(path, ("max_tokens",), "Input should be a valid integer", wanted)
    if wanted < 0:
        raise RefusedError(f"max_new_tokens must be at least 0, got {wanted}.")
    return wanted


def _logprobs(path: str, body: Body) -> int | None:
    asked = body.get("logprobs")
    if path == CHAT and asked:
        return int(body.get("top_logprobs") or 0)
    return None


def _text_or_ids(path: str, value: object) -> prompts.Prompt:
    if isinstance(value, str):
        return prompts.plain_prompt(value)
    if isinstance(value, list) and value and all(isinstance(part, int) for part in value):
        return prompts.ids_prompt(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return prompts.plain_prompt(value[0])
    say = "Field required" if value is None else "Input should be a string or a list of token ids"
    raise InvalidError(path, ("prompt",), say, value)


def _speeches(
    body: Body,
    sampling: Body,
    prompt: prompts.Prompt,
    text: str,
    limit: int,
    thinks: bool,
    tools: bool,
    identity: Identity,
    think_limit: int,
    always: str,
) -> tuple[Speech, ...]:
    """What each choice will say."""
    count = body.get("n", 1)
    if count == 0:
        raise RefusedError("range() arg 3 must not be zero", kind="BadRequest")
    seed = int.from_bytes(hashlib.blake2b(repr(prompt.pieces[-2:]).encode()).digest()[:4], "big")
    fault, script = find_fault(text, always).kind, script_of(text)
    thoughts = 120 + seed % 480
    budget = think_limit
    asked = (body.get("custom_params") or {}).get("thinking_budget")
    if isinstance(asked, int) and identity.args.get("enable_strict_thinking"):
        budget = 1 << 30 if asked < 0 else asked
        thoughts_most = budget
    else:
        thoughts_most = think_limit or 1 << 30
    thoughts = min(thoughts * 2 // 3, thoughts_most) if thinks else 0
    if fault == "think" and thinks:
        thoughts = min(limit, thoughts_most)
    speeches = []
    for number in range(count):
        if script:
            speech = Speech.scripted(script, thinks, tools)
        else:
            own = seed + number * 7
            natural = thoughts + 120 + own % 480
            endless = sampling.get("ignore_eos") or fault in ("repeat", "think")
            speech = Speech(own, thoughts, limit if endless else natural)
            speech.flavour = fault if fault in ("repeat", "split") else ""
        stops = sampling.get("stop") or []
        if stops:
            stops = [stops] if isinstance(stops, str) else list(stops)
            speech.stop_at(stops, limit, not body.get("no_stop_trim"))
        speeches.append(speech)
    return tuple(speeches)
