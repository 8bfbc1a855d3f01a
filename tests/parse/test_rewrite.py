"""What the engine gets: the client's bytes with ours in front, and nothing that is not allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rigctl.core.ask import Endpoint
from rigctl.parse.extras import CUSTOM, PRIORITY, STRIPPED
from rigctl.parse.opened import Body, open_body
from rigctl.parse.rewrite import Rewritten, Wishes, rewrite

CHAT = Endpoint.CHAT
OURS = Wishes(rid="r" * 20, session_id="s1", include_usage=False)
FIELDS = json.loads((Path(__file__).parents[1] / "data" / "sglang_fields.json").read_text())
PASS = {
    *("add_generation_prompt", "add_special_tokens", "best_of", "betas", "chat_template_kwargs"),
    *("continue_final_message", "dimensions", "ebnf", "echo", "encoding_format", "ignore_eos"),
    *("frequency_penalty", "images_config", "include", "input", "instructions", "json_schema"),
    *("logit_bias", "logprobs", "max_completion_tokens", "max_dynamic_patch", "max_tokens"),
    *("max_output_tokens", "max_tool_calls", "messages", "metadata", "min_dynamic_patch"),
    *("min_p", "min_tokens", "mm_processor_kwargs", "model", "n", "no_stop_trim", "prompt"),
    *("output_config", "parallel_tool_calls", "presence_penalty", "previous_response_id"),
    *("reasoning", "reasoning_effort", "regex", "repetition_penalty", "response_format"),
    *("return_cached_tokens_details", "return_flat_raw_output_top_logprobs", "seed", "system"),
    *("return_flat_raw_top_logprobs_b64", "return_input_ids_in_sglext", "return_meta_info"),
    *("return_output_ids_in_sglext", "return_prompt_token_ids", "return_spec_tokens_details"),
    *("return_token_ids", "sampling_logprobs_mode", "separate_reasoning", "service_tier"),
    *("skip_special_tokens", "stop", "stop_regex", "stop_sequences", "stop_token_ids", "store"),
    *("stream", "stream_options", "stream_reasoning", "suffix", "task", "temperature", "text"),
    *("thinking", "tool_choice", "tools", "top_k", "top_logprobs", "top_p", "truncation"),
    *("use_audio_in_video", "user", "video_config"),
}
"""Fields of SGLang's request models that a client may say."""


def sent(rewritten: Rewritten) -> dict[str, Any]:
    """What the engine's reader makes of it."""
    found = json.loads(b"".join(rewritten.parts))
    assert isinstance(found, dict)
    return found


def of(wishes: Wishes = OURS, endpoint: Endpoint = CHAT, **body: Any) -> dict[str, Any]:
    """The engine's view of this body, our own ids left out."""
    found = sent(rewrite(endpoint, json.dumps(body).encode(), wishes))
    for key in ("rid", "session_id", "request_id"):
        found.pop(key, None)
    return found


def test_every_field_of_the_engine_is_decided() -> None:
    """None of 0.5.23's request models has a field that the policy does not know."""
    fields = {field for name, model in FIELDS.items() if name != "version" for field in model}
    assert fields - STRIPPED == PASS | {CUSTOM, PRIORITY}
    assert not STRIPPED & PASS


def test_the_normal_path_touches_no_byte_of_the_client() -> None:
    """Ours in front, and then the very memory of the client's body."""
    body = b' {"model" : "m","messages":[{"role":"user","content":"\\u00e9 \xc3\xa9"}],"n":1e0}\n'
    rewritten = rewrite(CHAT, body, OURS)
    head, rest = rewritten.parts
    assert head == b'{"rid":"%s","session_id":"s1",' % (b"r" * 20)
    assert isinstance(rest, memoryview)
    assert rest.obj is body
    assert bytes(rest) == body[2:]
    assert (rewritten.notes, rewritten.rid, rewritten.fault) == ((), "r" * 20, "")
    assert rewritten.length == len(head) + len(rest)


def test_a_body_without_wishes_goes_as_it_is() -> None:
    """Anthropic's endpoint takes nothing of ours, so nothing is added."""
    body = b'{"model":"m","messages":[],"max_tokens":5,"stream":true}'
    assert rewrite(Endpoint.MESSAGES, body, Wishes(rid="r", session_id="s")).parts == (body,)
    assert rewrite(Endpoint.MESSAGES, body, Wishes(rid="r")).rid == ""
    assert rewrite(Endpoint.EMBEDDINGS, body, Wishes(rid="r")).parts == (body,)


@pytest.mark.parametrize("body", [b"{}", b" { } ", b"{\n}"])
def test_an_empty_object_gets_ours_alone(body: bytes) -> None:
    """No comma without a key after it."""
    assert sent(rewrite(CHAT, body, OURS)) == {"rid": "r" * 20, "session_id": "s1"}


def test_a_response_carries_its_id_in_its_own_field() -> None:
    """`request_id` is the rid there, and the response's id."""
    rewritten = rewrite(Endpoint.RESPONSES, b'{"input":"x"}', Wishes(rid="abc"))
    assert sent(rewritten) == {"request_id": "resp_abc", "input": "x"}
    assert rewritten.rid == "resp_abc"


