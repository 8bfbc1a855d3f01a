"""The daemon with the real proxy in front of simulated engines: what a client's stream notices."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from collections.abc import Iterator

import pytest
from daemon_kit import Answer, Rig, alive, end
from endpoint_kit import EndpointRig


class RealRig(EndpointRig):
    """As shipped: the daemon's own program starts the proxy's own program."""

    begin_daemon = Rig.begin_daemon

    def answers(self, count: int, tokens: int) -> list[Answer]:
        """Streams by way of the endpoint, each seen to have begun."""
        made = [Answer(self.address, tokens) for _ in range(count)]
        for each in made:
            self.wait(lambda each=each: each.chunks > 2, "a stream to begin")
        return made

    def finish(self, answers: list[Answer]) -> None:
        """Each was read to its end, not a byte cut."""
        for each in answers:
            each.join(60)
        assert [(each.complete, each.error) for each in answers] == [(True, "")] * len(answers)

    def running(self, name: str) -> float:
        """What the engine itself says it has."""
        url = f"http://127.0.0.1:{self.port(name)}/v1/loads?include=core"
        with urllib.request.urlopen(url, timeout=10) as answer:
            loads = json.loads(answer.read())["loads"][0]
        return float(loads["num_running_reqs"] + loads["num_waiting_reqs"])


@pytest.fixture
def rig() -> Iterator[RealRig]:
    """A rig in a short folder, its daemon not yet started."""
    with tempfile.TemporaryDirectory(prefix="rig-", dir="/tmp") as home:
        made = RealRig(home)
        try:
            yield made
        finally:
            made.close()


def test_a_killed_daemon_under_load_is_noticed_by_no_stream(rig: RealRig) -> None:
    """Streams run on by the last table, new ones are taken in, the next daemon takes it all up."""
    rig.begin()
    pid = rig.up()
    rig.start("standard")
    streams = rig.answers(3, 3000)
    rig.kill_daemon()
    streams += rig.answers(2, 300)
    rig.begin_daemon()
    assert rig.up() == pid
    assert rig.state("standard") == "ready"
    rig.finish(streams)
    rows = rig.wait(lambda: rig.endpoint()["rows"]["totals"], "the traffic")
    assert rows["failed"] == 0


def test_a_killed_proxy_leaves_no_answer_running_for_nobody(rig: RealRig) -> None:
    """Its streams are lost; the engine is not touched, and its slots are free at once."""
    rig.begin()
    pid = rig.up()
    engine = rig.start("standard")
    streams = rig.answers(4, 60_000)
    assert rig.running("standard") == 4
    end(pid)
    for each in streams:
        each.join(20)
    assert not any(each.complete for each in streams)
    rig.up(instead_of=pid)
    rig.wait(lambda: rig.running("standard") == 0, "the orphans to be ended")
    assert alive(engine)
    rig.finish([Answer(rig.address, 50)])


def test_a_restart_of_the_endpoint_cuts_no_stream(rig: RealRig) -> None:
    """The old process finishes what it has while the new one takes the next ones."""
    rig.begin()
    pid = rig.up()
    rig.start("standard")
    streams = rig.answers(3, 3000)
    rig.act("restart-endpoint")
    rig.wait(lambda: rig.operation("endpoint-restart")["state"] == "done", "the hand-over")
    streams += rig.answers(1, 100)
    rig.finish(streams)
    rig.wait(lambda: not alive(pid), "the old one to leave")
    assert rig.endpoint()["pid"] != pid


def test_a_stop_lets_the_endpoints_answers_finish_and_sends_nothing_new(rig: RealRig) -> None:
    """By the gate: what runs ends by itself, what comes meanwhile is told why it must wait."""
    rig.begin()
    rig.up()
    rig.start("standard")
    streams = rig.answers(2, 3000)
    assert "accepted" in rig.act("stop", group="standard", drain_seconds=60.0)
    rig.wait(lambda: rig.state("standard") == "draining", "the drain")
    late = Answer(rig.address, 10)
    rig.finish(streams)
    rig.until("standard", "off")
    late.join(60)
    assert not late.complete
    done = rig.operation("stop")
    assert (done["state"], done["figures"]["drain_seconds"] > 0) == ("done", True)


def test_an_abort_by_a_person_ends_one_stream_and_no_other(rig: RealRig) -> None:
    """The id is the one that the snapshot shows."""
    rig.begin()
    rig.up()
    rig.start("standard")
    streams = rig.answers(2, 20_000)

    def running() -> list[str]:
        rows = rig.endpoint()["rows"]["sessions"]
        return [each["request"] for each in rows if each["request"]]

    rig.wait(lambda: len(running()) == 2, "both rows")
    rig.act("abort", request=running()[0])
    rig.wait(lambda: rig.operation("abort")["state"] == "done", "the abort")
    rig.wait(lambda: rig.running("standard") == 1, "its slot to be free")
    assert sum(each.is_alive() for each in streams) == 1
    rig.act("abort", request="rig-00000000-00000001")
    rig.wait(lambda: rig.operation("abort")["state"] == "failed", "the second one")
