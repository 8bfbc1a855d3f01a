"""Processes that die under load: an engine before its first byte, the proxy told to leave."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator

import pytest
from support_served import Endpoint, Engine
from support_served_stream import Stream

from rigctl.core.link_words import Evidence

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def mortal(own: Endpoint) -> Iterator[Endpoint]:
    """An endpoint whose standard engine may be killed; it runs again afterwards."""
    yield own
    engine = own.engines["standard"]
    if engine.process.poll() is not None:
        engine.start()
        engine.await_ready()


def freeze(engine: Engine) -> None:
    """It takes connections and requests, and answers nothing: as in a long prefill."""
    os.killpg(engine.process.pid, signal.SIGSTOP)


def test_an_engine_killed_before_its_first_byte_is_not_noticed(mortal: Endpoint) -> None:
    """kill -9 with requests on it, none answered yet: each gets a whole answer, from the other."""
    engine = mortal.engines["standard"]
    freeze(engine)
    streams = [Stream(mortal.port) for _ in range(3)]
    mortal.wait_for(lambda: mortal.in_flight() == 3, 10, "three to be with the engine")
    engine.kill()
    for stream in streams:
        stream.whole()
        assert stream.text == "Hello over there."
        assert stream.headers["x-rig-cluster"] == "long"
    assert mortal.metric("rigctl_resent_total") == 3
    assert mortal.daemon is not None
    mortal.daemon.wait_for(Evidence, lambda each: each.group == "standard", 10)
    assert mortal.chat().cluster == "long"


def test_an_engine_killed_in_mid_answer_breaks_only_its_own(mortal: Endpoint) -> None:
    """The cut answer ends with an error and never as if it were whole; the other's is whole."""
    long = Stream(mortal.port, "many words of a long file " * 500, 300, ignore_eos=True)
    cut = Stream(mortal.port, "go on", 1200, ignore_eos=True)
    long.await_pieces(2)
    cut.await_pieces(3)
    mortal.engines["standard"].kill()
    cut.join(60)
    assert not cut.is_alive()
    assert cut.failure
    assert not cut.finish
    assert long.whole().usage["completion_tokens"] == 300


def test_a_restarted_engine_is_found_by_its_new_table(mortal: Endpoint) -> None:
    """After kill and restart, with the table that says so, work goes there again."""
    engine = mortal.engines["standard"]
    engine.kill()
    assert mortal.chat("say:short before").cluster == "long"
    engine.start()
    engine.await_ready()
    mortal.tell()
    numbers = itertools.count()  # a session of its own each: one that was moved has a new home

    def back() -> bool:
        return mortal.chat(f"say:short {next(numbers)}").cluster == "standard"

    mortal.wait_for(back, 30, "standard to be used again")


def test_sigterm_drains(own: Endpoint) -> None:
    """Told to leave: what runs is finished to its last byte, then the process ends with 0."""
    assert own.proxy is not None
    streams = [Stream(own.port, f"work {n}", 300, ignore_eos=True) for n in range(4)]
    for stream in streams:
        stream.await_pieces(2)
    own.proxy.send_signal(signal.SIGTERM)
    for stream in streams:
        assert stream.whole().usage["completion_tokens"] == 300
    assert own.proxy.wait(30) == 0


def test_a_successor_on_the_same_socket_serves_at_once(own: Endpoint) -> None:
    """A new proxy beside one that drains: no request is refused, no answer is cut."""
    assert own.proxy is not None
    first = own.proxy
    streams = [Stream(own.port, f"work {n}", 300, ignore_eos=True) for n in range(4)]
    for stream in streams:
        stream.await_pieces(2)
    own.begin_proxy()
    first.send_signal(signal.SIGTERM)
    for _ in range(10):
        assert own.chat().status == 200
    for stream in streams:
        stream.whole()
    assert first.wait(30) == 0
    assert own.chat().status == 200
