"""What the rig writes about itself: counted, placed, and with the next step."""

from __future__ import annotations

import pytest
from support_rig import Rig

from rigctl.core.commands import SetPowerLimit, StopDaemon, StopGroup
from rigctl.core.facts import PowerLimitSet, Resumed
from rigctl.core.ids import GroupName, OperationId
from rigctl.core.orders import LimitPower
from rigctl.core.plural import answers

LONG = GroupName("long")


def test_one_answer_is_not_many() -> None:
    """Sentences count as people do, also where the engine tells a fraction of a float."""
    assert answers(1.0, "waits", "wait") == "1 answer waits"
    assert answers(0.0, "waits", "wait") == "0 answers wait"
    rig = Rig()
    rig.start("long")
    rig.sample("long", active=1.0)
    number = rig.accepted(StopGroup(LONG))
    assert rig.operation(number).say.startswith("drains, 1 answer runs, ")


def _set(rig: Rig, number: int) -> None:
    for order in rig.of(LimitPower):
        rig.feed(PowerLimitSet(OperationId(number), order.card, order.watts, ""))


def test_a_set_limit_says_where() -> None:
    """The journal names the one card, or how many of a group."""
    rig = Rig()
    uuid = rig.group("long").spec.cards[1]
    _set(rig, rig.accepted(SetPowerLimit(None, 250.0, uuid)))
    assert "limit 250 W on card 5" in rig.said()
    rig.orders.clear()
    _set(rig, rig.accepted(SetPowerLimit(LONG, 280.0)))
    assert "limit 280 W on 4 cards" in rig.said()


@pytest.mark.case("C91")
def test_a_resume_says_what_to_do_if_cuda_is_broken() -> None:
    """Engines survive as processes while every CUDA call may fail: the ways out are written."""
    rig = Rig()
    rig.feed(Resumed(28_800.0))
    assert "slept for 480 min" in rig.said()
    assert "rigctl restart GROUP" in rig.said()
    assert "nvidia_uvm" in rig.said()


def test_a_daemon_that_ends_says_what_goes_on() -> None:
    """Engines outlive it; where none runs, none is said to. With engines it is not ended at all."""
    rig = Rig()
    assert rig.operation(rig.accepted(StopDaemon())).say == "no engine runs"
    rig.start("long")
    assert rig.operation(rig.accepted(StopDaemon())).say == "engines go on"
    assert "rigctl stop GROUP" in rig.refused(StopDaemon(stop_engines=True)).say