@pytest.mark.parametrize("key", sorted(STRIPPED | {PRIORITY}))
@pytest.mark.parametrize("value", ["mine", 7, None, {"a": [1]}])
@pytest.mark.parametrize("endpoint", Endpoint)
def test_engine_extras_are_taken_out(key: str, value: object, endpoint: Endpoint) -> None:
    """Whatever their value, on every endpoint; what is beside them stays, and it is noted."""
    body = json.dumps({"top_k": 5, key: value, "model": "m"}).encode()
    rewritten = rewrite(endpoint, body, OURS)
    found = sent(rewritten)
    assert found.get(key) in (None, "r" * 20, "s1", "resp_" + "r" * 20)
    assert (found["top_k"], found["model"]) == (5, "m")
    assert any(key in note for note in rewritten.notes)
    assert not any("mine" in note for note in rewritten.notes)


def test_priority_passes_where_the_owner_allows_it() -> None:
    """A setting of his own."""
    assert of(Wishes(priorities=True, include_usage=False), priority=5) == {"priority": 5}


def spelled(key: str) -> st.SearchStrategy[str]:
    """A key as JSON may spell it: any letter as an escape."""
    return st.lists(
        st.sampled_from(("plain", "lower", "upper")), min_size=len(key), max_size=len(key)
    ).map(
        lambda ways: "".join(
            letter
            if way == "plain"
            else (f"\\u{ord(letter):04x}" if way == "lower" else f"\\u{ord(letter):04X}")
            for letter, way in zip(key, ways, strict=True)
        )
    )


