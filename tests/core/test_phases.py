"""A start is followed by its log, estimated from the last one, given up only when still."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigctl.core.log_facts import Capacity, Milestone, Step
from rigctl.core.phases import (
    GRAPHS,
    INIT,
    NCCL,
    PHASES,
    WARM_UP,
    WEIGHTS,
    PhasePolicy,
    Start,
    begin,
    durations,
    estimate,
    missing_ranks,
    observe,
    phase,
    phases,
    progressed,
    ready,
    say,
    stuck,
)
from rigctl.core.reading import NOT_YET
from rigctl.parse.sglang_log import parse_lines

LOGS = Path(__file__).parents[1] / "data" / "logs"
POLICY = PhasePolicy(quiet=600.0, nccl_quiet=300.0)
USUAL = {INIT: 10.0, NCCL: 8.0, WEIGHTS: 21.0, "kv pool": 2.0, GRAPHS: 30.0, WARM_UP: 5.0}


def through(start: Start, step: Step, now: float, ranks: range = range(4)) -> Start:
    """Those ranks pass the milestone."""
    for rank in ranks:
        start = observe(start, Milestone(step, rank), now)
    return start


@pytest.mark.parametrize(("log", "ranks"), [("run-cpu.log", 1), ("run-cpu-tp2.log", 2)])
def test_a_recorded_start_passes_every_phase(log: str, ranks: int) -> None:
    """A real start goes through its phases in order, ends ready, and its lengths are kept."""
    start, seen = begin(0.0, ranks), []
    for now, fact in enumerate(parse_lines((LOGS / log).read_text().splitlines())):
        start = observe(start, fact, float(now))
        if not ready(start) and (not seen or seen[-1] != phase(start)):
            seen.append(phase(start))
    # Without graphs to capture that phase may have no length of its own.
    assert seen == [name for name in PHASES if name in seen]
    assert set(PHASES) - set(seen) <= {GRAPHS}
    assert ready(start)
    assert set(durations(start)) == set(PHASES)
    assert all(each.done for each in phases(start, 1000.0))
    assert sum(durations(start).values()) == start.entered[-1]


def test_a_phase_shows_its_length_so_far_and_the_usual_one() -> None:
    """Done phases keep their length, the present one grows, later ones stand at 0."""
    start = observe(begin(100.0, 4, USUAL), Milestone(Step.ARGUMENTS), 101.0)
    start = through(start, Step.NCCL_BEGUN, 112.0)
    shown = phases(start, 115.0)
    assert [(each.name, each.seconds, each.done) for each in shown[:3]] == [
        (INIT, 12.0, True),
        (NCCL, 3.0, False),
        (WEIGHTS, 0.0, False),
    ]
    assert shown[1].usual == 8.0
    assert phases(begin(0.0, 4), 1.0)[0].usual == NOT_YET


def test_the_estimate_is_what_the_last_start_still_took() -> None:
    """Phases to come count whole, the present one its rest, an overrun nothing; unknown is said."""
    start = through(begin(0.0, 4, USUAL), Step.NCCL_BEGUN, 12.0)
    assert estimate(start, 15.0) == 5 + 21 + 2 + 30 + 5
    assert estimate(start, 500.0) == 21 + 2 + 30 + 5
    assert estimate(begin(0.0, 4), 15.0) == NOT_YET
    start = observe(start, Milestone(Step.FIRED_UP), 20.0)
    assert estimate(start, 21.0) == 0


def test_the_slowest_rank_is_the_start() -> None:
    """Three of four ranks that are further do not bring the start further."""
    start = through(begin(0.0, 4), Step.NCCL_BEGUN, 10.0)
    start = through(start, Step.NCCL_ENDED, 12.0, range(3))
    assert phase(start) == NCCL
    assert missing_ranks(start) == (3,)
    start = through(start, Step.NCCL_ENDED, 13.0)
    assert phase(start) == WEIGHTS
    assert missing_ranks(start) == ()


def test_a_draft_model_does_not_lead_back() -> None:
    """Its weights load after the graphs of the target: the start stays where it was."""
    start = through(begin(0.0, 4), Step.POOL_MADE, 30.0)
    start = through(start, Step.WEIGHTS_BEGUN, 60.0)
    assert phase(start) == GRAPHS
    start = observe(start, Capacity(800_000.0), 70.0)
    assert phase(start) == WARM_UP


@pytest.mark.case("C61")
def test_stuck_in_nccl_names_who_is_missing_and_what_to_try() -> None:
    """All schedulers spin at full CPU and the log is silent: phase, usual, missing rank, hint."""
    start = through(begin(0.0, 4, USUAL), Step.NCCL_BEGUN, 10.0)
    start = through(start, Step.NCCL_ENDED, 12.0, range(2))
    start = observe(start, Milestone(Step.NCCL_ENDED, 3), 12.0)
    now = 12.0
    while stuck(start, now, POLICY) is None:
        now += 1.0
        start = progressed(start, 5000.0, 4 * now, now, POLICY)
        assert now < 400
    found = stuck(start, now, POLICY)
    assert found is not None
    assert found.phase == NCCL
    assert found.quiet > POLICY.nccl_quiet
    assert found.say == (
        f"NCCL init {int(now - 10) // 60}:{int(now - 10) % 60:02} (usual 0:08), TP2 has not "
        "arrived; NCCL_P2P_DISABLE=1 set? ACS or IOMMU on?"
    )
    assert say(start, 140.0).startswith("NCCL init 2:10 (usual 0:08)")


@pytest.mark.case("C61")
def test_nccl_init_of_usual_length_has_no_hint() -> None:
    """Eight seconds are what it takes: nothing to suspect yet."""
    start = through(begin(0.0, 4, USUAL), Step.NCCL_BEGUN, 10.0)
    assert say(start, 19.0) == "NCCL init 0:09 (usual 0:08)"


@pytest.mark.case("C61")
def test_words_of_nccl_keep_it_alive() -> None:
    """While NCCL writes to the log it is not stuck, though its CPU time proves nothing."""
    start = through(begin(0.0, 4), Step.NCCL_BEGUN, 10.0)
    for minute in range(1, 30):
        now = 60.0 * minute
        start = progressed(start, 1000.0 * minute, 4 * now, now, POLICY)
        assert stuck(start, now, POLICY) is None


@pytest.mark.case("C62")
def test_a_long_capture_with_only_a_progress_bar_is_healthy() -> None:
    """22 minutes of `\\r` progress: the log grows without a line, so the start goes on."""
    start = through(begin(0.0, 4, USUAL), Step.POOL_MADE, 40.0)
    start = observe(start, Milestone(Step.GRAPHS_BEGUN, 0), 41.0)
    for look in range(134):
        now = 41.0 + 10.0 * look
        start = progressed(start, 100.0 * look, NOT_YET, now, POLICY)
        assert stuck(start, now, POLICY) is None
    assert say(start, 41.0 + 1334) == "graphs 22:15 (usual 0:30)"


@pytest.mark.case("C62")
def test_a_silent_compiler_is_healthy_while_it_computes() -> None:
    """45 minutes without a byte, but the CPU works: that is progress outside of NCCL."""
    start = through(begin(0.0, 4), Step.POOL_MADE, 40.0)
    for minute in range(1, 46):
        now = 40.0 + 60.0 * minute
        start = progressed(start, 10.0, 40.0 * minute, now, POLICY)
        assert stuck(start, now, POLICY) is None


def test_neither_bytes_nor_cpu_is_stuck() -> None:
    """A start that neither prints nor computes ends its patience; idling threads are no work."""
    start = through(begin(0.0, 4), Step.WEIGHTS_BEGUN, 40.0)
    for look in range(1, 70):
        now = 40.0 + 10.0 * look
        start = progressed(start, 10.0, 0.5 * look, now, POLICY)
    found = stuck(start, now, POLICY)
    assert found is not None
    assert found.phase == WEIGHTS


def test_a_ready_engine_is_never_stuck() -> None:
    """Once fired up the start is over, whatever the log does."""
    start = observe(begin(0.0, 4), Milestone(Step.FIRED_UP), 50.0)
    assert ready(start)
    assert stuck(start, 1e6, POLICY) is None


def test_a_repeated_line_is_no_progress() -> None:
    """The same milestone again moves nothing and does not feed patience."""
    start = through(begin(0.0, 4), Step.NCCL_BEGUN, 10.0)
    assert through(start, Step.NCCL_BEGUN, 900.0) == start
