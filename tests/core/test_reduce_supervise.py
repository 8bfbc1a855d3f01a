"""Starts, crashes and their limits: what the daemon does when nobody asked for it."""

from __future__ import annotations

import pytest
from support_rig import Card, Rig, group_spec, rig_state

from rigctl.core.commands import RestartGroup, StartGroup, StopGroup
from rigctl.core.engine_states import BackingOff, Failed, Loading, Off, Ready, Stopping, Waiting
from rigctl.core.facts import (
    EngineSpawnFailed,
    EngineWatched,
    ForeignEngineSeen,
    GroupFound,
    LogRead,
)
from rigctl.core.ids import GroupName, Mono
from rigctl.core.log_facts import Fault, Milestone, Step, Trouble
from rigctl.core.orders import SignalMain, SignalWhole, SpawnEngine, TellPerson
from rigctl.core.view import view

LONG = GroupName("long")
STANDARD = GroupName("standard")


@pytest.mark.case("C08")
def test_exit_zero_that_nobody_asked_for_is_a_crash() -> None:
    """Whatever the code: not requested means crashed, told, and tried again."""
    rig = Rig()
    process = rig.start("long")
    rig.vanish("long", process, 0)
    assert isinstance(rig.engine("long"), BackingOff)
    assert "crashed" in rig.kinds()
    assert "exit 0" in rig.group("long").last_exit
    assert rig.of(TellPerson)[-1].event == "crashed"


@pytest.mark.case("C08")
@pytest.mark.parametrize("code", [137, -9, 143, 0])
def test_an_exit_after_our_own_stop_is_no_crash(code: int) -> None:
    """The reverse: 137 or 143 after a stop is `stopped`."""
    rig = Rig()
    process = rig.start("long")
    rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    rig.vanish("long", process, code)
    assert isinstance(rig.engine("long"), Off)
    assert "crashed" not in rig.kinds()


@pytest.mark.case("C59")
def test_a_crash_loop_ends_in_failed_with_the_engines_own_words() -> None:
    """Three crashes in the window: given up, with count and the first error line."""
    rig = Rig()
    rig.accepted(StartGroup(LONG))
    for crash in range(3):
        rig.tick(70.0)
        rig.sweep()
        process = rig.spawn("long")
        rig.occupy("long", process)
        rig.exit("long", process, 1, "RuntimeError: the fan caught fire")
        rig.members("long", process, ())
        rig.release("long")
        assert rig.group("long").crashes == crash + 1
    assert isinstance(rig.engine("long"), Failed)
    rig.tick(1000.0)
    assert len(rig.of(SpawnEngine)) == 3, "nothing is started again by itself"
    assert "the fan caught fire" in rig.group("long").last_exit
    rig.sweep()
    rig.accepted(StartGroup(LONG))
    assert rig.group("long").crashes == 0, "a person's start begins anew"
    assert len(rig.of(SpawnEngine)) == 4


@pytest.mark.case("C59")
@pytest.mark.case("C14")
def test_a_config_fault_is_not_tried_again() -> None:
    """A flag that the version does not know fails the same way for ever."""
    rig = Rig()
    rig.accepted(StartGroup(LONG))
    process = rig.spawn("long")
    line = "ValueError: invalid literal for int() with base 10: 'GPU-aaaa'"
    rig.exit("long", process, 1, line)
    rig.members("long", process, ())
    rig.release("long")
    assert isinstance(rig.engine("long"), Failed)
    assert "GPU-aaaa" in rig.group("long").last_exit


def test_a_death_names_the_remedy_of_its_cause() -> None:
    """What a crash's own cause advises stands beside it, while it is tried again and after."""
    rig = Rig()

    def advice() -> str:
        return view(rig.state, Mono(rig.now), (), "0", 1).groups[1].advice

    rig.accepted(StartGroup(LONG))
    for _ in range(2):
        rig.tick(70.0)
        rig.sweep()
        process = rig.spawn("long")
        rig.exit("long", process, 1, "torch.OutOfMemoryError: CUDA out of memory.")
        rig.members("long", process, ())
        rig.release("long")
        assert isinstance(rig.engine("long"), BackingOff)
        assert advice() == "rigctl status, to see who holds memory on its cards"
    rig.tick(70.0)
    rig.sweep()
    process = rig.spawn("long")
    rig.exit("long", process, 1, "[Errno 98] address already in use")
    rig.members("long", process, ())
    rig.release("long")
    assert advice() == "ss -ltnp, then rigctl start long"
    rig.accepted(StartGroup(LONG))
    assert "ss -ltnp" not in advice(), "a start by a person forgives the past"