PAIRS = st.lists(
    st.one_of(
        *(
            st.tuples(spelled(key), st.sampled_from(['"MINE"', "-1", "null", '{"a":1}']))
            for key in ("rid", "session_id", "priority", "cache_salt", "input_ids", "request_id")
        ),
        st.tuples(
            spelled("custom_params"),
            st.sampled_from(['{"thinking_budget":-1}', '{"thinking_budget":99999}', "[]", '"x"']),
        ),
        st.tuples(
            st.sampled_from(["model", "messages", "top_p", "x"]),
            st.sampled_from(['"a"', "[1]", "NaN", '"\\ud800"', "1e999"]),
        ),
    ),
    max_size=8,
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(PAIRS, st.sampled_from(["", " ", "\n\t"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
@example([("r\\u0069d", '"MINE"'), ("rid", '"MINE"')], "", "utf-8")
@example([("rid", '"MINE"'), ("x", "NaN")], "", "utf-8")
@example([("rid", '"MINE"')], "", "utf-16")
@example([("custom_params", '{"thinking_budget":-1}'), ("x", '"\\ud800"')], " ", "utf-8")
def test_no_spelling_gets_a_client_s_own_value_through(
    pairs: list[tuple[str, str]], space: str, encoding: str
) -> None:
    """Twice, escaped, in UTF-16, beside what only Python reads: the engine sees ours or none."""
    body = "{" + ",".join(f'{space}"{key}"{space}:{value}' for key, value in pairs) + space + "}"
    wishes = Wishes(rid="r" * 20, session_id="s1", think_cap=500, budgets=True)
    rewritten = rewrite(CHAT, body.encode(encoding), wishes)
    assert not rewritten.fault
    found = sent(rewritten)
    assert (found.pop("rid"), found.pop("session_id")) == ("r" * 20, "s1")
    budget = found.pop("custom_params", {"thinking_budget": 0})["thinking_budget"]
    assert 0 <= budget <= 500
    kept = {
        key: value for key, value in json.loads(body).items() if key in ("model", "messages", "x")
    }
    assert repr({key: found.get(key) for key in kept}) == repr(kept)
    assert not found.keys() & (STRIPPED | {PRIORITY, CUSTOM})


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[1]", b'"x"', b'{"a":1}x', b"\xff", b'{"a":' + b"[" * 100_000],
)
def test_what_is_no_object_is_not_forwarded(body: bytes) -> None:
    """Another reader might find something in it; ours answers 400 with the reason, not the text."""
    rewritten = rewrite(CHAT, body, OURS)
    assert rewritten.parts == ()
    assert rewritten.fault.startswith("The body is not")


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","rid":"x","me\xff\xffss":[]}',
        b'{"me\xff":[]}',
        b'{"messages":[{"role":"user","content":"\xff"}]}',
        b'{"tools":["\xff"]}',
    ],
)
def test_bytes_that_are_no_text_are_refused(body: bytes) -> None:
    """Found by atheris: in what is not looked into, too."""
    rewritten = rewrite(CHAT, body, OURS)
    assert rewritten.parts == ()
    assert rewritten.fault.startswith("The body is not")


def budget(
    cap: int | None, asked: Any = None, *, own: int | None = None, budgets: bool = True
) -> object:
    """The thinking budget that the engine sees."""
    body = {} if asked is None else {"custom_params": {"thinking_budget": asked, "x": 1}}
    wishes = Wishes(think_cap=cap, thinking=own, budgets=budgets)
    return of(wishes, **body).get("custom_params")


def test_a_thinking_budget_works_within_the_owner_s_cap() -> None:
    """Below it: as asked. Above it: the cap. Nothing else in `custom_params` passes."""
    assert budget(5_000, 3_000) == {"thinking_budget": 3_000}
    assert budget(5_000, 5_001) == {"thinking_budget": 5_000}
    assert budget(None, 9_000) == {"thinking_budget": 9_000}
    assert budget(5_000, own=2_048) == {"thinking_budget": 2_048}
    assert budget(5_000, own=64_000) == {"thinking_budget": 5_000}
    assert budget(5_000, 0) == {"thinking_budget": 0}
    assert budget(5_000) is None


@pytest.mark.parametrize("asked", [-1, -(10**9), 2.5, 1e300, "4000", True, [5], {"a": 1}])
def test_no_budget_is_no_end_to_thinking(asked: object) -> None:
    """Minus one would lift the server's own limit: it becomes the cap, or nothing."""
    assert budget(5_000, asked) == {"thinking_budget": 5_000}
    assert budget(None, asked) is None


def test_an_engine_that_knows_no_budget_gets_none() -> None:
    """Without the filter the field would do nothing, or harm."""
    assert budget(5_000, 3_000, budgets=False) is None
    wishes = Wishes(think_cap=5_000, thinking=2_048, budgets=True)
    assert of(wishes, Endpoint.MESSAGES, custom_params={"thinking_budget": 1}) == {}


@pytest.mark.case("C46")
@pytest.mark.parametrize(
    ("options", "expected", "added"),
    [
        ("absent", {"include_usage": True}, True),
        (None, {"include_usage": True}, True),
        ({}, {"include_usage": True}, True),
        ({"include_usage": False}, {"include_usage": True}, True),
        ({"include_usage": None, "x": 1}, {"include_usage": True, "x": 1}, True),
        (
            {"include_usage": False, "continuous_usage_stats": True},
            {"include_usage": True, "continuous_usage_stats": True},
            True,
        ),
        ({"include_usage": True}, {"include_usage": True}, False),
        ("odd", "odd", False),
        ({"include_usage": "yes"}, {"include_usage": "yes"}, False),
    ],
)
@pytest.mark.parametrize("endpoint", [CHAT, Endpoint.COMPLETIONS])
def test_usage_is_asked_for_where_the_client_does_not(
    options: object, expected: object, added: bool, endpoint: Endpoint
) -> None:
    """And it is said whose wish it was; an odd value is the engine's to refuse."""
    body: dict[str, Any] = {"stream": True}
    if options != "absent":
        body["stream_options"] = options
    rewritten = rewrite(endpoint, json.dumps(body).encode(), Wishes(rid="r"))
    assert rewritten.added_usage is added
    assert sent(rewritten)["stream_options"] == expected


@pytest.mark.case("C46")
def test_a_client_s_own_wish_for_usage_passes_byte_true() -> None:
    """c) and d): not one byte of theirs changes."""
    for options in (
        b'{"include_usage":true}',
        b'{"include_usage":true,"continuous_usage_stats":true}',
    ):
        body = b'{"stream":true,"stream_options":' + options + b"}"
        rewritten = rewrite(CHAT, body, Wishes(rid="r"))
        assert b"".join(rewritten.parts) == b'{"rid":"r",' + body[1:]
    for body in (b'{"stream":false}', b"{}"):
        assert not rewrite(CHAT, body, Wishes(rid="r")).added_usage
    assert not rewrite(Endpoint.MESSAGES, b'{"stream":true}', Wishes(rid="r")).added_usage
    assert not rewrite(Endpoint.RESPONSES, b'{"stream":true}', Wishes(rid="r")).added_usage


def test_values_beside_a_change_stay_byte_true() -> None:
    """Numbers, escapes and blanks inside a value are the client's own."""
    inner = b'[ {"content" : "\\u00e9\\/", "x":1.0e2, "x":-0} ]'
    body = b'{"messages":' + inner + b',"priority":1,"seed":12345678901234567890}'
    out = b"".join(rewrite(CHAT, body, OURS).parts)
    assert inner in out
    assert b"12345678901234567890" in out


def test_the_engine_s_own_model_name() -> None:
    """One name for clients, another for the engine; the same one changes nothing."""
    wishes = Wishes(model="Qwen/X", include_usage=False)
    assert of(wishes, model="rig", top_p=1) == {"model": "Qwen/X", "top_p": 1}
    assert of(wishes, top_p=1) == {"model": "Qwen/X", "top_p": 1}
    body = b'{"model":"Qwen/X"}'
    assert rewrite(CHAT, body, wishes).parts == (body,)


def test_one_decoding_serves_both() -> None:
    """An opened body is taken as it is."""
    body = b'{"model":"m","rid":"x"}'
    opened = open_body(body)
    assert rewrite(CHAT, opened, OURS) == rewrite(CHAT, body, OURS)
    assert isinstance(opened.body, Body)
