"""A request's body, decoded once for all who look at it: the sizes, the chain, the rewriting."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from rigctl.parse.beginnings import Beginning, Beginnings
from rigctl.parse.extras import STRIPPED


class Body(msgspec.Struct, gc=False):
    """The top level, as far as anybody here looks at it. UNSET: the key is not there."""

    model: Any = UNSET
    messages: Any = UNSET
    system: Any = UNSET
    tools: Any = UNSET
    tool_choice: Any = UNSET
    functions: Any = UNSET
    prompt: Any = UNSET
    input: Any = UNSET
    instructions: Any = UNSET
    previous_response_id: Any = UNSET
    stream: Any = UNSET
    stream_options: Any = UNSET
    max_tokens: Any = UNSET
    max_completion_tokens: Any = UNSET
    max_output_tokens: Any = UNSET
    n: Any = UNSET
    metadata: Any = UNSET
    prompt_cache_key: Any = UNSET
    conversation: Any = UNSET
    conversation_id: Any = UNSET
    session_id: Any = UNSET
    thinking: Any = UNSET
    reasoning: Any = UNSET
    reasoning_effort: Any = UNSET
    output_config: Any = UNSET
    response_format: Any = UNSET
    text: Any = UNSET
    regex: Any = UNSET
    ebnf: Any = UNSET
    json_schema: Any = UNSET
    logprobs: Any = UNSET
    top_logprobs: Any = UNSET
    chat_template_kwargs: Any = UNSET
    custom_params: Any = UNSET
    priority: Any = UNSET


MOST_MESSAGES = 32_768
"""More than any conversation has; each costs some microseconds, during which no stream goes on."""
SHORT = 8_192
"""Bytes of a body that is decoded whole: looking for what was read before would cost more."""
_READ = frozenset(Body.__struct_fields__)
_Watched = msgspec.defstruct(
    "_Watched",
    [(name, msgspec.Raw | msgspec.UnsetType, UNSET) for name in sorted(STRIPPED - _READ)],
    bases=(Body,),
    gc=False,
)
_InParts = msgspec.defstruct(
    "_InParts",
    [
        ("messages", list[msgspec.Raw] | msgspec.UnsetType, UNSET),
        ("tools", msgspec.Raw | msgspec.UnsetType, UNSET),
    ],
    bases=(_Watched,),
    gc=False,
)
"""What is long stays as it was sent: most of it was read before, with the turn before."""
_WATCHED = tuple(sorted(STRIPPED))
_watched = attrgetter(*_WATCHED)
_NONE: frozenset[str] = frozenset()
_IN_PARTS: msgspec.json.Decoder[Body] = msgspec.json.Decoder(_InParts)
_WHOLE: msgspec.json.Decoder[Body] = msgspec.json.Decoder(_Watched)


class Opened(NamedTuple):
    """One body and what it holds."""

    raw: bytes
    body: Body
    """All UNSET where nothing could be read. `messages` and `tools` may be as they were sent:
    `plain_value` decodes."""
    extras: frozenset[str] = frozenset()
    """Keys of `STRIPPED` that are there, whatever their value and however they are spelled."""
    plain: dict[str, Any] | None = None
    """The whole of it where only Python's own reader can: NaN, lone surrogates, UTF-16."""
    fault: str = ""
    """Why it cannot be read: no JSON object, too many messages; empty: it can."""
    beginning: Beginning | None = None
    """What is known of its first messages, which are not in `body.messages` then."""


def open_body(raw: bytes, beginnings: Beginnings | None = None) -> Opened:
    """Decode, from where a known beginning ends; never raises.

    What msgspec refuses, the engine's reader (Python's own) may still take: NaN, a lone surrogate,
    UTF-16. Such a body is read by Python's as well, or a client could get past us with it.
    """
    opened = _decoded(raw, beginnings)
    fault = _too_many(opened.body)
    return Opened(raw, Body(), fault=fault) if fault else opened


def _decoded(raw: bytes, beginnings: Beginnings | None) -> Opened:
    found = None if beginnings is None else beginnings.find(raw)
    if found is not None:
        rest = found.rest(raw)
        try:
            return _opened(raw, _checked(rest, _IN_PARTS), found)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass  # what follows is odd: the whole of it says how
    try:
        return _opened(raw, _read(raw))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _python(raw)


def _checked(raw: bytes, decoder: msgspec.json.Decoder[Body]) -> Body:
    if not raw.isascii():
        raw.decode()  # what stays as it was sent is not looked into
    return decoder.decode(raw)


def _opened(raw: bytes, body: Body, beginning: Beginning | None = None) -> Opened:
    values = _watched(body)
    if values.count(UNSET) == len(values):  # as almost always
        return Opened(raw, body, _NONE, beginning=beginning)
    found = zip(_WATCHED, values, strict=True)
    extras = frozenset(name for name, value in found if value is not UNSET)
    return Opened(raw, body, extras, beginning=beginning)


def _read(raw: bytes) -> Body:
    if len(raw) < SHORT:
        return _checked(raw, _WHOLE)
    try:
        return _checked(raw, _IN_PARTS)
    except msgspec.ValidationError:
        return _checked(raw, _WHOLE)  # messages that are no list


def plain_value(value: Any) -> Any:
    """A value that may be as it was sent, decoded."""
    if not isinstance(value, msgspec.Raw):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(bytes(value))  # numbers beyond all numbers, which Python's reader takes
    except (ValueError, RecursionError):
        return None


def _python(raw: bytes) -> Opened:
    try:
        plain = json.loads(raw)
    except (ValueError, RecursionError) as error:
        # Where a decoder's message quotes the text, the text is a prompt: it stays out.
        where = f" at byte {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        return Opened(raw, Body(), fault=f"The body is not valid JSON{where}.")
    if not isinstance(plain, dict):
        return Opened(raw, Body(), fault="The body is not a JSON object.")
    body = Body(**{name: plain[name] for name in _READ & plain.keys()})
    return Opened(raw, body, frozenset(STRIPPED & plain.keys()), plain)


def _too_many(body: Body) -> str:
    """Why it has more messages than are read; empty: it has not."""
    for listed in (body.messages, body.input):
        if isinstance(listed, list) and len(listed) > MOST_MESSAGES:
            return f"The body has {len(listed)} messages: at most {MOST_MESSAGES} are read."
    return ""