@pytest.mark.case("C11")
def test_a_lost_card_stops_the_restarts_of_its_own_group_only() -> None:
    """No restart of the cluster that lost the card; the other one and its state are untouched."""
    rig = Rig()
    rig.start("standard")
    process = rig.start("long")
    rig.cards[6] = Card(lost="GPU is lost (15)")
    rig.sweep()
    rig.vanish("long", process, 1)
    assert isinstance(rig.engine("long"), Failed)
    assert "lost" in str(rig.engine("long"))
    assert isinstance(rig.engine("standard"), Ready)
    assert [each.event for each in rig.of(TellPerson)].count("card-lost") == 1
    assert "not restarted" in rig.group("long").last_exit


@pytest.mark.case("C11")
def test_a_card_lost_while_its_engine_backs_off_holds_the_next_start() -> None:
    """The crash was seen before its cause: it waits for a reboot, and says so."""
    rig = Rig()
    process = rig.start("long")
    rig.vanish("long", process, 1)
    assert isinstance(rig.engine("long"), BackingOff)
    spawned = len(rig.of(SpawnEngine))
    rig.cards[6] = Card(lost="GPU is lost (15)")
    rig.sweep()
    rig.tick(1000.0)
    assert len(rig.of(SpawnEngine)) == spawned
    shown = view(rig.state, Mono(rig.now), (), "0", 1).groups[1]
    assert shown.advice == "reboot, then rigctl start long"
    assert "GPU is lost" in shown.say


@pytest.mark.case("C11")
@pytest.mark.parametrize("cleared", [False, True])
def test_a_card_seen_lost_after_the_crash_ends_the_retries_too(cleared: bool) -> None:
    """The exit is told before the sweep: it ends in *failed*, not in tries for ever."""
    rig = Rig()
    process = rig.start("long")
    if cleared:
        rig.vanish("long", process, -9)
        assert isinstance(rig.engine("long"), BackingOff)
    else:
        rig.exit("long", process, -9)
    rig.cards[6] = Card(lost="GPU is lost (15)")
    rig.sweep()
    if not cleared:
        rig.members("long", process, ())
        rig.release("long")
    assert isinstance(rig.engine("long"), Failed)
    assert "a reboot brings it back" in str(rig.engine("long"))


@pytest.mark.case("C16")
def test_a_driver_mismatch_blocks_stops_until_insisted_on() -> None:
    """What stops now does not come back before a reboot: said, and only `force` goes on."""
    rig = Rig()
    process = rig.start("long")
    rig.nvml_error = "kernel module 520.56.06, library 525.85.12 - reboot needed"
    rig.sweep()
    refusal = rig.refused(StopGroup(LONG))
    assert refusal.code == "needs-confirmation"
    assert "525.85.12" in refusal.say
    assert isinstance(rig.engine("long"), Ready)
    rig.exit("long", process, 1, "boom")
    assert "not restarted" in rig.group("long").last_exit
    rig.accepted(StopGroup(LONG, force=True))


@pytest.mark.case("C13")
def test_a_missing_card_refuses_the_start_and_spares_the_other_group() -> None:
    """Never the next card instead: the group with all its cards may start."""
    rig = Rig()
    said = "group 'standard': card GPU-..2c is missing"
    rig.feed(GroupFound(STANDARD, rig.group("standard").spec.cards[:3], (said,), (), ()))
    refusal = rig.refused(StartGroup(STANDARD))
    assert said in refusal.say
    rig.accepted(StartGroup(LONG))
    assert rig.of(SpawnEngine)


def test_starts_are_staggered() -> None:
    """Two groups' load peaks do not meet: the second waits its turn, and says so (C09)."""
    rig = Rig()
    rig.accepted(StartGroup(STANDARD))
    number = rig.accepted(StartGroup(LONG))
    assert len(rig.of(SpawnEngine)) == 1
    assert isinstance(rig.engine("long"), Waiting)
    rig.spawn("standard")
    rig.tick(5.0)
    assert "standard" in rig.operation(number).say
    rig.tick(6.0)
    assert len(rig.of(SpawnEngine)) == 2


def test_a_stop_during_load_signals_the_whole_session() -> None:
    """A loading server leaves two of three children behind when only its main is asked."""
    rig = Rig()
    rig.accepted(StartGroup(LONG))
    process = rig.spawn("long")
    rig.accepted(StopGroup(LONG))
    assert [order.number for order in rig.of(SignalWhole)] == [15]
    assert not rig.of(SignalMain)
    rig.vanish("long", process, 143)
    assert isinstance(rig.engine("long"), Off)


def test_a_spawn_that_fails_for_good_is_failed_with_its_reason() -> None:
    """No such program: said at once, not tried for ever."""
    rig = Rig()
    number = rig.accepted(StartGroup(LONG))
    rig.feed(EngineSpawnFailed(LONG, "cannot start sglang: no such program", final=True))
    assert isinstance(rig.engine("long"), Failed)
    assert rig.operation(number).state == "failed"
    assert "no such program" in rig.operation(number).say


