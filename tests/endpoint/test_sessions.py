"""Sessions from outside: a second turn goes home and finds its prefix cached."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support_served import MODEL, Answer, Endpoint

pytestmark = pytest.mark.timeout(300)

SYSTEM = {"role": "system", "content": "You are a careful agent. Use the tools you have. " * 20}


def turn(rig: Endpoint, messages: list[dict[str, Any]], **headers: str) -> Answer:
    """One buffered turn of a conversation."""
    body = {"model": MODEL, "messages": messages, "max_tokens": 8}
    answer = rig.ask("POST", "/v1/chat/completions", body, headers=headers)
    assert answer.status == 200, answer.body
    return answer


def said(answer: Answer) -> dict[str, Any]:
    """The answer as the message that the next turn carries."""
    return {"role": "assistant", "content": answer.json["choices"][0]["message"]["content"]}


def cached(answer: Answer) -> int:
    """Prompt tokens that the engine found in its cache."""
    details = answer.json["usage"]["prompt_tokens_details"] or {}
    return int(details.get("cached_tokens") or 0)


def test_a_second_turn_hits_its_cache_on_either_cluster(rig: Endpoint) -> None:
    """Home again, by the chain of messages, and most of the prompt is cached there."""
    short = [SYSTEM, {"role": "user", "content": "fix the first bug in this file"}]
    long = [SYSTEM, {"role": "user", "content": "many words of a long file " * 500}]
    for messages, home in ((short, "standard"), (long, "long")):
        first = turn(rig, messages)
        assert first.cluster == home
        again = [*messages, said(first), {"role": "user", "content": "go on"}]
        second = turn(rig, again)
        assert second.cluster == home
        assert second.headers["x-rig-session"] == first.headers["x-rig-session"]
        assert second.headers["x-rig-session-source"] in ("chain", "turns")
        assert cached(second) > first.json["usage"]["prompt_tokens"] * 0.6


def test_a_session_outgrows_its_home_and_that_is_said(rig: Endpoint) -> None:
    """Too long for its home: it moves to long, and its next turn is at home there."""
    messages = [SYSTEM, {"role": "user", "content": "a task that grows"}]
    first = turn(rig, messages)
    assert first.cluster == "standard"
    messages += [said(first), {"role": "user", "content": "many words of a long file " * 500}]
    second = turn(rig, messages)
    assert second.cluster == "long"
    messages += [said(second), {"role": "user", "content": "go on"}]
    third = turn(rig, messages)
    assert third.cluster == "long"
    assert cached(third) > 0


@pytest.mark.case("C19")
def test_ten_sessions_with_one_beginning_spread_and_return(rig: Endpoint) -> None:
    """Six standard, four long, none waits; each second turn goes where its first one went."""
    task = {"ignore_eos": True, "max_tokens": 60}
    opening = {"role": "system", "content": "tools and rules that all of them share. " * 30}
    starts = [[opening, {"role": "user", "content": f"fix bug {number}"}] for number in range(10)]

    def first(messages: list[dict[str, Any]]) -> Answer:
        body = {"model": MODEL, "messages": messages, **task}
        return rig.ask("POST", "/v1/chat/completions", body)

    with ThreadPoolExecutor(10) as clients:
        answers = list(clients.map(first, starts))
    homes = [answer.cluster for answer in answers]
    assert sorted(homes) == ["long"] * 4 + ["standard"] * 6
    assert all(answer.headers["x-rig-rule"] in ("free", "overflow") for answer in answers)
    assert len({answer.headers["x-rig-session"] for answer in answers}) == 10
    for messages, answer in zip(starts, answers, strict=True):
        more = [*messages, said(answer), {"role": "user", "content": "go on"}]
        back = turn(rig, more)
        assert back.headers["x-rig-session"] == answer.headers["x-rig-session"]
        if answer.cluster == "standard":
            assert back.cluster == "standard"
        assert cached(back) > 0 or back.cluster != answer.cluster


@pytest.mark.case("C19")
@pytest.mark.parametrize(
    ("header", "source"),
    [
        ("X-Claude-Code-Session-Id", "x-claude-code-session-id"),
        ("session-id", "session-id"),
        ("session_id", "session_id"),
        ("X-Session-Id", "x-session-id"),
        ("X-Session-Affinity", "x-session-affinity"),
    ],
)
def test_an_explicit_id_narrows_and_the_chain_decides(
    rig: Endpoint, header: str, source: str
) -> None:
    """The next turn under an id is known by it; a sub-agent under the same id is another one."""
    named = {header: f"mine-{source}"}
    messages = [{"role": "user", "content": f"say:short {source}"}]
    first = turn(rig, messages, **named)
    more = [*messages, said(first), {"role": "user", "content": "go on"}]
    second = turn(rig, more, **named)
    assert second.headers["x-rig-session"] == first.headers["x-rig-session"]
    assert source in second.headers["x-rig-session-source"]
    agent = turn(rig, [{"role": "user", "content": f"say:short agent {source}"}], **named)
    assert agent.headers["x-rig-session"] != first.headers["x-rig-session"]


@pytest.mark.case("C18")
@pytest.mark.parametrize("blocks", [False, True])
def test_a_changing_billing_line_changes_no_session(rig: Endpoint, blocks: bool) -> None:
    """The line that Claude Code puts first differs in each request: it is one session still."""

    def system(code: str) -> dict[str, Any]:
        line = f"x-anthropic-billing-header: cc_version=2.1.177.{code}; cc_entrypoint=sdk-cli;"
        text = "You are a careful agent."
        if blocks:
            parts = [{"type": "text", "text": line}, {"type": "text", "text": text}]
            return {"role": "system", "content": parts}
        return {"role": "system", "content": f"{line}\n{text}"}

    user = {"role": "user", "content": f"say:short billing {blocks}"}
    first = turn(rig, [system("01c"), user])
    more = [system("9fe"), user, said(first), {"role": "user", "content": "go on"}]
    second = turn(rig, more)
    assert second.headers["x-rig-session"] == first.headers["x-rig-session"]
    assert second.cluster == first.cluster
