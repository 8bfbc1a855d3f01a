"""Clients that go away: the engine's slot is free, its abort came before the connection's end."""

from __future__ import annotations

import re
import time

import pytest
from support_served import SLOTS, Endpoint
from support_served_stream import Stream

pytestmark = pytest.mark.timeout(300)

ENDLESS = {"tokens": 1500, "ignore_eos": True}
LASTING = {"tokens": 400, "ignore_eos": True}
"""Six of them at once fit the real engine's pool of 4,096 tokens, and last some seconds."""


def aborts(rig: Endpoint) -> int:
    """Aborts that reached an engine, by the engines' own access logs."""
    return sum(
        len(re.findall(r'"POST /abort_request HTTP', engine.said()))
        for engine in rig.engines.values()
    )


@pytest.mark.case("C31")
@pytest.mark.parametrize("how", ["fin", "rst"])
def test_leaving_in_mid_answer_frees_the_slot(rig: Endpoint, how: str) -> None:
    """Closed or reset: aborted on the engine, its slot free by the engine's word and by ours."""
    before, cancelled = aborts(rig), rig.metric("rigctl_cancelled_total")
    stream = Stream(rig.port, f"tell me a story {how}", **ENDLESS)
    stream.await_pieces(3)
    assert rig.engines["standard"].running() == 1
    stream.leave(how)
    rig.wait_for(lambda: rig.engines["standard"].running() == 0, 15, "the engine's slot")
    rig.wait_for(lambda: rig.in_flight() == 0, 20, "our own count")
    assert aborts(rig) == before + 1
    assert rig.metric("rigctl_cancelled_total") == cancelled + 1
    assert rig.chat().cluster == "standard"


@pytest.mark.case("C31")
def test_half_closed_is_not_gone(rig: Endpoint) -> None:
    """A client that only stops sending still reads, and gets its whole answer."""
    before = aborts(rig)
    stream = Stream(rig.port, "tell me a story", 120, ignore_eos=True)
    stream.await_pieces(3)
    stream.leave("half")
    stream.whole()
    assert stream.usage["completion_tokens"] == 120
    assert aborts(rig) == before


@pytest.mark.case("C31")
def test_leaving_before_the_first_byte(rig: Endpoint) -> None:
    """A buffered request has no byte until its end: its client leaves, its slot is free."""
    stream = Stream(rig.port, "tell me a story", **ENDLESS, stream=False, stream_options=None)
    rig.wait_for(lambda: rig.engines["standard"].running() == 1, 10, "the engine to have it")
    stream.leave()
    rig.wait_for(lambda: rig.engines["standard"].running() == 0, 15, "the engine's slot")
    rig.wait_for(lambda: rig.in_flight() == 0, 20, "our own count")


@pytest.mark.case("C31")
def test_leaving_the_queue_is_never_sent(rig: Endpoint) -> None:
    """A client that leaves while it waits: its place is free, no engine ever sees it."""
    filling = [Stream(rig.port, f"fill {n}", **LASTING) for n in range(2 * SLOTS - 1)]
    for each in filling:
        each.await_pieces(1)
    waiting = [Stream(rig.port, f"wait {n}") for n in range(3)]
    rig.wait_for(lambda: rig.metric("rigctl_queued") == 3, 10, "three to wait")
    started = sum(engine.said().count("/v1/chat/completions") for engine in rig.engines.values())
    for each in waiting:
        each.leave()
    rig.wait_for(lambda: rig.metric("rigctl_queued") == 0, 10, "the queue to be empty")
    for each in filling:
        each.leave()
    rig.await_calm()
    later = sum(engine.said().count("/v1/chat/completions") for engine in rig.engines.values())
    assert later <= started + len(filling)
    assert not any(each.pieces for each in waiting)


def test_many_that_leave_at_once_leave_nothing(rig: Endpoint) -> None:
    """A storm of vanishing clients, in every phase: no slot, no connection, no file is kept."""
    proxy = rig.proxy
    assert proxy is not None
    rig.await_calm()
    files = _files(proxy.pid)
    for storm in range(3):
        streams = [Stream(rig.port, f"storm {storm} {n}", **LASTING) for n in range(15)]
        time.sleep(0.05 * (storm + 1))
        for number, each in enumerate(streams):
            rig.wait_for(lambda each=each: each._line.sock is not None, 5, "a connection")
            each.leave("rst" if number % 2 else "fin")
    rig.await_calm()
    rig.wait_for(lambda: rig.metric("rigctl_connections") <= 1, 10, "clients to be gone")
    rig.wait_for(lambda: _files(proxy.pid) <= files + 12, 30, "files to be closed")


def _files(pid: int) -> int:
    from pathlib import Path

    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
