"""How clusters stand, by evidence that is named: busy is not dead, and no client is to blame."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigctl.core.clusters import Standing
from rigctl.core.evidence import (
    Answered,
    BytesSeen,
    Cancelled,
    ClusterWatch,
    Evidence,
    Looked,
    Refused,
    Reset,
    Silent,
    Slept,
    Told,
    Unanswered,
)
from rigctl.core.ids import GroupName, Mono
from rigctl.core.link_words import Progress, TableGroup
from rigctl.core.standing import observe, standing, watch

READY = TableGroup(
    GroupName("standard"), "127.0.0.1", 30_000, "m", state="ready", gate="open", run="s1"
)
UP, BUSY, SUSPECT, DOWN = Standing.UP, Standing.BUSY, Standing.SUSPECT, Standing.DOWN


class Play:
    """One cluster's watch and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.watch: ClusterWatch = watch("s1", Mono(self.now))

    def see(self, *evidence: Evidence, after: float = 0.0) -> Standing:
        self.now += after
        for each in evidence:
            self.watch = observe(self.watch, each, Mono(self.now))
        return self.stands

    @property
    def stands(self) -> Standing:
        return standing(self.watch, READY, Mono(self.now))[0]

    @property
    def say(self) -> str:
        return standing(self.watch, READY, Mono(self.now))[2]


def test_a_refused_connection_is_down_at_once_and_up_on_the_first_good_look() -> None:
    """Nobody listens: no second proof is needed, nor for the way back."""
    play = Play()
    assert play.see(Refused("connection refused on 127.0.0.1:30000")) is DOWN
    assert "30000" in play.say
    assert play.see(Unanswered(), after=5) is DOWN
    assert play.see(Looked(age=1.0, running=0.0), after=5) is UP


def test_one_reset_is_suspect_two_within_a_minute_are_down() -> None:
    """One may be a crash of one request; two are not."""
    play = Play()
    assert play.see(Reset("connection reset")) is SUSPECT
    assert play.see(Looked(age=0.1), after=5) is SUSPECT
    assert play.see(Looked(age=0.1), after=5) is UP
    assert play.see(Reset("connection reset"), after=61) is SUSPECT
    assert play.see(Reset("connection reset"), after=20) is DOWN
    assert "second time" in play.say
    assert play.see(Looked(age=0.1), after=5) is SUSPECT
    assert play.see(Looked(age=0.1), after=5) is UP


def test_a_good_answer_lifts_a_suspicion() -> None:
    """Work done is better proof than any look."""
    play = Play()
    play.see(Reset("connection reset"))
    assert play.see(Answered(200), after=1) is UP


@pytest.mark.case("C47")
@pytest.mark.parametrize(
    "evidence",
    [
        *(Answered(status) for status in (400, 401, 404, 413, 422, 429, 499)),
        Answered(503, queue_full=True),
        Cancelled(),
    ],
)
def test_what_clients_do_never_counts_against_a_cluster(evidence: Evidence) -> None:
    """Too long, unknown paths, cancelled, a full queue: fifty in a second change nothing."""
    play = Play()
    assert play.see(*[evidence] * 50) is UP
    play.see(Reset("connection reset"))
    assert play.see(*[evidence] * 50) is SUSPECT


def test_server_errors_are_suspect_from_the_second_on_and_never_down() -> None:
    """It answers; a good answer between them forgives the first."""
    play = Play()
    assert play.see(Answered(500, say="CUDA error")) is UP
    assert play.see(Answered(200), Answered(500)) is UP
    assert play.see(*[Answered(500, say="CUDA error")] * 9) is SUSPECT
    assert "CUDA error" in play.say


@pytest.mark.case("C05")
@pytest.mark.parametrize("daemon", [True, False])
def test_a_long_prefill_is_busy_however_silent_its_streams(daemon: bool) -> None:
    """136 s without a byte, one new stream without a header; with the daemon's word or without."""
    play = Play()
    play.see(BytesSeen(), Silent(0.0, 2), Looked(age=0.1, running=5.0))
    left = 125_000.0
    for second in range(1, 137):
        evidence: list[Evidence] = [Silent(float(second), 2)]
        if second % 4 == 0:
            left -= 3_600
        if daemon:
            told = Progress(READY.name, "stalled", left, left / 900, 900.0, float(second % 4))
            evidence.append(Told(told))
        if second % 5 == 0:
            age = float(second % 4)
            evidence.append(Looked(age=age, running=5.0, waiting_tokens=left))
        stands = play.see(*evidence, after=1)
        assert stands is BUSY or (second < 5 and stands is UP)
    assert "tokens left" in play.say
    assert ("about" in play.say) == daemon
    play.see(BytesSeen(), Looked(age=0.1, running=6.0, waiting_tokens=0.0), after=1)
    play.see(Told(Progress(READY.name, "decoding", moved=0.1)))
    assert play.stands is UP


