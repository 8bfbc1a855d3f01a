"""Refusals of engines: too long in every wording and envelope, and what is not too long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rigctl.core.ask import Dialect
from rigctl.core.dialect import error_body, too_long
from rigctl.parse.refusals import Kind, Refusal, read_refusal

SGLANG_TOTAL = (
    "Requested token count exceeds the model's maximum context length of 262144 tokens. You "
    "requested a total of 270128 tokens: 261936 tokens from the input messages and 8192 tokens "
    "for the completion. Please reduce the number of tokens in the input messages or the "
    "completion to fit within the limit."
)

TOO_LONG: dict[str, tuple[str, int | None, int | None, int | None]] = {
    # words: tokens, prompt, limit
    "SGLang, prompt and answer": (SGLANG_TOTAL, 270_128, 261_936, 262_144),
    "SGLang, prompt": (
        "The input (18010 tokens) is longer than the model's context length (8192 tokens).",
        18_010,
        18_010,
        8_192,
    ),
    "SGLang, pool": (
        (
            "Input length (18010 tokens) exceeds the maximum allowed length (4090 tokens). Use a "
            "shorter input or enable --allow-auto-truncate."
        ),
        18_010,
        18_010,
        4_090,
    ),
    "vLLM": (
        (
            "This model's maximum context length is 262144 tokens. However, you requested 0 output "
            "tokens and your prompt contains at least 262145 input tokens, for a total of at least "
            "262145 tokens."
        ),
        262_145,
        262_145,
        262_144,
    ),
    "vLLM, older": (
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 "
            "tokens (3000 in the messages, 2000 in the completion). Please reduce the length of "
            "the messages or completion."
        ),
        5_000,
        3_000,
        4_096,
    ),
    "OpenAI": (
        (
            "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 130000 tokens. Please reduce the length of the messages."
        ),
        130_000,
        130_000,
        128_000,
    ),
    "llama.cpp": (
        "request (4267 tokens) exceeds the available context size (4096 tokens), try increasing it",
        4_267,
        4_267,
        4_096,
    ),
    "llama.cpp, older": (
        (
            "the request exceeds the available context size. try increasing the context size or "
            "enable context shift"
        ),
        None,
        None,
        None,
    ),
    "Ollama": ("prompt too long; exceeded max context length by 512 tokens", None, None, None),
    "Anthropic": (
        "prompt is too long: 215000 tokens > 200000 maximum",
        215_000,
        215_000,
        200_000,
    ),
    "Anthropic, with its answer": (
        (
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease "
            "input length or `max_tokens` and try again"
        ),
        210_000,
        190_000,
        200_000,
    ),
    "another": ("The prompt is longer than the maximum context of this model", None, None, None),
    "LM Studio": (
        "The number of tokens to keep from the initial prompt is greater than the context length",
        None,
        None,
        None,
    ),
    "a gateway": ("Your input exceeds the context window of this model.", None, None, None),
}


def envelopes(message: str) -> dict[str, bytes]:
    """The same words in every envelope."""
    bare = {"object": "error", "message": message, "type": "BadRequestError", "code": 400}
    return {
        "bare": json.dumps(bare).encode(),
        "openai": json.dumps({"error": {"message": message, "type": "x", "code": None}}).encode(),
        "anthropic": json.dumps(
            {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        ).encode(),
        "ollama": json.dumps({"error": message}).encode(),
        "fastapi": json.dumps({"detail": message}).encode(),
        "plain": message.encode(),
    }


@pytest.mark.case("C27")
@pytest.mark.parametrize("name", TOO_LONG)
@pytest.mark.parametrize("envelope", envelopes(""))
def test_too_long_in_every_wording_and_envelope(name: str, envelope: str) -> None:
    """With the engine's own numbers: the prompt's tells how many characters a token has."""
    words, tokens, prompt, limit = TOO_LONG[name]
    found = read_refusal(400, envelopes(words)[envelope])
    assert (found.kind, found.tokens, found.prompt, found.limit) == (
        "too_long",
        tokens,
        prompt,
        limit,
    )
    assert found.message == words


@pytest.mark.case("C27")
def test_a_machine_s_word_and_numbers_are_enough() -> None:
    """llama.cpp tells them apart from its text."""
    error = {
        "code": 400,
        "message": "no",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 4267,
        "n_ctx": 4096,
    }
    found = read_refusal(400, json.dumps({"error": error}).encode())
    assert found == Refusal("too_long", "no", 4267, 4096, "400", 4267)
    code = {"error": {"message": "no", "code": "context_length_exceeded"}}
    assert read_refusal(400, json.dumps(code).encode()).kind == "too_long"


NOT_TOO_LONG: list[tuple[int, str, Kind]] = [
    (400, "invalid tool schema", "bad_request"),
    (400, "max_tokens must be at least 1, got -5", "bad_request"),
    (400, "The model `x` does not exist", "bad_request"),
    (400, "Messages cannot be empty.", "bad_request"),
    (400, "stop must have at most 4 items; the list is too long", "bad_request"),
    (400, "image exceeds the maximum size of 20 MB", "bad_request"),
    (400, "string too long. Expected a string with maximum length 256", "bad_request"),
    (400, "tools.0.function.name exceeds the maximum length of 64", "bad_request"),
    (404, "Not Found", "bad_request"),
    (422, "Field required", "bad_request"),
    (
        400,
        "Unexpected reasoning effort high. Supported types are xhigh (default), medium, and low.",
        "effort",
    ),
    (
        400,
        "1 validation error: reasoning_effort Input should be 'low', 'medium' or 'high'",
        "effort",
    ),
    (
        400,
        (
            "1 validation error:\n  {'loc': ('body', 'messages', 0, 'role'), 'input': 'my log: "
            "This model's maximum context length is 4096 tokens, you requested 5000 tokens'}"
        ),
        "bad_request",
    ),
    (401, "Unauthorized", "auth"),
    (403, "Forbidden", "auth"),
    (503, "The request queue is full.", "queue_full"),
    (429, "", "queue_full"),
    (529, "Overloaded", "queue_full"),
    (503, "Service Unavailable", "server"),
    (500, "Internal server error", "server"),
    (502, "", "server"),
    (503, "The model's maximum context length is being loaded", "server"),
]


@pytest.mark.case("C27")
@pytest.mark.parametrize(("status", "words", "kind"), NOT_TOO_LONG)
@pytest.mark.parametrize("envelope", envelopes(""))
def test_what_is_not_too_long_is_not_sent_to_the_long_cluster(
    status: int, words: str, kind: Kind, envelope: str
) -> None:
    """A client's own fault, a full queue and a broken engine are each something else."""
    found = read_refusal(status, envelopes(words)[envelope])
    assert (found.kind, found.tokens, found.limit) == (kind, None, None)


