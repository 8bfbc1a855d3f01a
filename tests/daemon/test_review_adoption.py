"""What a dead daemon leaves behind is taken up as it was, judged on real processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support_rig import group_spec, rig_state

from rigctl.adapters import proc
from rigctl.adapters.process import ProcessLauncher
from rigctl.adapters.statefile import StateFile, Unreadable
from rigctl.core.durable import remember
from rigctl.core.engine_states import (
    Draining,
    Engine,
    Failed,
    Loading,
    Off,
    Ready,
    Stage,
    State,
    Stopping,
    ThenCrash,
    ThenOff,
    ThenStart,
)
from rigctl.core.facts import DaemonBegan
from rigctl.core.ids import GroupName, Mono, ProcessIdentity, Wall
from rigctl.core.orders import SignalMain, TellPerson, WriteJournal
from rigctl.core.reduce import reduce
from rigctl.core.state import GroupState, RigState, with_group
from rigctl.daemon.adoption import adopt_group, after_reboot, unlisted
from rigctl.daemon.engine_logs import EngineLogs

CPU = GroupName("cpu")
TAG = f"test{os.getpid()}"
TOKEN = f"{TAG}.{CPU}.epoch.1.000"
NOW, WALL = Mono(1000.0), Wall(2_000_000.0)
LATER, WALL_LATER = Mono(1030.0), Wall(2_000_030.0)
PATIENCE = 20.0


def members(session: int) -> list[int]:
    """The living processes of a session."""
    return [each.pid for each in proc.scan().values() if each.session == session and each.living]


class World:
    """Engines that are plain sleeping processes, and the folder of their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        made = rig_state(group_spec("cpu", range(0)))
        self.state: RigState = replace(made, spec=replace(made.spec, tag=TAG))
        self.launchers: list[ProcessLauncher] = []
        self.sessions: list[int] = []

    def launcher(self) -> ProcessLauncher:
        made = ProcessLauncher(lambda identity, code: None)
        self.launchers.append(made)
        return made

    def engine(self, script: str = "import time; time.sleep(600)") -> ProcessIdentity:
        """A session of its own, carrying the token."""
        argv = (sys.executable, "-c", script)
        process = self.launcher().spawn(argv, {}, str(self.folder / "cpu.log"), TOKEN)
        self.sessions.append(process.pid)
        return process

    def grown(self, process: ProcessIdentity) -> None:
        """Until it has a child."""
        end = time.monotonic() + PATIENCE
        while len(members(process.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.02)

    def bury(self, process: ProcessIdentity) -> None:
        """Its daemon is dead; so is the leader, and somebody has collected its zombie."""
        for launcher in self.launchers:
            launcher.close()
        os.waitpid(process.pid, 0)
        self.sessions.remove(process.pid)

    def left(self, engine: State, **more: Any) -> dict[str, Any]:
        """The record of a daemon that died with its engine in this state."""
        group = replace(self.state.groups[0], engine=Engine(engine), token=TOKEN, **more)
        written = remember(replace(with_group(self.state, group), wall=WALL), NOW)
        record: dict[str, Any] = written["groups"][CPU]
        return record

    def adopt(self, record: dict[str, Any]) -> GroupState:
        """The next daemon, thirty seconds later."""
        logs = EngineLogs(self.folder)
        try:
            group = self.state.groups[0]
            return adopt_group(group, record, self.launcher(), logs, self.state, LATER, WALL_LATER)
        finally:
            logs.close()

    def began(self, group: GroupState) -> list[Any]:
        """What the next daemon does first with what it found."""
        state = with_group(self.state, group)
        return list(reduce(state, DaemonBegan(first=False), LATER, WALL_LATER).orders)

    def close(self) -> None:
        for launcher in self.launchers:
            launcher.close()
        for session in self.sessions:
            for pid in members(session):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(session, 0)


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    made = World(tmp_path)
    yield made
    made.close()


async def test_an_engine_on_its_way_out_is_not_called_ready(world: World) -> None:
    """Asked to leave before the daemon died: it is asked again, and killed in time."""
    process = world.engine()
    stopping = Stopping(NOW, Mono(NOW + 30), process, Stage.TERM, ThenStart("restart asked"))
    group = world.adopt(world.left(stopping, wanted=True))
    engine = group.engine.state
    assert isinstance(engine, Stopping)
    assert engine.then == ThenStart("restart asked")
    assert LATER < engine.next_at <= LATER + group.spec.policy.grace
    assert SignalMain(CPU, process, 15) in world.began(group)


async def test_a_drain_keeps_its_deadline_and_its_purpose(world: World) -> None:
    """The limit that a person gave does not begin anew with each daemon."""
    process = world.engine()
    draining = Draining(NOW, Mono(NOW + 60), process, ThenOff("asked"), ready_since=Mono(5.0))
    group = world.adopt(world.left(draining))
    engine = group.engine.state
    assert isinstance(engine, Draining)
    assert engine.deadline == pytest.approx(NOW + 60)
    assert engine.then == ThenOff("asked")
    assert engine.ready_since == pytest.approx(5.0)


async def test_uptime_goes_on_over_a_new_daemon(world: World) -> None:
    """Ready for days stays ready for days; the journal says who took it over."""
    process = world.engine()
    group = world.adopt(world.left(Ready(Mono(5.0), process), wanted=True))
    engine = group.engine.state
    assert isinstance(engine, Ready)
    assert engine.since == pytest.approx(5.0)
    kinds = [each.kind for each in world.began(group) if isinstance(each, WriteJournal)]
    assert "adopted" in kinds


async def test_orphans_nobody_recorded_are_found_by_their_token(world: World) -> None:
    """The leader and the daemon died before the children were written down (C01)."""
    script = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "time.sleep(600)"
    )
    process = world.engine(script)
    world.grown(process)
    record = world.left(Loading(NOW, process), wanted=True)
    os.kill(process.pid, signal.SIGKILL)
    world.bury(process)
    orphans = members(process.pid)
    try:
        group = world.adopt(record)
        engine = group.engine.state
        assert isinstance(engine, Stopping)
        assert list(engine.leftovers) == orphans
    finally:
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)


