"""The `anthropic` SDK at the endpoint, as Claude Code and its like use it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import anthropic
import pytest
from anthropic import Anthropic
from support_served import MODEL, Endpoint
from support_served_stream import Stream

pytestmark = pytest.mark.timeout(300)

TOOLS = [
    {
        "name": name,
        "description": "what is asked for",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    for name in ("get_time", "get_weather")
]
HELLO = [{"role": "user", "content": "say:short"}]


@pytest.fixture
def client(rig: Endpoint) -> Iterator[Anthropic]:
    """A client that never tries again by itself."""
    with Anthropic(base_url=rig.url, api_key="none", max_retries=0, timeout=60) as made:
        yield made


def test_a_buffered_message(client: Anthropic) -> None:
    """Text, end and usage; the decision is in the headers here too."""
    new = [{"role": "user", "content": "say:short to a messenger"}]
    raw = client.messages.with_raw_response.create(model=MODEL, max_tokens=32, messages=new)
    answer = raw.parse()
    assert [block.text for block in answer.content if block.type == "text"] == ["Hello over there."]
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0
    assert raw.headers["x-rig-cluster"] == "standard"


def test_a_streamed_message(client: Anthropic) -> None:
    """Every piece of text once, and a whole final message."""
    with client.messages.stream(model=MODEL, max_tokens=32, messages=HELLO) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "Hello over there."
    assert final.stop_reason == "end_turn"


def test_tools(client: Anthropic) -> None:
    """Two tool uses with their inputs, streamed."""
    ask = {"model": MODEL, "max_tokens": 64, "tools": TOOLS}
    messages = [{"role": "user", "content": "say:tools"}]
    with client.messages.stream(messages=messages, **ask) as stream:  # type: ignore[arg-type]
        final = stream.get_final_message()
    uses = [(each.name, each.input) for each in final.content if each.type == "tool_use"]
    assert uses == [("get_time", {}), ("get_weather", {"city": "Rome"})]
    assert final.stop_reason == "tool_use"


@pytest.mark.case("C27")
def test_too_long_in_anthropics_words(client: Anthropic) -> None:
    """400 that says `prompt is too long`, on which these agents shorten the conversation."""
    messages = [{"role": "user", "content": "many words of a long file " * 4000}]
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long") as caught:
        client.messages.create(model=MODEL, max_tokens=16, messages=messages)  # type: ignore[arg-type]
    assert caught.value.body["type"] == "error"  # type: ignore[index, call-overload]


@pytest.mark.case("C28")
def test_overloaded_in_anthropics_words(client: Anthropic, rig: Endpoint) -> None:
    """Both clusters off: 529 overloaded_error in this dialect, which its clients understand."""
    rig.tell({name: {"state": "off", "gate": "closed", "say": "is off"} for name in rig.engines})
    rig.wait_for(lambda: rig.ask("GET", "/readyz").status == 503, 5, "the table to arrive")
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(model=MODEL, max_tokens=16, messages=HELLO)  # type: ignore[arg-type]
    assert caught.value.status_code == 529
    assert caught.value.body["error"]["type"] == "overloaded_error"  # type: ignore[index, call-overload]


def test_a_wrong_path_is_an_error_in_this_dialect(rig: Endpoint) -> None:
    """Below /v1/messages errors have Anthropic's shape, whatever the client is."""
    answer = rig.ask("POST", "/v1/messages/batches", {})
    assert answer.status == 404
    assert answer.json["type"] == "error"
    assert answer.json["error"]["type"] == "not_found_error"


@pytest.mark.case("C47")
def test_fifty_counts_in_a_second_take_no_slot_and_no_session(
    client: Anthropic, rig: Endpoint
) -> None:
    """Side calls are answered while every slot is taken, and are in no session and no slot."""
    streams = [Stream(rig.port, f"go {number}", 400, ignore_eos=True) for number in range(11)]
    for stream in streams:
        stream.await_pieces(1)
    homes = rig.metric("rigctl_sessions")
    began = time.monotonic()
    with ThreadPoolExecutor(10) as workers:
        counts = list(
            workers.map(
                lambda _: client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens,  # type: ignore[arg-type]
                range(50),
            )
        )
    took = time.monotonic() - began
    assert len(set(counts)) == 1
    assert counts[0] > 0
    assert took < 30, f"fifty counts in {took:.1f} s"
    assert rig.metric("rigctl_sessions") == homes
    for stream in streams:
        stream.leave()


@pytest.mark.case("C47")
def test_query_strings_are_kept(rig: Endpoint) -> None:
    """`?beta=true`, as Claude Code sends it, does not hide the path, and reaches the engine."""
    body = {"model": MODEL, "messages": HELLO}
    answer = rig.ask("POST", "/v1/messages/count_tokens?beta=true", body)
    assert answer.status == 200, answer.body
    assert answer.json["input_tokens"] > 0

    def logged() -> bool:  # an engine writes its access line after its answer
        said = "".join(engine.said() for engine in rig.engines.values())
        return "/v1/messages/count_tokens?beta=true" in said

    rig.wait_for(logged, 10, "the query in an engine's log")
