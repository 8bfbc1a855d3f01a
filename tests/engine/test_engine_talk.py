"""What the endpoint builds on in each dialect holds for the simulated and the real SGLang."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

Talk = dict[str, Any]
RECORDED = Path(__file__).parent.parent / "data/sglang_run/talk.json"
pytestmark = pytest.mark.timeout(900)

TOO_LONG = "The input (# tokens) is longer than the model's context length (# tokens)."


def test_the_simulated_engine_says_what_the_real_one_said(simulated_talk: Talk) -> None:
    """Every status, shape, wording and ending is the recorded one of SGLang 0.5.23."""
    real = json.loads(RECORDED.read_text())
    simulated = json.loads(json.dumps(simulated_talk))
    assert {name for name in real if simulated.get(name) != real[name]} == set()
    assert simulated.keys() == real.keys()


@pytest.mark.case("C27")
def test_three_wordings_of_too_long(spoken: Talk) -> None:
    """Window, prompt with answer, and pool, each at its exact bound."""
    assert spoken["ids 4089"]["status"] == 200
    assert "exceeds the maximum allowed length" in spoken["ids 4090"]["say"]
    assert "exceeds the maximum allowed length" in spoken["ids 8191"]["say"]
    assert "longer than the model's context length" in spoken["ids 8192"]["say"]
    assert "Requested token count exceeds" in spoken["ids with answer 8193"]["say"]


def test_two_dialects_say_200_before_they_look_at_the_length(spoken: Talk) -> None:
    """A streamed chat is refused with 400; messages and responses refuse inside the stream."""
    assert spoken["chat too long stream"]["status"] == 400
    messages = spoken["messages too long stream"]
    assert messages["status"] == 200
    events = [name for name, _ in messages["frames"]]
    assert events == ["message_start", "error", "message_stop"]
    response = spoken["response too long stream"]
    assert response["status"] == 200
    assert response["frames"][-1][0] == "response.failed"
    assert spoken["messages too long"]["say"].endswith(TOO_LONG)


def test_a_template_refuses_an_effort_before_any_stream(spoken: Talk) -> None:
    """As Qwen3.8's: three levels are taken, `none` and `high` are 400 in every dialect."""
    for taken in ("effort xhigh", "effort medium", "effort low", "messages effort low"):
        assert spoken[taken]["status"] == 200
    asked = ["effort high", "effort none", "effort stream", "messages effort", "count effort"]
    asked += ["messages effort xhigh", "messages effort stream", "response effort"]
    for refused in [*asked, "tokenize effort"]:
        assert spoken[refused]["status"] == 400
        assert "Supported types are xhigh (default), medium, and low." in spoken[refused]["say"]


def test_thought_text_and_call_in_each_dialect(spoken: Talk) -> None:
    """One scripted answer, streamed and whole: the same words, and each dialect's ending."""
    for name in ("chat all", "chat all stream", "messages all", "messages all stream"):
        answer = spoken[name]["said"]
        assert answer["thought"] == "Let me think."
        assert answer["text"] == "Here it is."
        assert answer["calls"] == 'get_weather{"city": "Paris again"}'
    assert spoken["chat all"]["said"]["ends"] == [["tool_calls", None]]
    assert spoken["messages all"]["said"]["ends"] == ["tool_use"]


def test_an_abort_is_an_ending_and_no_error(spoken: Talk) -> None:
    """Decoding, in a chunked prefill or queued: 200, `abort`, and `end_turn` in messages."""
    aborts = {**spoken["abort"], **{n: spoken["abort queued"][n] for n in ("chat", "messages")}}
    for name, facts in aborts.items():
        assert facts["status"] == 200
        assert facts["over"], name
    assert spoken["abort"]["chat"]["ends"] == [["abort", None]]
    assert spoken["abort"]["messages"]["ends"] == ["end_turn"]
    queued = spoken["abort queued"]
    assert not any(queued["chat"]["counts"].values())
    assert queued["others go on"]
    assert queued["a part of an id does nothing"]
    early = queued["status before the first token"]
    assert early == {"chat": False, "chat whole": False, "messages": True}


def test_ids(spoken: Talk) -> None:
    """A text is taken, a second one in flight refused, and with `n` the id is thrown away."""
    rids = spoken["rid"]
    assert rids["text"] == [200, True]
    assert rids["with n"] == [200, False]
    assert rids["list"][0] == 500
    assert rids["twice"][0] == 400
    assert rids["twice"][2]
    assert spoken["several"]["by the given id"]
    assert spoken["override"] == {"chat": "head", "responses": "resp_b"}
    assert spoken["plain"]["header ignored"]


@pytest.mark.case("C36")
def test_a_client_that_leaves(spoken: Talk) -> None:
    """A stream's slot is free at once; another answer's at the engine's next look, in 5 s."""
    assert spoken["left"] == {"stream": "at once", "n": "at once", "whole": "within 5 s"}


def test_schema_refusals_echo_what_was_sent(spoken: Talk) -> None:
    """Law: these texts may hold a prompt, so they are neither logged nor passed on as they are."""
    for name in ("chat text messages", "chat bad role", "chat no messages", "response no input"):
        assert spoken[name]["say"].endswith("with what was sent")


def test_sessions_and_keys(spoken: Talk) -> None:
    """A session's end is a log line; a key counts as bearer only."""
    assert spoken["session"]["closed"] == [200, 200]
    assert spoken["session"]["lines"][0].startswith("release_session s-1")
    assert spoken["plain"]["lines"] == 0
    assert spoken["plain"]["key by x-api-key"] == 401
    assert spoken["cached"] == {"chat": True, "messages": True, "completions": True}
