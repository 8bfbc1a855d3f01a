"""The `openai` SDK at the endpoint: what its users call, on simulated and on real engines."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI
from support_served import MODEL, WINDOWS, Endpoint

pytestmark = pytest.mark.timeout(300)

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "what is asked for",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("get_time", "get_weather")
]


def user(text: str) -> list[dict[str, str]]:
    """One user message."""
    return [{"role": "user", "content": text}]


@pytest.fixture
def client(rig: Endpoint) -> Iterator[OpenAI]:
    """A client that never tries again by itself."""
    with OpenAI(base_url=f"{rig.url}/v1", api_key="none", max_retries=0, timeout=60) as made:
        yield made


def test_a_buffered_answer_and_why_it_went_where(client: OpenAI) -> None:
    """Text, end and usage as the engine gave them; headers explain the decision."""
    new = user("say:short to who asks buffered")
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=new)
    answer = raw.parse()
    assert answer.choices[0].message.content == "Hello over there."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4
    assert raw.headers["x-rig-cluster"] == "standard"
    assert raw.headers["x-rig-rule"]
    assert raw.headers["x-rig-why"]
    assert raw.headers["x-rig-session-source"]
    assert int(raw.headers["x-rig-tokens"]) > 0
    assert int(raw.headers["x-rig-wait-ms"]) >= 0


@pytest.mark.case("C46")
@pytest.mark.parametrize("asked", [None, False, True])
def test_a_streamed_answer_has_usage_only_where_asked(client: OpenAI, asked: bool | None) -> None:
    """The words come whole and once; a chunk without choices only where it was asked for."""
    more = {} if asked is None else {"stream_options": {"include_usage": asked}}
    chunks = list(
        client.chat.completions.create(model=MODEL, messages=user("say:short"), stream=True, **more)
    )
    text = "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)
    assert text == "Hello over there."
    ends = [each.choices[0].finish_reason for each in chunks if each.choices]
    assert ends[-1] == "stop"
    assert [each for each in ends if each] == ["stop"]
    bare = [each for each in chunks if not each.choices]
    assert len(bare) == (1 if asked else 0)
    if asked:
        assert bare[0].usage is not None
        assert bare[0].usage.completion_tokens == 4


def test_tool_calls_buffered_and_streamed(client: OpenAI) -> None:
    """Two calls with their arguments, both ways."""
    ask = {"model": MODEL, "messages": user("say:tools"), "tools": TOOLS, "max_tokens": 64}
    message = client.chat.completions.create(**ask).choices[0].message
    assert message.tool_calls is not None
    said = [
        (each.function.name, json.loads(each.function.arguments)) for each in message.tool_calls
    ]
    assert said == [("get_time", {}), ("get_weather", {"city": "Rome"})]
    names: list[str] = []
    arguments: dict[int, str] = {}
    for chunk in client.chat.completions.create(**ask, stream=True):
        for call in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            assert call.function is not None
            if call.function.name:
                names.append(call.function.name)
            known = arguments.get(call.index, "")
            arguments[call.index] = known + (call.function.arguments or "")
    assert names == ["get_time", "get_weather"]
    assert [json.loads(each) for each in arguments.values()] == [{}, {"city": "Rome"}]


def test_plain_completions(client: OpenAI) -> None:
    """The older endpoint, buffered and streamed: the same text both ways."""
    ask = {"model": MODEL, "prompt": "tell me", "max_tokens": 8, "temperature": 0}
    answer = client.completions.create(**ask)
    streamed = "".join(
        each.choices[0].text for each in client.completions.create(**ask, stream=True)
    )
    assert answer.choices[0].text == streamed != ""


def test_one_model_with_the_standard_window(client: OpenAI) -> None:
    """One name for both clusters; the window is standard's, as no client has more for sure."""
    (model,) = client.models.list().data
    assert model.id == MODEL
    assert model.model_extra is not None
    assert model.model_extra["max_model_len"] == WINDOWS["standard"]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.models.retrieve("gpt-9")


def test_a_prompt_that_only_long_takes_goes_there(client: OpenAI) -> None:
    """Longer than standard's window, shorter than long's: served, and the rule is length."""
    text = "many words of a long file " * 550
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=user(f"{text} say:short"), max_tokens=16
    )
    assert raw.headers["x-rig-cluster"] == "long"
    assert raw.headers["x-rig-rule"] == "length"
    assert raw.parse().choices[0].message.content == "Hello over there."


def test_requested_output_counts(client: OpenAI) -> None:
    """A short prompt that wants more answer than standard holds goes to long."""
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=user("say:short"), max_tokens=WINDOWS["standard"]
    )
    assert raw.headers["x-rig-cluster"] == "long"


@pytest.mark.case("C27")
def test_too_long_for_both_is_the_error_that_agents_know(client: OpenAI) -> None:
    """400 with the code and the words on which agents shorten the conversation."""
    text = "many words of a long file " * 4000
    with pytest.raises(openai.BadRequestError, match="maximum context length is 8192") as caught:
        client.chat.completions.create(model=MODEL, messages=user(text), max_tokens=16)
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "nobody", "content": "hi"}],
        "hi",
        [{"role": "user", "content": 123}],
    ],
)
@pytest.mark.case("C30")
def test_the_engines_own_refusal_in_openais_shape(client: OpenAI, messages: object) -> None:
    """A body that the engine refuses is 400 in the SDK's shape, with the engine's reason."""
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=messages)  # type: ignore[arg-type]
    assert caught.value.body["message"]  # type: ignore[index]


@pytest.mark.case("C48")
def test_responses_keep_their_thread(client: OpenAI) -> None:
    """A response and one that follows it: the second goes where the first is known."""
    first = client.responses.with_raw_response.create(
        model=MODEL, instructions="be brief", input="say:short", max_output_tokens=32
    )
    answer = first.parse()
    assert answer.output_text.strip() == "Hello over there."
    second = client.responses.with_raw_response.create(
        model=MODEL, previous_response_id=answer.id, input="say:short", max_output_tokens=32
    )
    assert second.headers["x-rig-cluster"] == first.headers["x-rig-cluster"]
    kinds = [
        event.type
        for event in client.responses.create(
            model=MODEL, input="say:short", stream=True, store=False, max_output_tokens=32
        )
    ]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


@pytest.mark.case("C48")
def test_a_response_that_nobody_knows_is_refused_with_a_reason(client: OpenAI) -> None:
    """An id whose cluster forgot it, or that never was: 400 with what to do, no random cluster."""
    with pytest.raises(openai.BadRequestError, match="Send the whole conversation again"):
        client.responses.create(model=MODEL, previous_response_id="resp_gone", input="go on")