def test_a_taken_port_line_ends_the_start() -> None:
    """The real server logs Errno 98 and then hangs with its memory: the line is fatal."""
    rig = Rig()
    rig.accepted(StartGroup(LONG))
    rig.spawn("long")
    fault = Fault(Trouble.PORT, "[Errno 98] error while attempting to bind on address", True)
    rig.feed(LogRead(LONG, (fault,), 100))
    assert isinstance(rig.engine("long"), Stopping)
    assert rig.of(SignalWhole)


@pytest.mark.case("C61")
def test_a_start_stuck_in_nccl_is_ended_with_the_phase_in_words() -> None:
    """Silence at full CPU in NCCL init is no progress; the outcome names the phase."""
    rig = Rig()
    number = rig.accepted(StartGroup(LONG))
    process = rig.spawn("long")
    milestones = (Milestone(Step.ARGUMENTS), *(Milestone(Step.NCCL_BEGUN, n) for n in range(4)))
    rig.feed(LogRead(LONG, milestones, 500))
    for _ in range(32):
        rig.tick(10.0)
        rig.feed(EngineWatched(LONG, process, (process.pid,), ("python",), cpu_seconds=rig.now * 4))
    assert isinstance(rig.engine("long"), Stopping)
    rig.vanish("long", process, -15)
    assert isinstance(rig.engine("long"), Failed)
    assert "NCCL init" in rig.operation(number).say


@pytest.mark.case("C62")
def test_a_long_start_that_moves_is_never_ended() -> None:
    """Forty minutes of graph capture with a growing log stays `starting`."""
    rig = Rig()
    rig.accepted(StartGroup(LONG))
    process = rig.spawn("long")
    rig.feed(LogRead(LONG, tuple(Milestone(Step.GRAPHS_BEGUN, n) for n in range(4)), 500))
    for _ in range(240):
        rig.tick(10.0)
        rig.feed(LogRead(LONG, (), 40))
        rig.feed(EngineWatched(LONG, process, (process.pid,), ("python",), cpu_seconds=0.0))
    assert isinstance(rig.engine("long"), Loading)


@pytest.mark.case("C07")
def test_a_missing_scheduler_is_broken_at_the_first_look() -> None:
    """Health may say 200; three of four schedulers cannot answer."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=3.0)
    titles = "python sglang::scheduler_TP0 sglang::scheduler_TP1 sglang::scheduler_TP3"
    rig.members("long", process, tuple(range(process.pid, process.pid + 4)), titles)
    shown = view(rig.state, Mono(rig.now), (), "0", 1).groups[1]
    assert shown.flow.state == "broken"
    assert "TP2" in shown.flow.say
    assert any(
        notice.id == "broken" for notice in view(rig.state, Mono(rig.now), (), "", 2).notices
    )


def test_a_foreign_server_is_watched_and_never_signalled() -> None:
    """Found on the group's port: shown as running, refused for every act that would end it."""
    rig = Rig()
    command = ("python", "-m", "sglang.launch_server", "--sleep-on-idle")
    rig.feed(ForeignEngineSeen(LONG, 4100, command, True))
    shown = view(rig.state, Mono(rig.now), (), "0", 1).groups[1]
    assert shown.watched
    assert shown.state == "ready"
    assert shown.sleep.running is True
    for asked in (StopGroup(LONG), RestartGroup(LONG)):
        assert rig.refused(asked).code == "foreign"
    assert rig.refused(StartGroup(LONG)).code == "port-taken"
    rig.feed(ForeignEngineSeen(LONG, None))
    rig.accepted(StartGroup(LONG))


@pytest.mark.case("C58")
def test_a_second_stop_shortens_the_wait() -> None:
    """TERM ignored: the next press with no drain kills now instead of in thirty seconds."""
    rig = Rig()
    process = rig.start("long")
    rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    rig.tick(1.0)
    assert not rig.killed()
    rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    assert rig.killed() == [process.pid]


def test_a_group_without_cards_needs_no_nvml() -> None:
    """An engine on the CPU starts although NVML has no library here."""
    rig = Rig(rig_state(group_spec("cpu", range(0))))
    rig.nvml_error = "no NVML library"
    rig.sweep(answered=False)
    rig.accepted(StartGroup(GroupName("cpu")))
    process = rig.spawn("cpu")
    rig.accepted(StopGroup(GroupName("cpu")))
    rig.exit("cpu", process, 143)
    rig.members("cpu", process, ())
    rig.sweep(answered=False)
    assert isinstance(rig.engine("cpu"), Off)


def test_a_broken_engine_is_not_waited_for() -> None:
    """Its answers cannot end: a restart does not sit out the drain limit."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=3.0)
    titles = "python sglang::scheduler_TP0 sglang::scheduler_TP1 sglang::scheduler_TP3"
    rig.members("long", process, tuple(range(process.pid, process.pid + 4)), titles)
    rig.accepted(RestartGroup(LONG))
    assert isinstance(rig.engine("long"), Stopping)
    assert "no answer was waited for" in rig.said()
