"""A request's body and headers → what routing needs to know of it. Never raises, keeps no text."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from msgspec import UNSET

from rigctl.core.answer import MOST_CHOICES
from rigctl.core.ask import Ask, Dialect, Endpoint, Size
from rigctl.parse.chains import BLOCK, MOST_LINKS, NOTHING, OPENING, Chain, digest, encode
from rigctl.parse.conversation import read_conversation, tools_of
from rigctl.parse.known import Known
from rigctl.parse.opened import Body, Opened, open_body
from rigctl.parse.sessions import session_of

Headers = tuple[tuple[bytes, bytes], ...]
"""Names in lower case."""

MOST_TOKENS = 1 << 31
"""A number of tokens beyond this is no number of tokens."""
MOST_DIGITS = 16
"""Signs of a number that was sent as text."""
_YES = frozenset({"true", "1", "on", "yes", "t", "y"})
_OPTIONS = attrgetter(
    *("custom_params", "thinking", "reasoning", "reasoning_effort", "output_config"),
    *("regex", "ebnf", "json_schema", "logprobs", "top_logprobs", "response_format"),
    *("text", "tool_choice"),
)
"""What effort, thinking and form of the answer can be said by."""
_ANTHROPIC = frozenset({Endpoint.MESSAGES, Endpoint.COUNT_TOKENS})


def read_ask(
    endpoint: Endpoint,
    headers: Headers,
    body: bytes | Opened,
    known: Known | None = None,
    *,
    opening: bool = True,
) -> Ask:
    """What can be read of the request; a malformed one gives an Ask with the rest (C30).

    `body` may be opened before, so that one decoding serves this and `rewrite`. `known`: messages
    that were read before, and will be again. `opening`: whether the first characters count.
    """
    known = known if known is not None else Known()
    opened = body if isinstance(body, Opened) else open_body(body)
    fields = opened.body
    chain = Chain(opening_left=OPENING if opening else 0)
    token_ids = 0
    prompts = 1
    tools = tools_of(fields.functions if fields.tools is UNSET else fields.tools, known)
    try:
        if endpoint is Endpoint.COMPLETIONS or (
            endpoint is Endpoint.TOKENIZE and not isinstance(fields.messages, list)
        ):
            token_ids, prompts = _prompt(fields.prompt, chain)
        elif endpoint is Endpoint.EMBEDDINGS:
            token_ids, _ = _prompt(fields.input, chain)
        elif endpoint is Endpoint.RESPONSES:
            items = _items(fields.input)
            read_conversation(fields.instructions, tools, items, chain, known)
        else:
            system = fields.system if endpoint in _ANTHROPIC else UNSET
            past = None if opened.beginning is None else opened.beginning.past
            read_conversation(system, tools, fields.messages, chain, known, past)
    except RecursionError:
        pass  # nested beyond any engine: what was read so far stands
    n = _whole(fields.n) or 1
    options = _OPTIONS(fields)
    plain = options.count(UNSET) == len(options)
    return Ask(
        endpoint=endpoint,
        dialect=Dialect.ANTHROPIC if endpoint in _ANTHROPIC else Dialect.OPENAI,
        stream=_yes(fields.stream),
        body_bytes=len(opened.raw),
        size=Size(chain.text_bytes, token_ids, chain.pictures, chain.messages),
        output=_output(fields),
        session=session_of(headers, fields),
        chain=tuple(chain.chain),
        turns=tuple(chain.turns),
        answered_at=chain.answered_at,
        opening=chain.opening_digest(),
        previous_response=_text(fields.previous_response_id),
        effort="" if plain else effort_of(fields),
        thinking=_thinking(headers, fields, plain),
        choices=prompts * n,
        tools=bool(tools.digest),
        constrained=not plain and _constrained(fields),
        model=_text(fields.model),
    )


def effort_of(fields: Body) -> str:
    """The level of effort in the dialect's own place; empty where the client named none."""
    for value in (
        fields.reasoning_effort,
        _inner(fields.reasoning, "effort"),
        _inner(fields.output_config, "effort"),
    ):
        if isinstance(value, str) and value:
            return value
        if isinstance(value, float):
            return f"{value:g}"
    return ""


