"""New tables while clients work: gates, engines that start or are lent, a daemon that is gone."""

from __future__ import annotations

import threading
import time

import pytest
from support_served import WINDOWS, Endpoint
from support_served_stream import Stream

from rigctl.core.flow import SessionRow
from rigctl.core.link_words import Aborted, AbortRequest, Flow, GateState

pytestmark = pytest.mark.timeout(300)

LENT = {"state": "off", "gate": "closed", "lent": True, "say": "lent to “training”"}
LONG_TEXT = "many words of a long file " * 500


def test_forty_tables_under_load_drop_nothing(rig: Endpoint) -> None:
    """Every stream is whole while the table changes forty times under it."""
    streams = [Stream(rig.port, f"work {n}", 200, ignore_eos=True) for n in range(8)]
    for number in range(40):
        rig.tell(keep_alive=10.0 + number % 3, queue_limit=50 + number)
        time.sleep(0.02)
    for stream in streams:
        assert stream.whole().usage["completion_tokens"] == 200


def test_a_closing_gate_lets_finish_what_runs_and_takes_nothing_new(rig: Endpoint) -> None:
    """`finish`: the answer goes on to its end, new work goes to the other cluster, then closed."""
    assert rig.daemon is not None
    running = Stream(rig.port, "work on", 400, ignore_eos=True)
    running.await_pieces(2)
    assert running.headers["x-rig-cluster"] == "standard"
    deadline = time.monotonic() + 60
    finish = {"state": "draining", "gate": "finish", "drain": 7, "deadline": deadline}
    rig.tell({"standard": finish})
    rig.daemon.wait_for(GateState, lambda g: g.group == "standard" and g.drain == 7, 10)
    assert rig.chat().cluster == "long"
    assert running.is_alive()
    running.whole()
    ended = rig.daemon.wait_for(
        GateState, lambda g: g.group == "standard" and g.drain == 7 and g.in_flight == 0, 10
    )
    assert ended.gate != "open"


@pytest.mark.case("C28")
def test_only_long_could_take_it_and_long_is_lent(rig: Endpoint) -> None:
    """503 with the holder's name and the limit that works now; the same again for the same."""
    rig.tell({"long": LENT})
    rig.wait_for(lambda: rig.chat(LONG_TEXT, max_tokens=8).status == 503, 5, "the table")
    answers = [rig.chat(LONG_TEXT, max_tokens=8) for _ in range(2)]
    for answer in answers:
        assert answer.status == 503
        said = answer.json["error"]["message"]
        assert "training" in said
        assert str(WINDOWS["standard"]) in said.replace(",", "")
    assert answers[0].json["error"]["message"] == answers[1].json["error"]["message"]
    assert rig.chat().status == 200


@pytest.mark.case("C28")
def test_the_owner_may_let_agents_compact_instead(rig: Endpoint) -> None:
    """`off_answer = 400`: the code on which agents shorten the conversation."""
    rig.tell({"long": LENT}, off_answer=400)
    rig.wait_for(lambda: rig.chat(LONG_TEXT, max_tokens=8).status == 400, 5, "the table")
    answer = rig.chat(LONG_TEXT, max_tokens=8)
    assert answer.json["error"]["code"] == "context_length_exceeded"


@pytest.mark.case("C41", "C28")
def test_a_request_is_held_while_its_cluster_starts(rig: Endpoint) -> None:
    """Both start: the client waits and is served as soon as one of them is ready."""
    starting = {"state": "starting", "gate": "closed", "say": "loading weights", "eta": 5.0}
    rig.tell(dict.fromkeys(rig.engines, starting))
    rig.wait_for(lambda: rig.ask("GET", "/readyz").status == 503, 5, "the table")
    waiting = Stream(rig.port)
    buffered: list[int] = []
    other = threading.Thread(target=lambda: buffered.append(rig.chat().status))
    other.start()
    rig.wait_for(lambda: rig.metric("rigctl_queued") == 2, 10, "both to be held")
    rig.tell()
    waiting.whole()
    other.join(30)
    assert waiting.text == "Hello over there."
    assert buffered == [200]


@pytest.mark.case("C41")
def test_patience_ends_with_whole_seconds(rig: Endpoint) -> None:
    """Past the hold: 503 and a Retry-After that every SDK honours, a number from 1 to 60."""
    starting = {"state": "starting", "gate": "closed", "say": "loading weights", "eta": 900.0}
    rig.tell(dict.fromkeys(rig.engines, starting), hold=0.3)
    rig.wait_for(lambda: rig.ask("GET", "/readyz").status == 503, 5, "the table")
    answer = rig.chat()
    assert answer.status == 503
    assert answer.headers["retry-after"].isdecimal()
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert answer.headers["x-rig-rule"] == "starting"


@pytest.mark.case("C41")
def test_a_full_queue_says_when_to_come_again(rig: Endpoint) -> None:
    """All slots and all waiting places taken: 503 at once, with whole seconds."""
    rig.tell(queue_limit=1)
    filling = [Stream(rig.port, f"fill {n}", 400, ignore_eos=True) for n in range(11)]
    for each in filling:
        each.await_pieces(1)
    waiting = Stream(rig.port)
    rig.wait_for(lambda: rig.metric("rigctl_queued") == 1, 10, "one to wait")
    answer = rig.chat("one more")
    assert answer.status == 503
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert answer.json["error"]["code"] == "queue_full"
    for each in filling:
        each.leave()
    waiting.whole()


def test_a_person_ends_one_answer(rig: Endpoint) -> None:
    """The daemon's abort: its client hears it in-band, the slot is free, the daemon is told."""
    assert rig.daemon is not None
    stream = Stream(rig.port, "tell me a story", 1500, ignore_eos=True)
    stream.await_pieces(3)
    asked = stream.headers["x-rig-request"]
    rig.daemon.say(AbortRequest(asked))
    stream.join(20)
    assert not stream.is_alive()
    assert stream.failure
    rig.daemon.wait_for(Aborted, lambda each: each.request == asked and each.found, 20)
    rig.wait_for(lambda: rig.engines["standard"].running() == 0, 15, "the engine's slot")
    rig.daemon.say(AbortRequest("nobody"))
    rig.daemon.wait_for(Aborted, lambda each: each.request == "nobody" and not each.found, 10)


def test_the_flow_names_who_works(rig: Endpoint) -> None:
    """Once a second the daemon hears of each session: where, in what state, how far."""
    assert rig.daemon is not None
    stream = Stream(rig.port, "work on", 500, ignore_eos=True)
    stream.await_pieces(3)
    asked = stream.headers["x-rig-request"]

    def mine(flow: Flow) -> list[SessionRow]:
        return [row for row in flow.rows.sessions if row.request == asked]

    flow = rig.daemon.wait_for(Flow, mine, 10)
    (row,) = mine(flow)
    assert row.cluster == "standard"
    assert row.session == stream.headers["x-rig-session"]
    assert row.state in ("prefilling", "thinking", "answering")
    stream.whole()


def test_a_daemon_that_is_gone_is_not_noticed(own: Endpoint) -> None:
    """The link breaks under load: no stream ends, new work is served, a new daemon is found."""
    streams = [Stream(own.port, f"work {n}", 300, ignore_eos=True) for n in range(6)]
    for stream in streams:
        stream.await_pieces(2)
    assert own.daemon is not None
    own.daemon.close()
    assert own.chat().status == 200
    for stream in streams:
        stream.whole()
    assert own.chat().status == 200
