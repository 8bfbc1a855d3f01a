"""Free, lend, reclaim: four cards without breaking an answer, and back."""

from __future__ import annotations

import pytest
from support_rig import GIB, MIB, Card, Rig, identity

from rigctl.core.cards import CardProcess
from rigctl.core.commands import (
    FreeGroup,
    LendStarted,
    ReclaimGroup,
    SetSleepOnIdle,
    StartGroup,
)
from rigctl.core.engine_states import (
    Draining,
    Failed,
    Loading,
    Off,
    Ready,
    Stopping,
    Waiting,
)
from rigctl.core.facts import EngineReady, HolderGone, Ticked
from rigctl.core.ids import GroupName, Mono
from rigctl.core.orders import EndWorker, LookNow, SignalMain, SpawnEngine, TellPerson
from rigctl.core.state import next_wake
from rigctl.core.view import view

LONG = GroupName("long")


def test_free_drains_stops_verifies_and_lends() -> None:
    """A free is done when NVML shows the cards free, and says how long each stage took."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=2.0)
    number = rig.accepted(FreeGroup(LONG, "training", for_seconds=7200.0))
    assert isinstance(rig.engine("long"), Draining)
    assert "2 answers" in rig.operation(number).say

    rig.tick(5.0)
    rig.sample("long", active=0.0)
    assert isinstance(rig.engine("long"), Draining), "one quiet poll can be a gap"
    rig.tick(1.0)
    rig.sample("long", active=0.0)
    assert rig.of(SignalMain)[-1].number == 15
    rig.tick(6.0)
    rig.exit("long", process, 0)
    rig.members("long", process, ())
    assert rig.operation(number).state == "running", "a process gone is not a card freed (C64)"
    rig.tick(2.0)
    rig.release("long")

    done = rig.operation(number)
    assert done.state == "done"
    assert done.say.startswith("4 of 4 cards free, 96.0 GiB")
    assert done.figures["drain_seconds"] == pytest.approx(6.0)
    assert done.figures["engine_exit_seconds"] == pytest.approx(6.0)
    assert done.figures["release_seconds"] == pytest.approx(2.0)
    lease = rig.group("long").lease
    assert lease is not None
    assert lease.until == pytest.approx(rig.state.wall + 7200.0)
    assert rig.refused(StartGroup(LONG)).code == "lent"


def test_an_idle_engine_is_asked_to_leave_at_once() -> None:
    """The sample that just saw nothing in flight counts as the first of two."""
    rig = Rig()
    rig.start("long")
    rig.sample("long", active=0.0)
    rig.accepted(FreeGroup(LONG, "training"))
    rig.sample("long", active=0.0)
    assert isinstance(rig.engine("long"), Stopping)


@pytest.mark.case("C04")
@pytest.mark.parametrize(
    ("processes", "said"),
    [
        (
            (CardProcess(9001, 9.6 * GIB, "python", "ben"),),
            "held by pid 9001 (ben, python), not ours",
        ),
        ((), "held by an unknown process"),
        ((CardProcess(1, 9.6 * GIB, visible=False),), "pid 1 (not visible here: a container?)"),
    ],
)
def test_a_foreign_process_makes_it_three_of_four(
    processes: tuple[CardProcess, ...], said: str
) -> None:
    """Foreign work is named and never signalled; the free ends as `partly`."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=0.0)
    number = rig.accepted(FreeGroup(LONG, "training"))
    rig.sample("long", active=0.0)
    rig.exit("long", process, 0)
    rig.members("long", process, ())
    for index in (4, 6, 7):
        rig.cards[index] = Card()
    rig.cards[5] = Card(9.6 * GIB, processes)
    rig.sweep()
    rig.tick(61.0)

    done = rig.operation(number)
    assert done.state == "partly"
    assert done.say.startswith("3 of 4 free: card 5: 9.6 GiB ")
    assert said in done.say
    signalled = {order.process.pid for order in rig.of(SignalMain)} | set(rig.killed())
    assert signalled <= {process.pid}


