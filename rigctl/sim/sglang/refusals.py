"""How SGLang words what it does not take, in each endpoint's own shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rigctl.sim.sglang.identity import Identity

MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
_HOME = "/opt/sglang/python/sglang/srt/entrypoints/http_server.py"

_ANTHROPIC = {400: "invalid_request_error", 404: "not_found_error", 503: "overloaded_error"}


UNTOLD = object()
"""What was sent, where a refusal does not echo it."""


class RefusedError(Exception):
    """A body that SGLang does not take; the text is its own."""

    def __init__(
        self, say: str, status: int = 400, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(say)
        self.status = status
        self.kind = kind
        self.param = param


class EngineRefusedError(RefusedError):
    """What the engine itself refuses: `/v1/messages` passes its kind on as it is."""


class InvalidError(RefusedError):
    """A body that is not of the endpoint's shape. As SGLang's, the text echoes what was sent."""

    def __init__(self, path: str, place: Sequence[object], say: str, given: object) -> None:
        self.place = tuple(place)
        self.short = say
        row: dict[str, Any] = {"type": "value_error", "loc": ("body", *place), "msg": say}
        if given is not UNTOLD:
            row["input"] = given
        super().__init__(
            f'1 validation error:\n  {row}\n\n  File "{_HOME}", line 1870, in endpoint\n'
            f"    POST {path} [{row}]",
            kind="Bad Request",
        )


def body_of(path: str, wrong: RefusedError) -> dict[str, Any]:
    """The answer's body for a refusal at this path."""
    if path.startswith(MESSAGES):
        say = str(wrong)
        kind = wrong.kind
        if isinstance(wrong, InvalidError):
            say = f"{'.'.join(map(str, wrong.place))}: {wrong.short}".removeprefix(": ")
        if not isinstance(wrong, EngineRefusedError) or wrong.status >= 500:
            kind = _ANTHROPIC.get(wrong.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": say}}
    row: dict[str, Any] = {"message": str(wrong), "type": wrong.kind}
    row |= {"param": wrong.param, "code": wrong.status}
    if path.startswith(RESPONSES):
        if row["type"] == "BadRequest":
            row["message"] = f"{wrong} {wrong}"  # the real one says it twice
        if row["type"] in ("BadRequest", "BadRequestError"):
            row["type"] = "invalid_request_error"
        return {"error": row}
    return {"object": "error", **row}


def check_lengths(tokens: int, wanted: int | None, identity: Identity) -> int:
    """The answer's limit in tokens. EngineRefusedError in SGLang's three wordings of too long."""
    if tokens == 0:
        raise EngineRefusedError("Input is empty.")
    if tokens >= identity.context:
        raise EngineRefusedError(
            f"The input ({tokens} tokens) is longer than the model's context length "
            f"({identity.context} tokens)."
        )
    if wanted is not None and tokens + wanted > identity.context:
        raise EngineRefusedError(
            "Requested token count exceeds the model's maximum context length of "
            f"{identity.context} tokens. You requested a total of {tokens + wanted} tokens: "
            f"{tokens} tokens from the input messages and {wanted} tokens for the completion. "
            "Please reduce the number of tokens in the input messages or the completion to fit "
            "within the limit."
        )
    if tokens >= identity.input_limit:
        raise EngineRefusedError(
            f"Input length ({tokens} tokens) exceeds the maximum allowed length "
            f"({identity.input_limit} tokens). Use a shorter input or enable --allow-auto-truncate."
        )
    room = min(identity.context, identity.pool) - tokens - 1
    return max(1, room if wanted is None else min(int(wanted), room))


def check_effort(effort: object, identity: Identity) -> int:
    """Prompt tokens that an effort adds. RefusedError where the model's template raises."""
    levels = identity.efforts
    if not levels:
        return 0
    level = "xhigh" if effort is None else effort
    if not isinstance(level, str) or level not in levels:
        raise RefusedError(
            f"Unexpected reasoning effort {level}. Supported types are xhigh (default), medium, "
            "and low.",
            kind="BadRequest",
        )
    return levels[level]


def only_text(content: object) -> None:
    """RefusedError for a picture or sound: the model reads text."""
    if isinstance(content, list):
        for part in content:
            kind = part.get("type", "text") if isinstance(part, Mapping) else "text"
            if kind in ("image", "image_url", "video_url", "audio_url", "input_audio"):
                kind = "image_url" if kind == "image" else kind
                raise RefusedError(
                    f"Model only supports text input; received unsupported content type '{kind}'."
                )