async def test_a_death_that_nobody_saw_is_told_with_its_cause(world: World) -> None:
    """Its exit code is lost, its log is not: cause, journal and notification as ever."""
    process = world.engine("pass")
    world.bury(process)
    log = world.folder / "cpu.log"
    log.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    group = world.adopt(world.left(Ready(NOW, process), wanted=True))
    engine = group.engine.state
    assert isinstance(engine, Stopping)
    assert isinstance(engine.then, ThenCrash)
    assert "memory" in group.last_exit
    assert group.crashes == 1
    orders = world.began(group)
    assert any(isinstance(each, TellPerson) and each.event == "crashed" for each in orders)


@pytest.mark.case("C68")
async def test_a_removed_state_file_does_not_make_our_engine_a_stranger(world: World) -> None:
    """No record at all: its token says that this home started it, for this group."""
    process = world.engine()
    group = world.adopt({})
    assert group.process is not None
    assert group.process.pid == process.pid
    assert group.wanted
    assert group.startup is None, "its silence is not a start that hangs"
    assert group.command[:2] == (sys.executable, "-c")


async def test_the_record_of_a_group_taken_out_of_the_file_is_kept(world: World) -> None:
    """rig.toml lost the group while its engine ran: written back, it is found again."""
    process = world.engine()
    record = world.left(Ready(NOW, process), wanted=True)
    assert unlisted({"cpu": record}, set()) == {"cpu": record}
    assert not unlisted({"cpu": record}, {"cpu"})
    gone = {**record, "process": {**record["process"], "start_ticks": 1}}
    assert not unlisted({"cpu": gone}, set())


async def test_a_reboot_gives_what_had_failed_another_chance(world: World) -> None:
    """`reboot needed` is followed by a reboot, and that by a start."""
    group = replace(world.state.groups[0], engine=Engine(Failed(NOW, "card lost")), wanted=True)
    assert isinstance(after_reboot(group, LATER).engine.state, Off)


def test_whole_json_that_is_not_ours_is_set_aside(tmp_path: Path) -> None:
    """Understood as far as its schema, and no further: kept like any unreadable file."""
    file = StateFile(tmp_path / "state.json", 1)
    file.save({"groups": {"cpu": {"lease": {"nonsense": 1}}}})
    refused = file.refuse("is not understood")
    assert isinstance(refused, Unreadable)
    assert Path(refused.kept).read_bytes() == (tmp_path / "state.json").read_bytes()
