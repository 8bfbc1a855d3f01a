"""Wrong states that only the second look shows: stale figures, broken counts, clocks that jump."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support_rig import GIB, Card, Rig, group_spec, identity, rig_state

from rigctl.core.cards import CardProcess
from rigctl.core.commands import (
    FreeGroup,
    LendStarted,
    ReclaimGroup,
    RestartGroup,
    StartGroup,
    StopGroup,
)
from rigctl.core.engine_sample import EngineSample
from rigctl.core.engine_states import Draining
from rigctl.core.facts import (
    EngineSampled,
    EngineSilent,
    ForeignEngineSeen,
    GroupFound,
    LogRead,
    Resumed,
    Ticked,
)
from rigctl.core.ids import GroupName, Mono, Wall
from rigctl.core.log_facts import Prefilled
from rigctl.core.on_engine import in_flight
from rigctl.core.orders import EndWorker, LookNow, SignalMain, SpawnEngine, TellPerson
from rigctl.core.reading import Missing
from rigctl.core.reduce import reduce
from rigctl.core.view import view

LONG = GroupName("long")
STANDARD = GroupName("standard")


def stalled(rig: Rig) -> None:
    """Three answers wait while a prompt is read, for longer than any chunk takes."""
    decode, prefill = 1000.0, 0.0
    for second in range(80):
        rig.tick(1.0)
        if second < 5:
            decode += 300
        elif second % 4 == 0:
            prefill += 4096
        rig.sample(
            "long",
            active=4.0 if second >= 5 else 3.0,
            running=3.0,
            queued=0.0,
            decode_tokens=decode,
            prefill_tokens=prefill,
            cached_tokens=0.0,
            waiting_tokens=90_000.0 if second >= 5 else 0.0,
            chunk_tokens=4096.0,
        )
    assert "stall" in rig.kinds()
    assert "stall-ended" not in rig.kinds()


def test_a_crash_ends_the_stall_it_died_in() -> None:
    """No stall stays open in the journal past its engine's end, whatever that end was."""
    rig = Rig()
    process = rig.start("long")
    stalled(rig)
    rig.vanish("long", process, 1)
    assert "stall-ended" in rig.kinds()


def test_a_restart_leaves_no_figure_of_the_old_engine() -> None:
    """While the next one waits for its start, nothing is shown as if it were of now."""
    rig = Rig()
    process = rig.start("long")
    stalled(rig)
    rig.accepted(StartGroup(STANDARD))
    rig.accepted(RestartGroup(LONG, drain_seconds=0.0))
    rig.vanish("long", process)
    group = rig.group("long")
    assert group.sample is None
    assert group.watch is None
    assert group.watched is None
    assert "stall-ended" in rig.kinds()


def test_a_late_sample_does_not_revive_what_is_off() -> None:
    """An answer that was under way when the engine ended counts for nothing."""
    rig = Rig()
    process = rig.start("long")
    rig.accepted(StopGroup(LONG, drain_seconds=0.0))
    rig.vanish("long", process)
    rig.sample("long", active=3.0)
    assert rig.group("long").sample is None
    assert rig.group("long").watch is None


@pytest.mark.case("C72")
def test_a_prompt_in_its_chunks_is_in_flight_for_old_engines_too() -> None:
    """Before 0.5.15 no count has the request that is being read; its chunks do."""
    rig = Rig()
    process = rig.start("long")
    computed = 0.0
    for second in range(12):
        rig.tick(1.0)
        computed += 4096 if second % 4 == 0 else 0
        sample = EngineSample(
            LONG,
            Mono(rig.now),
            running=0.0,
            queued=0.0,
            decode_tokens=0.0,
            prefill_tokens=computed,
            cached_tokens=0.0,
        )
        rig.feed(EngineSampled(sample))
    assert in_flight(rig.group("long")) == 1.0
    rig.accepted(StopGroup(LONG))
    rig.feed(EngineSampled(replace(sample, at=Mono(rig.now))))
    rig.feed(EngineSampled(replace(sample, at=Mono(rig.now))))
    assert isinstance(rig.engine("long"), Draining), f"{process.pid} reads a prompt"
    assert not rig.of(SignalMain)


def test_silence_while_draining_is_no_sign_of_idleness() -> None:
    """One idle look, silence, one idle look: not two in a row; and silence is said."""
    rig = Rig()
    rig.start("long")
    rig.sample("long", active=3.0)
    rig.accepted(StopGroup(LONG))
    rig.sample("long", active=0.0)
    rig.feed(EngineSilent(LONG, "does not answer"))
    engine = rig.engine("long")
    assert isinstance(engine, Draining)
    assert isinstance(engine.in_flight, Missing)
    rig.sample("long", active=0.0)
    assert isinstance(rig.engine("long"), Draining)