@pytest.mark.case("C07")
def test_an_engine_that_only_answers_looks_is_suspect_then_down_and_comes_back() -> None:
    """Counters frozen with work there: a mere answer does not make it alive, progress does."""
    play = Play()
    published = play.now
    seen = []
    for second in range(5, 121, 5):
        look = Looked(age=play.now + 5 - published, running=6.0, queued=14.0, waiting_tokens=0.0)
        seen.append((second, play.see(Silent(float(second), 6), look, after=5)))
    assert [at for at, stands in seen if stands is UP] == list(range(5, 30, 5))
    assert [at for at, stands in seen if stands is SUSPECT] == list(range(30, 80, 5))
    assert seen[-1][1] is DOWN
    assert "no counter moved" in play.say
    assert play.see(BytesSeen(), after=1) is UP


def test_an_idle_cluster_that_publishes_nothing_is_up() -> None:
    """Silence without work is no silence."""
    play = Play()
    for _ in range(100):
        assert play.see(Silent(0.0, 0), Looked(age=500.0, running=0.0), after=5) is UP


def test_looks_that_are_not_answered_count_only_in_a_row() -> None:
    """Two are suspect, six are down; bytes of a stream say that it lives."""
    play = Play()
    assert play.see(Unanswered("no answer in 2 s"), after=5) is UP
    assert play.see(BytesSeen(), Unanswered("no answer in 2 s"), after=5) is UP
    assert play.see(Unanswered("no answer in 2 s"), after=5) is SUSPECT
    assert "2 times" in play.say
    for _ in range(4):
        play.see(Unanswered("no answer in 2 s"), after=5)
    assert play.stands is DOWN
    assert play.see(Looked(age=0.1), after=5) is UP


def test_hung_and_broken_by_the_engines_own_counters() -> None:
    """The daemon sees processes and counters; its word narrows at once, progress widens again."""
    play = Play()
    assert play.see(Silent(1.0, 1), Told(Progress(READY.name, "hung"))) is SUSPECT
    assert play.see(Looked(age=99.0, running=1.0), after=5) is SUSPECT
    assert play.see(Told(Progress(READY.name, "decoding", moved=0.0)), after=1) is UP
    assert play.see(Told(Progress(READY.name, "broken"))) is DOWN


@pytest.mark.case("C91")
def test_after_a_suspend_nothing_is_trusted_until_a_look_and_no_silence_counts() -> None:
    """Eight hours without a byte are the machine's sleep."""
    play = Play()
    play.see(BytesSeen(), Silent(0.0, 3), Looked(age=0.1, running=3.0))
    assert play.see(Slept(), after=28_800) is SUSPECT
    assert "slept" in play.say
    assert play.watch.untried
    assert play.see(Silent(1.0, 3)) is SUSPECT
    assert play.see(Looked(age=0.1, running=3.0), after=1) is UP
    assert not play.watch.untried


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": "off"}, Standing.OFF),
        ({"state": "failed"}, Standing.OFF),
        ({"state": "backing_off"}, Standing.DOWN),
        ({"state": "starting"}, Standing.STARTING),
        ({"state": "draining"}, Standing.DRAINING),
        ({"state": "stopping"}, Standing.DRAINING),
        ({"gate": "finish"}, Standing.DRAINING),
        ({"state": "off", "lent": True}, Standing.LENT),
    ],
)
def test_own_evidence_never_widens_the_table(
    changes: dict[str, object], expected: Standing
) -> None:
    """Bytes and answers of a cluster that the daemon has closed open nothing, and it says why."""
    play = Play()
    play.see(BytesSeen(), Answered(200), Looked(age=0.1))
    row = replace(READY, say="the reason", **changes)  # type: ignore[arg-type]
    assert standing(play.watch, row, Mono(play.now)) == (expected, None, "the reason")
    assert standing(play.watch, None, Mono(play.now))[0] is Standing.OFF


def test_another_start_of_the_engine_begins_with_a_clean_sheet() -> None:
    """What the last one did is not held against it; the same start keeps its own."""
    play = Play()
    play.see(Refused("refused"))
    assert watch("s1", Mono(play.now), play.watch) is play.watch
    row = replace(READY, run="s2")
    assert standing(play.watch, row, Mono(play.now))[0] is UP
    assert watch("s2", Mono(play.now), play.watch).verdict is UP


def test_slowed_is_shown_and_the_daemons_word_goes_stale() -> None:
    """Without fresh word the proxy's own looks tell."""
    play = Play()
    assert play.see(Told(Progress(READY.name, "slowed", moved=0.0))) is Standing.SLOWED
    play.now += 10
    assert play.stands is UP
