"""What goes wrong on demand, as a client sees it, each fault by its word in the prompt."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support_sglang import FIRED_UP, free_port

from rigctl.sim.sglang.faults import Fault, find_fault
from rigctl.sim.sglang.speech import Speech


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """An engine that thinks, at twenty times the rig's speed."""
    where = free_port()
    log = tmp_path_factory.mktemp("faults") / "log"
    flags = ["--model-path", "Qwen/Qwen3.8-27B", "--port", str(where)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rigctl.sim.sglang", *flags, "--reasoning-parser", "qwen3"],
            env={**os.environ, "SIM_LOAD_SECONDS": "1", "SIM_SPEED": "20"},
            stdout=output,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + 30
        while FIRED_UP not in log.read_text():
            assert time.monotonic() < end
            time.sleep(0.05)
        yield where
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def stream(
    port: int, text: str, path: str = "/v1/chat/completions", **more: Any
) -> tuple[int, str]:
    """Status and the text of a streamed answer, as far as it came."""
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 60}
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    head = {"Content-Type": "application/json"}
    data = b""
    with contextlib.closing(link):
        link.request("POST", path, json.dumps({**body, "stream": True, **more}), head)
        with link.getresponse() as answer:
            try:
                while part := answer.read1():
                    data += part
            except (http.client.IncompleteRead, ConnectionResetError) as torn:
                data += getattr(torn, "partial", b"") + b"TORN"
            return answer.status, data.decode()


def test_error_events(port: int) -> None:
    """As the first event, or after some tokens, in each dialect's shape."""
    status, text = stream(port, "fault:error:0")
    assert status == 200
    assert text.startswith('data: {"error":')
    _, later = stream(port, "fault:error:12")
    assert later.index("reasoning_content") < later.index('"error"')
    _, events = stream(port, "fault:error:12", "/v1/messages")
    assert events.index("content_block_delta") < events.index("event: error")


def test_streams_that_end_wrong(port: int) -> None:
    """Without [DONE], without a finish, or torn in the middle."""
    _, whole = stream(port, "hello")
    assert '"finish_reason":"length"' in whole
    assert whole.endswith("data: [DONE]\n\n")
    _, text = stream(port, "fault:no-done")
    assert '"finish_reason":"length"' in text
    assert "[DONE]" not in text
    _, text = stream(port, "fault:no-finish")
    assert '"finish_reason":"length"' not in text
    assert "[DONE]" not in text
    _, text = stream(port, "fault:cut:10")
    assert text.endswith("TORN")


def test_refusals_on_demand(port: int) -> None:
    """Any status, before anything is computed."""
    assert stream(port, "fault:refuse:503")[0] == 503
    assert stream(port, "fault:refuse:500", "/v1/messages")[0] == 500


def test_silence(port: int) -> None:
    """Nothing for so many real seconds in the middle, then on to the end."""
    began = time.monotonic()
    _, text = stream(port, "fault:silence:10:1.2")
    assert time.monotonic() - began >= 1.2
    assert text.endswith("data: [DONE]\n\n")


def test_thought_only_and_repetition(port: int) -> None:
    """An answer that was all thought; one that says the same over and over."""
    _, text = stream(port, "fault:think")
    assert '"content":"' not in text.split("\n\n", 1)[1]
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    _, text = stream(port, "fault:repeat", **off)
    assert text.count("look") > 3


def test_characters_split_over_writes(port: int) -> None:
    """The bytes are whole in the end, whatever the parts were."""
    _, text = stream(port, "fault:split", chat_template_kwargs={"enable_thinking": False})
    assert "🐀" in text or "größer" in text


def test_words_of_faults() -> None:
    """A word with its numbers; the environment's one holds where a prompt names none."""
    assert find_fault("x fault:silence:20:1.5 y") == Fault("silence", 20, 1.5)
    assert find_fault("nothing", "error:3") == Fault("error", 3)
    assert find_fault("fault:cut:9", "error:3") == Fault("cut", 9)
    assert find_fault("a fault:nonsense") == Fault()


def test_a_stop_string_over_several_tokens() -> None:
    """The answer ends where the string begins, though a token had it half."""
    speech = Speech(5, 0, 50)
    said = "".join(speech.token(number).text for number in range(50))
    stop = said[10:17]
    speech.stop_at([stop], 50)
    told = "".join(speech.token(number).text for number in range(speech.natural))
    assert told == said[: said.index(stop)]
    assert speech.matched == stop