@pytest.mark.case("C64")
def test_memory_that_never_comes_back_is_said() -> None:
    """Processes gone, memory still there after the limit: `partly`, with what is held."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=0.0)
    number = rig.accepted(FreeGroup(LONG, "training"))
    rig.sample("long", active=0.0)
    rig.exit("long", process, 0)
    rig.members("long", process, ())
    for index in range(4, 8):
        rig.cards[index] = Card(9 * GIB, ())
    rig.sweep()
    rig.tick(30.0)
    assert "waits for the cards' memory" in rig.operation(number).say
    rig.tick(31.0)
    assert rig.operation(number).state == "partly"
    assert "0 of 4 free" in rig.operation(number).say


@pytest.mark.case("C64")
def test_a_drivers_reserve_is_not_a_leak() -> None:
    """450 MiB for ever is a baseline, not somebody's memory."""
    rig = Rig()
    for index in range(8):
        rig.cards[index] = Card(450 * MIB, ())
    rig.sweep()
    process = rig.start("long")
    rig.sample("long", active=0.0)
    number = rig.accepted(FreeGroup(LONG, "training"))
    rig.sample("long", active=0.0)
    rig.exit("long", process, 0)
    rig.members("long", process, ())
    for index in range(4, 8):
        rig.cards[index] = Card(450 * MIB, ())
    rig.sweep()
    assert rig.operation(number).state == "done"


def test_reclaim_cancels_a_free_that_still_drains() -> None:
    """The engine never stopped, so no answer was broken and no cache lost."""
    rig = Rig()
    rig.start("long")
    rig.sample("long", active=2.0)
    freed = rig.accepted(FreeGroup(LONG, "training"))
    back = rig.accepted(ReclaimGroup(LONG))
    assert isinstance(rig.engine("long"), Ready)
    assert rig.operation(freed).state == "cancelled"
    assert rig.operation(back).state == "done"
    assert rig.group("long").lease is None
    assert not rig.of(SignalMain)


def test_the_hotkeys_second_press_cancels() -> None:
    """`free --notify` pressed again while it drains takes the cards back."""
    rig = Rig()
    rig.start("long")
    rig.sample("long", active=2.0)
    rig.accepted(FreeGroup(LONG, "hotkey", toggle=True))
    rig.accepted(FreeGroup(LONG, "hotkey", toggle=True))
    assert isinstance(rig.engine("long"), Ready)
    assert rig.group("long").lease is None