def test_an_engine_that_dies_while_it_drains_is_said_so() -> None:
    """It was to leave, but not like this: answers broke, and the journal has its words."""
    rig = Rig()
    process = rig.start("long")
    rig.sample("long", active=3.0)
    rig.accepted(StopGroup(LONG))
    rig.exit("long", process, -9, "torch.OutOfMemoryError: CUDA out of memory.")
    assert "asked to leave" not in rig.said()
    assert "while it drained" in rig.said()
    assert "memory" in rig.said()


def test_old_lines_read_again_are_no_progress() -> None:
    """After adoption the log is read anew: what it said hours ago does not hide a hang."""
    rig = Rig()
    rig.start("long")
    rig.sample("long", active=1.0)
    watch = rig.group("long").watch
    assert watch is not None
    rig.tick(50.0)
    rig.feed(LogRead(LONG, (Prefilled(),), 100, old=True))
    later = rig.group("long").watch
    assert later is not None
    assert later.progress_at == watch.progress_at


def test_pids_that_are_gone_from_session_and_cards_are_forgotten() -> None:
    """A number that is handed out anew is not ours for ever."""
    rig = Rig()
    process = rig.start("long")
    kept = rig.group("long").mine
    rig.members("long", process, (*kept, 7777))
    assert 7777 in rig.group("long").mine
    rig.members("long", process, kept)
    rig.sweep()
    assert rig.group("long").mine == kept


@pytest.mark.case("C13")
def test_a_card_that_vanishes_under_indexes_does_not_empty_the_group() -> None:
    """`cards = [4,5,6,7]` cannot be told with seven cards here: what they were stays."""
    rig = Rig()
    rig.start("long")
    before = rig.group("long").spec.cards
    rig.feed(GroupFound(LONG, (), ("card 7 is missing",), (), ()))
    assert rig.group("long").spec.cards == before
    assert rig.group("long").spec.missing == ("card 7 is missing",)


def test_another_line_in_the_file_moves_no_running_engine() -> None:
    """Other cards count from the next start on: what runs, or is lent, is where it is."""
    rig = Rig()
    process = rig.start("long")
    before = rig.group("long").spec.cards
    rig.feed(GroupFound(LONG, before[:2], (), ("new",), ()))
    assert rig.group("long").spec.cards == before
    rig.accepted(FreeGroup(LONG, "train", drain_seconds=0.0))
    rig.vanish("long", process)
    rig.feed(GroupFound(LONG, before[:2], (), ("new",), ()))
    assert rig.group("long").spec.cards == before
    rig.accepted(ReclaimGroup(LONG, start=False))
    rig.feed(GroupFound(LONG, before[:2], (), ("new",), ()))
    assert rig.group("long").spec.cards == before[:2]


@pytest.mark.case("C11")
def test_a_lost_card_counts_until_all_are_back() -> None:
    """Two lost, one back: the group still cannot work. Both back, also after leaving the list."""
    rig = Rig()
    rig.cards[6] = Card(lost="GPU is lost (15)")
    del rig.cards[7]
    rig.sweep()
    assert rig.group("long").lost_card
    rig.cards[6] = Card()
    rig.sweep()
    assert rig.group("long").lost_card
    rig.cards[7] = Card()
    rig.sweep()
    assert not rig.group("long").lost_card
    assert "card-back" in rig.kinds()


def test_idle_but_hot_is_seen_on_old_engines_and_on_groups_that_are_off() -> None:
    """No count of open requests, or no engine at all: warm cards are warm, the cause is named."""
    rig = Rig()
    rig.start("standard")
    stranger = CardProcess(9001, 0.3 * GIB, "miner", "ben")
    rig.cards[5] = Card(0.3 * GIB, (stranger,), watts=200.0)
    for index in range(4):
        rig.cards[index] = replace(rig.cards[index], watts=150.0)
    for _ in range(30):
        rig.tick(10.0)
        sample = EngineSample(STANDARD, Mono(rig.now), running=0.0, queued=0.0, decode_tokens=5.0)
        rig.feed(EngineSampled(sample))
        rig.sweep()
    assert rig.group("standard").verdict is not None
    off = rig.group("long").verdict
    assert off is not None
    assert off.cause == "foreign"
    assert "miner" in off.say


