"""An engine on its way down: what is left over, what may be typed next, and how it ended."""

from __future__ import annotations

import pytest
from support_rig import Rig

from rigctl.core.commands import EndLeftovers, FreeGroup, ReclaimGroup, StartGroup, StopGroup
from rigctl.core.engine_sample import EngineSample
from rigctl.core.engine_states import Ready, Stage, Stopping
from rigctl.core.facts import EngineSampled
from rigctl.core.ids import GroupName, Mono
from rigctl.core.on_engine import count_answers
from rigctl.core.orders import SpawnEngine
from rigctl.core.reading import NOT_YET, Missing
from rigctl.core.view import view

LONG = GroupName("long")


@pytest.mark.case("C01")
def test_leftovers_are_named_and_block_the_next_start() -> None:
    """Main gone, schedulers alive: never `stopped`, never a second engine over their memory."""
    rig = Rig()
    process = rig.start("long")
    rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    rig.exit("long", process, 0)
    leftovers = tuple(process.pid + n for n in range(1, 5))
    rig.members("long", process, leftovers)
    engine = rig.engine("long")
    assert isinstance(engine, Stopping)
    assert engine.stage is Stage.CLEAR
    assert engine.leftovers == leftovers
    rig.accepted(StartGroup(LONG))
    spawned = len(rig.of(SpawnEngine))
    rig.tick(3.5)
    assert process.pid in rig.killed(), "leftovers of its own session are ended"
    rig.members("long", process, leftovers)
    rig.tick(3.5)
    assert len(rig.of(SpawnEngine)) == spawned
    shown = view(rig.state, Mono(rig.now), (), "0", 1).groups[1]
    assert shown.state == "stopping"
    assert shown.leftovers == leftovers


@pytest.mark.case("C58")
def test_a_stop_by_force_says_so() -> None:
    """SIGTERM ignored for its grace: the outcome names the kill, and when."""
    rig = Rig()
    process = rig.start("long")
    number = rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    rig.tick(31.0)
    assert process.pid in rig.killed()
    rig.tick(1.0)
    rig.vanish("long", process, -9)
    assert rig.operation(number).say == "off in 32.0 s, killed after 31 s"


def test_an_engine_that_is_leaving_has_no_leftovers_yet() -> None:
    """Between SIGTERM and its exit all processes are where they belong: none is ended early."""
    rig = Rig()
    process = rig.start("long")
    rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    rig.members("long", process, (process.pid, process.pid + 1))
    assert view(rig.state, Mono(rig.now), (), "0", 1).groups[1].leftovers == ()
    assert rig.refused(EndLeftovers(LONG)).code == "already"
    assert process.pid not in rig.killed()


def test_what_may_be_typed_next_is_a_command_that_does_it() -> None:
    """Each state of an end names a verb that is taken in just that state, and does what it says."""
    rig = Rig()

    def advice() -> str:
        return view(rig.state, Mono(rig.now), (), "0", 1).groups[1].advice

    process = rig.start("long")
    rig.sample("long", active=2.0)
    rig.accepted(FreeGroup(LONG, "training"))
    assert advice() == "rigctl reclaim long keeps it"
    rig.accepted(ReclaimGroup(LONG))
    rig.accepted(StopGroup(LONG))
    assert advice() == "rigctl start long keeps it"
    rig.accepted(StartGroup(LONG))
    assert isinstance(rig.engine("long"), Ready)

    rig.sample("long", active=0.0)
    rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    assert advice() == "rigctl stop long --drain 0 does not wait for it"
    rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    rig.tick(0.0)
    assert process.pid in rig.killed(), "hurried, its session is killed before the grace is over"
    rig.exit("long", process, -9)
    rig.members("long", process, (process.pid + 1,))
    assert advice() == "rigctl leftovers long ends exactly these"
    rig.accepted(EndLeftovers(LONG))


def test_tokens_that_wait_are_not_counted_as_answers() -> None:
    """A prompt of 2,611 tokens in its chunks is one answer that still runs, whoever counts."""
    rig = Rig()
    rig.start("long")
    number = rig.accepted(StopGroup(LONG))
    rig.feed(
        EngineSampled(
            EngineSample(LONG, Mono(rig.now), running=0.0, queued=0.0, waiting_tokens=2611.0)
        )
    )
    assert rig.operation(number).say.startswith("drains, 1 answer")
    assert count_answers(2.0, 1.0, 2611.0) == 3.0
    assert count_answers(0.0, 0.0, 0.0) == 0.0
    assert isinstance(count_answers(0.0, NOT_YET, 0.0), Missing)