def test_reclaim_waits_for_the_cards_and_brings_the_engine_back() -> None:
    """An engine never starts until NVML says its cards are free."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=0.0)
    rig.accepted(FreeGroup(LONG, "training"))
    rig.sample("long", active=0.0)
    rig.vanish("long", process)
    rig.cards[5] = Card(20 * GIB, (CardProcess(7000, 20 * GIB, "train.py", "anna"),))
    rig.sweep()
    spawned = len(rig.of(SpawnEngine))
    number = rig.accepted(ReclaimGroup(LONG))
    rig.tick(30.0)
    assert isinstance(rig.engine("long"), Waiting)
    assert "pid 7000 (anna, train.py)" in rig.operation(number).say
    assert len(rig.of(SpawnEngine)) == spawned
    rig.cards[5] = Card()
    rig.sweep()
    assert len(rig.of(SpawnEngine)) == spawned + 1
    again = rig.spawn("long")
    rig.occupy("long", again)
    assert isinstance(rig.engine("long"), Loading)


def _lent(rig: Rig, kill: bool) -> None:
    process = rig.start("long")
    rig.sample("long", active=0.0)
    command = FreeGroup(LONG, "lend: train", for_seconds=60.0, holder_pid=500)
    rig.accepted(command, identity(500))
    rig.sample("long", active=0.0)
    rig.vanish("long", process)
    rig.accepted(LendStarted(LONG, 501, kill), identity(501))


def test_the_cards_come_back_when_lend_and_its_command_have_ended() -> None:
    """A dead terminal ends the lease, but not while the command still runs on the cards."""
    rig = Rig()
    _lent(rig, kill=False)
    rig.feed(HolderGone(LONG, identity(500)))
    assert rig.group("long").lease is not None
    rig.feed(HolderGone(LONG, identity(501)))
    assert rig.group("long").lease is None
    assert isinstance(rig.engine("long"), Waiting | Off) or rig.of(SpawnEngine)


def test_an_overdue_lease_is_warned_about_once_and_not_ended() -> None:
    """`--for` never kills: it warns, says *overdue*, and waits for a person."""
    rig = Rig()
    _lent(rig, kill=False)
    rig.tick(61.0)
    rig.tick(61.0)
    told = [order for order in rig.of(TellPerson) if order.event == "overdue"]
    assert len(told) == 1
    assert rig.group("long").lease is not None
    assert not rig.of(EndWorker)
    snapshot = view(rig.state, Mono(rig.now), (), "0", 1)
    assert snapshot.groups[1].lease is not None
    assert snapshot.groups[1].lease.overdue
    assert any(notice.id == "overdue" for notice in snapshot.notices)


def test_kill_ends_only_what_lend_itself_started() -> None:
    """With `--kill` the end of the lease ends the worker that lend named, and no other."""
    rig = Rig()
    _lent(rig, kill=True)
    rig.tick(61.0)
    ended = [order.process for order in rig.of(EndWorker)]
    assert ended == [identity(501)]
    assert rig.group("long").lease is None


def test_a_past_lease_does_not_spin_the_loop() -> None:
    """Once its warning is given, an overdue lease sets no timer that is due for ever."""
    rig = Rig()
    _lent(rig, kill=False)
    rig.tick(100.0)
    rig.feed(Ticked())
    due = next_wake(rig.state, Mono(rig.now))
    assert due is None or due > rig.now


@pytest.mark.case("C77")
def test_the_sleep_toggle_restarts_one_group_and_measures() -> None:
    """The flag needs a restart; the outcome carries watts and scheduler CPU before and after."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=0.0)
    number = rig.accepted(SetSleepOnIdle(LONG, on=True))
    assert rig.group("long").running_sleep is False
    shown = view(rig.state, Mono(rig.now), (), "0", 1).groups[1]
    assert shown.sleep.say == "on (after restart)"
    rig.sample("long", active=0.0)
    rig.vanish("long", process)
    rig.tick(11.0)
    again = rig.spawn("long")
    rig.occupy("long", again)
    rig.feed(EngineReady(LONG, again))
    rig.sample("long", active=0.0)
    rig.tick(10.0)
    assert rig.operation(number).state == "running"
    rig.tick(11.0)
    rig.sweep()
    done = rig.operation(number)
    assert done.state == "done"
    assert done.figures["watts_before"] == pytest.approx(80.0)
    assert done.figures["watts_after"] == pytest.approx(80.0)
    assert "80 → 80 W idle" in done.say
    assert isinstance(rig.engine("standard"), Off), "the other cluster is not touched"


@pytest.mark.case("C77")
def test_a_busy_engines_watts_are_not_called_a_saving() -> None:
    """Answers ran when the toggle was asked for: no figure of before, and the outcome says why."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=2.0)
    number = rig.accepted(SetSleepOnIdle(LONG, on=True))
    rig.sample("long", active=0.0)
    rig.sample("long", active=0.0)
    rig.vanish("long", process)
    rig.tick(11.0)
    again = rig.spawn("long")
    rig.occupy("long", again)
    rig.feed(EngineReady(LONG, again))
    rig.sample("long", active=0.0)
    rig.tick(21.0)
    rig.sweep()
    done = rig.operation(number)
    assert (done.state, "watts_before" in done.figures) == ("done", False)
    assert done.say.endswith("watts are compared only where it is idle before and after")


def test_failed_group_can_be_freed_at_once() -> None:
    """Nothing runs, so there is nothing to drain."""
    rig = Rig()
    process = rig.start("long")
    rig.exit("long", process, 2, "error: unrecognized arguments: --nope")
    rig.members("long", process, ())
    rig.release("long")
    assert isinstance(rig.engine("long"), Failed)
    number = rig.accepted(FreeGroup(LONG, "training"))
    assert rig.operation(number).state == "done"


def test_the_second_look_of_an_empty_drain_is_taken_at_once() -> None:
    """Nobody waits a polling interval for an engine that does nothing."""
    rig = Rig()
    rig.start("long")
    rig.tick(30.0)
    rig.accepted(FreeGroup(LONG, "training"))
    looks = len(rig.of(LookNow))
    rig.sample("long", active=0.0)
    assert isinstance(rig.engine("long"), Draining)
    assert len(rig.of(LookNow)) == looks + 1
