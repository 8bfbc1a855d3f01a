"""A log that says the same fault for ever fills neither the journal nor the loop (C68)."""

from __future__ import annotations

import pytest
from support_rig import Rig

from rigctl.core.facts import LogRead
from rigctl.core.ids import GroupName
from rigctl.core.log_facts import Fault, LogFact, Trouble

LONG = GroupName("long")


def faults(count: int, say: str = "MQLLMEngine is already dead") -> tuple[LogFact, ...]:
    return tuple(Fault(Trouble.SCHEDULER_DIED, say, False) for _ in range(count))


@pytest.mark.case("C68")
def test_the_same_fault_is_journalled_once_a_minute_with_its_count() -> None:
    """20 000 lines a second: one entry, then one a minute that says how many there were."""
    rig = Rig()
    rig.start("long")
    rig.orders.clear()
    for _ in range(50):
        rig.tick(1.0)
        rig.feed(LogRead(LONG, faults(2000), 100_000))
    assert rig.kinds().count("engine-fault") == 1
    rig.tick(30.0)
    rig.feed(LogRead(LONG, faults(1), 50))
    assert rig.kinds().count("engine-fault") == 2
    assert "already dead" in rig.said()


@pytest.mark.case("C68")
def test_faults_that_differ_in_a_number_do_not_flood_either() -> None:
    """Each line another pid: the first few are told, the rest is counted."""
    rig = Rig()
    rig.start("long")
    rig.orders.clear()
    for look in range(50):
        rig.tick(1.0)
        says = [f"child {look} {number} died" for number in range(100)]
        rig.feed(LogRead(LONG, tuple(each for say in says for each in faults(1, say)), 100_000))
    assert rig.kinds().count("engine-fault") <= 6
    assert "more" in rig.said()


def test_a_single_fault_is_journalled_as_it_is() -> None:
    """What happens once reads as it was written."""
    rig = Rig()
    rig.start("long")
    rig.orders.clear()
    rig.feed(LogRead(LONG, faults(1, "Xid 79"), 10))
    assert rig.said().splitlines()[-1] == "Xid 79"
