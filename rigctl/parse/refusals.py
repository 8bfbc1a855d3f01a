"""An engine's refusal → its kind: what was too long, what was full, what was the client's fault."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rigctl.parse.chunks import read_any
from rigctl.parse.faults import fault_of

Kind = Literal["too_long", "queue_full", "bad_request", "effort", "auth", "server"]

MOST_LOOKED_AT = 4 * 1024 * 1024
"""Bytes of a refusal's body; some quote the whole request."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an engine answered instead of an answer."""

    kind: Kind
    message: str
    tokens: int | None = None
    """Tokens of prompt, or of prompt and answer, as the engine counted them."""
    limit: int | None = None
    """The engine's own limit."""
    code: str = ""
    prompt: int | None = None
    """Tokens of the prompt alone, where the engine told: what characters per token learn from."""


_N = r"([\d][\d,_]*)"
_WORDINGS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), names)
    for pattern, names in (
        # SGLang: prompt and answer; the prompt alone may fit.
        (
            (
                rf"exceeds the model's maximum context length of {_N} tokens\. You requested a "
                rf"total of {_N} tokens: {_N} tokens from the input"
            ),
            ("limit", "tokens", "prompt"),
        ),
        # SGLang: the prompt; then the pool.
        (
            rf"The input \({_N} tokens\) is longer than the model's context length \({_N} tokens",
            ("prompt", "limit"),
        ),
        (
            rf"Input length \({_N} tokens\) exceeds the maximum allowed length \({_N} tokens",
            ("prompt", "limit"),
        ),
        # vLLM and OpenAI.
        (
            (
                rf"maximum context length is {_N} tokens.{{0,80}}?your prompt contains"
                rf"(?: at least)? {_N} input tokens"
            ),
            ("limit", "prompt"),
        ),
        (
            (
                rf"maximum context length is {_N} tokens.{{0,80}}?requested(?: about)? {_N} tokens"
                rf"(?: \({_N})?"
            ),
            ("limit", "tokens", "prompt"),
        ),
        (
            (
                rf"maximum context length is {_N} tokens.{{0,80}}?"
                rf"(?:resulted in|has|contains|passed)(?: at least)? {_N}"
            ),
            ("limit", "prompt"),
        ),
        (rf"maximum context length is {_N}", ("limit",)),
        (rf"maximum context length of {_N}", ("limit",)),
        # llama.cpp.
        (
            rf"request \({_N} tokens\) exceeds the available context size \({_N} tokens",
            ("prompt", "limit"),
        ),
        (r"exceeds the available context size", ()),
        # Ollama, whose number is how much too long it is.
        (r"prompt too long; exceeded (?:max )?context length", ()),
        # Anthropic.
        (rf"prompt is too long: {_N} tokens > {_N} maximum", ("prompt", "limit")),
        (
            rf"exceed context limit: {_N} \+ {_N} > {_N}",
            ("prompt", "output", "limit"),
        ),
        # Others of the kind, for the next wording.
        (
            (
                r"(?:prompt|input|request)\b[^.]{0,60}\b(?:is longer than|exceeds?|is too long|"
                r"longer than)\b[^.]{0,60}\b(?:context|maximum (?:allowed )?(?:length|tokens)|"
                r"max_(?:model_len|seq_len|input_len|position))"
            ),
            (),
        ),
        (r"exceeds? the context window|greater than the context length", ()),
        (r"context[_ ]length[_ ]exceeded|exceed(?:s|ed)?[_ ]context[_ ](?:size|window|length)", ()),
    )
)
_TOO_LONG_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"}
)
_FULL = re.compile(
    r"queue is full|too many (?:queued|waiting|concurrent) requests|no available slot|overloaded",
    re.IGNORECASE,
)
_ECHO = re.compile(r"\s*\d+ validation errors?\b")
_EFFORT = re.compile(
    r"reasoning[_ ]effort|unexpected reasoning|supported types are [^.]*\b(?:low|medium|xhigh)\b",
    re.IGNORECASE,
)


def read_refusal(status: int, body: bytes) -> Refusal:
    """What a refusal says, in whichever envelope; a body that is no JSON is its own message."""
    found = read_any(body[:MOST_LOOKED_AT])
    if isinstance(found, dict):
        message, kind, code = fault_of(found)
        inner = found.get("error")
        numbers = inner if isinstance(inner, dict) else found
    else:
        message, kind, code, numbers = _plain(body), "", "", {}
    return refusal_of(status, message, kind, code, numbers)


def refusal_of(
    status: int, message: str, kind: str, code: str, numbers: Mapping[str, object]
) -> Refusal:
    """What an error says, out of its envelope; `numbers`: where llama.cpp's counts may lie."""
    # A malformed request's refusal echoes it: what its text says of lengths is the client's own.
    lengths = None if _ECHO.match(message) else _too_long(message)
    if status in (400, 413, 422, 500) and (
        lengths is not None or kind in _TOO_LONG_CODES or code in _TOO_LONG_CODES
    ):
        lengths = lengths or {}
        prompt = lengths.get("prompt", _number(numbers.get("n_prompt_tokens")))
        tokens = lengths.get("tokens", prompt)
        if "output" in lengths and prompt is not None:
            tokens = prompt + lengths["output"]
        return Refusal(
            "too_long",
            message,
            tokens,
            lengths.get("limit", _number(numbers.get("n_ctx"))),
            code,
            prompt,
        )
    return Refusal(_kind(status, message), message, code=code)


def _kind(status: int, message: str) -> Kind:
    if status in (401, 403):
        return "auth"
    if status in (429, 503, 529):
        # Full, or not there: the message tells, and without one a 429 is a full one.
        return "queue_full" if status == 429 or _FULL.search(message) else "server"
    if status >= 500:
        return "server"
    return "effort" if _EFFORT.search(message) else "bad_request"


def _too_long(message: str) -> dict[str, int] | None:
    for pattern, names in _WORDINGS:
        found = pattern.search(message)
        if found is not None:
            return {
                name: int(digits.replace(",", "").replace("_", ""))
                for name, digits in zip(names, found.groups(), strict=False)
                if digits is not None and len(digits) < 16
            }
    return None


def _plain(body: bytes) -> str:
    text = body[:2_000].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else text


def _number(value: object) -> int | None:
    return value if type(value) is int else None
