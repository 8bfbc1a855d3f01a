"""Clients with keys: who may come in, in whose words a no is said, how much one may run at once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import anthropic
import openai
import pytest
from support_served import MODEL, Endpoint
from support_served_stream import Stream

from rigctl.core.link_words import TableClient

pytestmark = pytest.mark.timeout(300)

KEY = "rk-anna-0123456789"


def client(name: str, key: str, running: int | None = None) -> TableClient:
    """A client as the daemon's table has it: the key's hash and nothing more."""
    return TableClient(name, hashlib.sha256(key.encode()).hexdigest(), running)


@pytest.fixture
def guarded(rig: Endpoint) -> Iterator[Endpoint]:
    """An endpoint that knows two clients, one of them limited to one answer at a time."""
    rig.tell(clients=(client("anna", KEY), client("ben", "rk-ben", running=1)))
    rig.wait_for(lambda: rig.chat().status == 401, 5, "keys to be asked for")
    yield rig
    rig.tell()
    rig.wait_for(lambda: rig.chat().status == 200, 5, "keys to be gone")


def test_without_a_key_nothing_is_served(guarded: Endpoint) -> None:
    """401 on every path that reaches an engine; the probes of a supervisor stay open."""
    for path in ("/v1/chat/completions", "/v1/completions", "/tokenize", "/v1/embeddings"):
        answer = guarded.ask("POST", path, {})
        assert answer.status == 401
        assert answer.json["error"]["type"] == "authentication_error"
    assert guarded.ask("GET", "/v1/models").status == 401
    for path in ("/livez", "/readyz", "/metrics"):
        assert guarded.ask("GET", path).status == 200


def test_both_sdks_come_in_with_the_key_and_stay_out_without(guarded: Endpoint) -> None:
    """Bearer and x-api-key, each with its SDK's own exception for a wrong one."""
    hello = [{"role": "user", "content": "say:short"}]
    url = guarded.url
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as good:
        assert good.chat.completions.create(model=MODEL, messages=hello).choices  # type: ignore[call-overload]
    with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as good_too:
        assert good_too.messages.create(model=MODEL, max_tokens=8, messages=hello).content  # type: ignore[arg-type]
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="rk-wrong", max_retries=0) as bad,
        pytest.raises(openai.AuthenticationError),
    ):
        bad.chat.completions.create(model=MODEL, messages=hello)  # type: ignore[call-overload]
    with (
        anthropic.Anthropic(base_url=url, api_key="rk-wrong", max_retries=0) as bad_too,
        pytest.raises(anthropic.AuthenticationError),
    ):
        bad_too.messages.create(model=MODEL, max_tokens=8, messages=hello)  # type: ignore[arg-type]


def test_no_key_is_in_log_or_metrics(guarded: Endpoint) -> None:
    """Neither a good nor a wrong key is written anywhere."""
    for key in (KEY, "rk-wrong-and-long"):
        guarded.chat(headers={"Authorization": f"Bearer {key}"})
    seen = guarded.said() + guarded.ask("GET", "/metrics").body.decode()
    seen += "".join(engine.said() for engine in guarded.engines.values())
    assert KEY not in seen
    assert "rk-wrong-and-long" not in seen


def test_a_limited_clients_second_request_waits_its_turn(guarded: Endpoint) -> None:
    """One answer at a time for ben: the second is served when the first is done; anna's at once."""
    ben = {"Authorization": "Bearer rk-ben"}
    first = Stream(guarded.port, "go on", 300, headers=ben, ignore_eos=True)
    first.await_pieces(2)
    second = Stream(guarded.port, "say:short", headers=ben)
    time.sleep(0.3)
    assert guarded.chat(headers={"Authorization": f"Bearer {KEY}"}).status == 200
    assert not second.pieces
    assert first.is_alive()
    first.whole()
    second.whole()
    assert int(second.headers["x-rig-wait-ms"]) > 200
