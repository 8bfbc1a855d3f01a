"""While the rebuilt state waits for a person, nothing is started, signalled or ended by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support_rig import Rig, identity

from rigctl.core.commands import ConfirmState, FreeGroup, LendStarted
from rigctl.core.engine_states import (
    BackingOff,
    Engine,
    Loading,
    Off,
)
from rigctl.core.facts import (
    DaemonBegan,
    EngineSpawned,
    EngineWatched,
    HolderGone,
    LogRead,
    TroubleSeen,
)
from rigctl.core.ids import GroupName, Mono
from rigctl.core.log_facts import Fault, Trouble
from rigctl.core.orders import AbortAnswers, EndWorker, Order, SignalMain, SignalWhole, SpawnEngine
from rigctl.core.phases import begin
from rigctl.core.state import next_wake, with_group

LONG = GroupName("long")
ACTS = (SpawnEngine, SignalMain, SignalWhole, EndWorker, AbortAnswers)


def acts(rig: Rig) -> list[Order]:
    return [each for each in rig.orders if isinstance(each, ACTS)]


def unconfirmed(rig: Rig) -> Rig:
    """As a daemon finds itself after an unreadable state file."""
    rig.state = replace(rig.state, confirmed=False)
    rig.orders.clear()
    return rig


def loading(rig: Rig) -> int:
    """An engine found by its token, taken for one that loads."""
    process = identity(4000)
    group = rig.group("long")
    found = replace(
        group,
        engine=Engine(Loading(Mono(rig.now), process)),
        startup=begin(rig.now, 4),
        wanted=True,
    )
    rig.state = with_group(rig.state, found)
    return process.pid


@pytest.mark.case("C68")
def test_a_silent_start_is_not_ended() -> None:
    """An hour without a line: it may be a healthy engine whose log began long ago."""
    rig = unconfirmed(Rig())
    process = identity(loading(rig))
    for _ in range(60):
        rig.tick(60.0)
        rig.feed(EngineWatched(LONG, process, (process.pid,), ("python",), cpu_seconds=0.0))
    rig.feed(LogRead(LONG, (Fault(Trouble.PORT, "[Errno 98]", True),), 10))
    assert isinstance(rig.engine("long"), Loading)
    assert not acts(rig)


@pytest.mark.case("C68")
def test_leftovers_of_an_engine_that_died_are_left_alone() -> None:
    """Its main process ends by itself; its children are somebody's to look at first."""
    rig = Rig()
    process = rig.start("long")
    unconfirmed(rig)
    rig.exit("long", process, 1, "boom")
    for _ in range(10):
        rig.tick(60.0)
        rig.members("long", process, (process.pid + 1,))
    assert not acts(rig)
    due = next_wake(rig.state, Mono(rig.now))
    assert due is None or due > rig.now, "no timer may spin the loop meanwhile"
    rig.accepted(ConfirmState())
    rig.tick(4.0)
    assert set(rig.killed()) == {process.pid}


@pytest.mark.case("C68")
def test_back_off_and_the_end_of_a_lease_wait_too() -> None:
    """Neither a timer nor a lease acts in a rig that nobody has looked at."""
    rig = Rig()
    process = rig.start("long")
    rig.accepted(FreeGroup(LONG, "train", for_seconds=60.0, holder_pid=500), identity(500))
    rig.sample("long", active=0.0)
    rig.sample("long", active=0.0)
    rig.vanish("long", process)
    rig.accepted(LendStarted(LONG, 501, kill_at_end=True), identity(501))
    standard = rig.group("standard")
    backing = BackingOff(Mono(rig.now), Mono(rig.now + 5), 1, "boom")
    rig.state = with_group(rig.state, replace(standard, engine=Engine(backing), wanted=True))
    unconfirmed(rig)
    rig.tick(100.0)
    rig.feed(HolderGone(LONG, identity(500)))
    rig.tick(100.0)
    assert not acts(rig)
    due = next_wake(rig.state, Mono(rig.now))
    assert due is None or due > rig.now


@pytest.mark.case("C68")
def test_a_drain_that_was_under_way_does_not_end_in_a_signal() -> None:
    """Nothing in flight twice would end it; not before a person has looked."""
    rig = Rig()
    rig.start("long")
    rig.accepted(FreeGroup(LONG, "train"))
    unconfirmed(rig)
    for _ in range(3):
        rig.sample("long", active=0.0)
    rig.tick(500.0)
    assert not acts(rig)


@pytest.mark.case("C68")
def test_confirming_takes_up_what_was_wanted_and_ends_the_notice() -> None:
    """One look and one word: the rig goes on as it was wanted."""
    rig = unconfirmed(Rig())
    rig.feed(TroubleSeen("state-unreadable", "is empty", "error"))
    group = rig.group("long")
    rig.state = with_group(rig.state, replace(group, wanted=True))
    rig.feed(DaemonBegan(first=False))
    assert isinstance(rig.engine("long"), Off)
    rig.accepted(ConfirmState())
    assert rig.of(SpawnEngine)
    assert not rig.state.troubles


def test_a_spawn_in_flight_is_still_followed() -> None:
    """What lives is always followed, confirmed or not."""
    rig = Rig()
    from rigctl.core.commands import StartGroup

    rig.accepted(StartGroup(LONG))
    rig.state = replace(rig.state, confirmed=False)
    rig.feed(EngineSpawned(LONG, identity(4000), ("sglang",), ()))
    assert isinstance(rig.engine("long"), Loading)