def _items(found: object) -> object:
    return [{"role": "user", "content": found}] if isinstance(found, str) else found


def _prompt(prompt: object, chain: Chain) -> tuple[int, int]:
    """Token ids of a plain prompt, and how many prompts it is."""
    chain.begin(NOTHING, NOTHING)
    if isinstance(prompt, str):
        _plain(prompt, chain)
        return 0, 1
    if not isinstance(prompt, list) or not prompt:
        return 0, 1
    if all(_count(one) for one in prompt):
        _numbers(prompt, chain)
        return len(prompt), 1
    token_ids = 0
    for one in prompt[: MOST_CHOICES + 1]:  # of more none is answered
        if isinstance(one, str):
            _plain(one, chain)
        elif isinstance(one, list):
            _numbers(one, chain)
            token_ids += len(one)
    return token_ids, len(prompt)


def _plain(prompt: str, chain: Chain) -> None:
    """Text without messages: a link for each full block, so that a longer one is known again."""
    chain.open(prompt)
    data = encode(prompt)
    chain.text_bytes += len(data)
    _blocks((data[at : at + BLOCK] for at in range(0, len(data), BLOCK)), chain)


def _numbers(prompt: list[Any], chain: Chain) -> None:
    _blocks(
        (
            ",".join(map(str, prompt[at : at + BLOCK])).encode("utf-8", "replace")
            for at in range(0, len(prompt), BLOCK)
        ),
        chain,
    )


def _blocks(blocks: Iterable[bytes], chain: Chain) -> None:
    for _, block in zip(range(MOST_LINKS), blocks, strict=False):
        chain.link(digest(block))


def _output(fields: Body) -> int | None:
    """The largest of the names it may have: with two of them engines differ in which counts."""
    asked = [
        value
        for value in (
            _whole(fields.max_completion_tokens),
            _whole(fields.max_tokens),
            _whole(fields.max_output_tokens),
        )
        if value is not None
    ]
    return max(asked, default=None)


def _thinking(headers: Headers, fields: Body, plain: bool) -> int | None:
    if not plain:
        for value in (
            _inner(fields.custom_params, "thinking_budget"),
            _inner(fields.thinking, "budget_tokens"),
            _inner(fields.reasoning, "max_tokens"),
        ):
            if _count(value):
                return int(value)
    for name, text in headers:
        if name == b"x-thinking-budget":
            digits = text.strip()
            if digits.isdigit() and len(digits) <= 10:
                return int(digits)
    return None


def _constrained(fields: Body) -> bool:
    if fields.regex or fields.ebnf or fields.json_schema:
        return True
    if _count(fields.logprobs) or fields.logprobs is True or fields.top_logprobs:
        # Completions count them: 0 is asked for, too.
        return True
    for format_ in (
        fields.response_format,
        _inner(fields.text, "format"),
        _inner(fields.output_config, "format"),
    ):
        if isinstance(format_, dict) and format_.get("type") != "text":
            return True
    return fields.tool_choice == "required" or (
        isinstance(fields.tool_choice, dict)
        and (fields.tool_choice.get("type") not in ("auto", "none"))
    )


def _inner(found: object, name: str) -> Any:
    return found.get(name) if isinstance(found, dict) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    """A whole number in any spelling that SGLang's request models take (pydantic's lax ones)."""
    if isinstance(value, str) and len(value) <= MOST_DIGITS:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and _count(value) else None


def _yes(value: object) -> bool:
    """Whether SGLang's request models take it for true."""
    return value == 1 or (isinstance(value, str) and value.lower() in _YES)


def _count(value: object) -> bool:
    """A whole number of something, which True is not."""
    return type(value) is int and 0 <= value <= MOST_TOKENS
