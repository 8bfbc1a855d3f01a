"""Every accepted command comes to an end, whatever other commands and accidents meet it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support_rig import GIB, Card, Rig, identity

from rigctl.core.cards import CardProcess
from rigctl.core.commands import (
    FreeGroup,
    ReclaimGroup,
    ReleaseNvml,
    RestartGroup,
    SetSleepOnIdle,
    StartGroup,
    StopGroup,
)
from rigctl.core.engine_states import Draining, Engine, Off, Ready, Stopping
from rigctl.core.facts import DaemonBegan, EngineReady, HolderGone
from rigctl.core.ids import GroupName, Mono
from rigctl.core.orders import SpawnEngine
from rigctl.core.state import with_group

LONG = GroupName("long")


def test_a_restart_of_what_is_off_ends_when_it_serves() -> None:
    """`restart` of a stopped group is a start, and its outcome is told like one."""
    rig = Rig()
    number = rig.accepted(RestartGroup(LONG))
    process = rig.spawn("long")
    rig.occupy("long", process)
    rig.feed(EngineReady(LONG, process))
    assert rig.operation(number).state == "done"


def test_a_free_ends_when_its_holder_dies_while_it_drains() -> None:
    """ctrl+c in `rigctl lend` during the drain: the engine stays, and the free is cancelled."""
    rig = Rig()
    rig.start("long")
    rig.sample("long", active=2.0)
    number = rig.accepted(FreeGroup(LONG, "train", holder_pid=500), identity(500))
    rig.feed(HolderGone(LONG, identity(500)))
    assert isinstance(rig.engine("long"), Ready)
    assert rig.operation(number).state == "cancelled"
    assert "ended" in rig.operation(number).say


def test_a_stop_hurries_a_free_and_does_not_undo_it() -> None:
    """`stop --drain 0` while a free drains: the cards are lent as asked, with their end."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=2.0)
    number = rig.accepted(FreeGroup(LONG, "train", for_seconds=60.0))
    stop = rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    assert isinstance(rig.engine("long"), Stopping)
    rig.vanish("long", process)
    assert rig.operation(number).state == "done"
    assert rig.operation(stop).state == "done"
    lease = rig.group("long").lease
    assert lease is not None
    assert lease.until is not None


@pytest.mark.parametrize("lent", [True, False])
def test_a_sleep_toggle_does_not_bring_back_what_is_leaving(lent: bool) -> None:
    """While a free or a stop drains, the wish is noted for the next start and no more."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=2.0)
    asked = FreeGroup(LONG, "train") if lent else StopGroup(LONG)
    number = rig.accepted(asked)
    toggle = rig.accepted(SetSleepOnIdle(LONG, on=True))
    assert rig.operation(toggle).state == "done"
    assert "next start" in rig.operation(toggle).say
    rig.sample("long", active=0.0)
    rig.sample("long", active=0.0)
    rig.vanish("long", process)
    assert isinstance(rig.engine("long"), Off)
    assert rig.operation(number).state == "done"
    assert len(rig.of(SpawnEngine)) == 1


def test_a_second_sleep_toggle_takes_the_place_of_the_first() -> None:
    """A toggle back while the first still measures: that one ends, and says why."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=0.0)
    first = rig.accepted(SetSleepOnIdle(LONG, on=True))
    rig.sample("long", active=0.0)
    rig.vanish("long", process)
    rig.tick(11.0)
    again = rig.spawn("long")
    rig.occupy("long", again)
    rig.feed(EngineReady(LONG, again))
    assert rig.operation(first).running
    rig.accepted(SetSleepOnIdle(LONG, on=True, restart=False))
    rig.accepted(RestartGroup(LONG))
    assert rig.operation(first).state == "cancelled"
    second = rig.accepted(SetSleepOnIdle(LONG, on=False))
    assert rig.operation(second).state == "done", "the restart under way takes the wish along"


@pytest.mark.case("C64")
def test_a_stop_whose_memory_never_comes_back_is_partly_done() -> None:
    """Done means no process left and the cards free: 22 GiB of nobody are not that."""
    rig = Rig()
    process = rig.start("long")
    number = rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    rig.exit("long", process, 0)
    rig.members("long", process, ())
    for index in range(4, 8):
        rig.cards[index] = Card(9 * GIB, ())
    rig.sweep()
    rig.tick(61.0)
    assert rig.operation(number).state == "partly"
    assert "9.0 GiB" in rig.operation(number).say


def test_a_stop_is_done_though_a_stranger_holds_a_card() -> None:
    """Somebody else's memory is not ours to free."""
    rig = Rig()
    process = rig.start("long")
    number = rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    rig.exit("long", process, 0)
    rig.members("long", process, ())
    rig.release("long")
    rig.cards[5] = Card(9 * GIB, (CardProcess(9001, 9 * GIB, "train.py", "ben"),))
    rig.sweep()
    assert rig.operation(number).state == "done"


def test_what_only_the_old_daemon_could_finish_ends_with_it() -> None:
    """A pause of NVML dies with its daemon: its operation is not left open for ever."""
    rig = Rig()
    number = rig.accepted(ReleaseNvml(60.0))
    assert rig.operation(number).running
    rig.feed(DaemonBegan(first=False))
    assert rig.operation(number).state == "cancelled"
    assert "daemon" in rig.operation(number).say


def test_a_start_asked_before_the_daemon_died_is_not_called_off() -> None:
    """Found Off and wanted, before the daemon has taken it up: still on its way."""
    rig = Rig()
    number = rig.accepted(StartGroup(LONG))
    group = rig.group("long")
    found = replace(group, engine=Engine(Off(Mono(rig.now), "not running")))
    rig.state = with_group(rig.state, found)
    rig.sweep()
    assert rig.operation(number).running
    rig.feed(DaemonBegan(first=False))
    process = rig.spawn("long")
    rig.occupy("long", process)
    rig.feed(EngineReady(LONG, process))
    assert rig.operation(number).state == "done"


def test_a_cancelled_drain_keeps_the_uptime() -> None:
    """The engine never stopped serving: it has been ready since it first was."""
    rig = Rig()
    rig.start("long")
    began = rig.engine("long").since
    rig.sample("long", active=2.0)
    rig.tick(50.0)
    rig.accepted(FreeGroup(LONG, "train"))
    assert isinstance(rig.engine("long"), Draining)
    rig.tick(5.0)
    rig.accepted(ReclaimGroup(LONG))
    assert rig.engine("long").since == began