def test_a_foreign_server_that_left_leaves_no_command_line() -> None:
    """What is shown next is what a start of ours would use."""
    rig = Rig()
    rig.feed(ForeignEngineSeen(LONG, 4100, ("python", "-m", "sglang.launch_server"), True))
    rig.feed(ForeignEngineSeen(LONG, None))
    shown = view(rig.state, Mono(rig.now), (), "0", 1).groups[1]
    assert shown.pid is None
    assert shown.command == rig.group("long").spec.command


# ---- clocks ------------------------------------------------------------------------------


def lent(rig: Rig, kill: bool) -> None:
    process = rig.start("long")
    rig.sample("long", active=0.0)
    rig.accepted(FreeGroup(LONG, "train", for_seconds=60.0, holder_pid=500), identity(500))
    rig.sample("long", active=0.0)
    rig.vanish("long", process)
    rig.accepted(LendStarted(LONG, 501, kill), identity(501))


def tick(rig: Rig, seconds: float, wall_step: float) -> None:
    """Time passes, and the wall clock is set by `wall_step` beside it."""
    rig.now += seconds
    wall = Wall(rig.state.wall + seconds + wall_step)
    reduced = reduce(rig.state, Ticked(), Mono(rig.now), wall)
    rig.state = reduced.state
    rig.orders.extend(reduced.orders)


def test_setting_the_clock_forward_kills_no_worker() -> None:
    """A wrong clock put right by a day is no reason to end a training two hours early."""
    rig = Rig()
    lent(rig, kill=True)
    tick(rig, 1.0, 86_400.0)
    assert not rig.of(EndWorker)
    assert not [each for each in rig.of(TellPerson) if each.event == "overdue"]
    tick(rig, 61.0, 0.0)
    assert rig.of(EndWorker), "the lease ends after its time by the steady clock"


def test_setting_the_clock_back_does_not_stretch_a_lease() -> None:
    """An hour back on the wall is no hour more."""
    rig = Rig()
    lent(rig, kill=False)
    tick(rig, 1.0, -3600.0)
    tick(rig, 61.0, 0.0)
    assert [each for each in rig.of(TellPerson) if each.event == "overdue"]


def test_a_lease_runs_on_while_the_machine_sleeps() -> None:
    """The steady clock stands still in suspend; two hours lent are two hours."""
    rig = Rig()
    lent(rig, kill=False)
    tick(rig, 1.0, 7200.0)
    now = Mono(rig.now)
    reduced = reduce(rig.state, Resumed(7200.0), now, rig.state.wall)
    rig.orders.extend(reduced.orders)
    assert [each for each in rig.of(TellPerson) if each.event == "overdue"]


# ---- looks that are too old --------------------------------------------------------------


@pytest.mark.case("C04")
def test_a_start_waits_for_a_look_at_its_cards_that_is_of_now() -> None:
    """While nobody looks cards are read twice a minute: what was free then may be taken now."""
    rig = Rig()
    rig.tick(25.0)
    rig.cards[5] = Card(9 * GIB, (CardProcess(9001, 9 * GIB, "train.py", "ben"),))
    number = rig.accepted(StartGroup(LONG))
    assert not rig.of(SpawnEngine)
    assert "looked at" in rig.operation(number).say
    assert any(isinstance(each, LookNow) for each in rig.orders)
    rig.sweep()
    assert not rig.of(SpawnEngine)
    assert "9001" in rig.operation(number).say
    rig.cards[5] = Card()
    rig.sweep()
    assert rig.of(SpawnEngine)


@pytest.mark.case("C04")
def test_a_free_of_what_is_off_is_answered_by_a_look_that_is_of_now() -> None:
    """The same for `free`: an old look is no proof that four cards are free."""
    rig = Rig()
    rig.tick(25.0)
    rig.cards[5] = Card(9 * GIB, (CardProcess(9001, 9 * GIB, "train.py", "ben"),))
    number = rig.accepted(FreeGroup(LONG, "train"))
    assert rig.operation(number).running
    rig.sweep()
    assert rig.operation(number).state == "partly"
    assert "3 of 4" in rig.operation(number).say


def test_a_free_without_cards_says_so() -> None:
    """An engine on the CPU is off, and there is no card to speak of."""
    rig = Rig(rig_state(group_spec("cpu", range(0))))
    number = rig.accepted(FreeGroup(GroupName("cpu"), "train"))
    assert rig.operation(number).state == "done"
    assert "no cards" in rig.operation(number).say