def test_a_body_that_fits_no_schema_is_read() -> None:
    """FastAPI's list of faults, without the input that it quotes."""
    fault = {"loc": ["body", "messages"], "msg": "Field required", "input": {"secret": "prompt"}}
    found = read_refusal(422, json.dumps({"detail": [fault]}).encode())
    assert found.message == "Field required"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html><h1>502</h1></html>", b"\xff\xfe", b"[]", b"null", b'{"error":7}', b"{" * 9],
)
def test_rubbish_is_a_refusal_without_words(body: bytes) -> None:
    """Its status is all that it says."""
    assert read_refusal(502, body).kind == "server"
    assert read_refusal(400, body).kind == "bad_request"


def test_the_recorded_refusal_of_a_real_server() -> None:
    """SGLang 0.5.23."""
    body = (Path(__file__).parents[1] / "data" / "streams" / "too_long.json").read_bytes()
    assert read_refusal(400, body).limit == 8192


@pytest.mark.case("C27")
@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("output", [0, 8_192])
def test_our_own_words_are_recognised(dialect: Dialect, output: int) -> None:
    """A proxy behind a proxy: what we tell agents is what we would understand."""
    message = too_long(dialect, 300_000, 262_144, output)
    status, body, _ = error_body(dialect, 400, "context_length_exceeded", message)
    found = read_refusal(status, body)
    assert (found.kind, found.limit, found.prompt) == ("too_long", 262_144, 300_000)


@pytest.mark.parametrize("seed", ["is longer than the ", "input (", "maximum context length is 1 "])
def test_a_message_of_megabytes_costs_little(seed: str) -> None:
    """No wording makes the search run away."""
    assert read_refusal(400, json.dumps({"error": seed * 100_000}).encode()).kind in (
        "bad_request",
        "too_long",
    )
