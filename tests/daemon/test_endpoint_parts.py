"""What the daemon keeps of the endpoint: its address, its table on disk, its process."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from daemon_kit import end
from support_endpoint import SPEC, endpoint

from rigctl.adapters import proc
from rigctl.adapters.process import ProcessLauncher
from rigctl.control import link_wire
from rigctl.core.endpoint_states import Absent, Serving, followed
from rigctl.core.facts import EngineSampled, Fact, Ticked
from rigctl.core.ids import Mono, ProcessIdentity, Wall
from rigctl.core.link_words import Progress, Table, ToProxy
from rigctl.core.reduce import reduce
from rigctl.core.state import EndpointState, RigState
from rigctl.daemon.endpoint_adoption import DIED, adopt_endpoint
from rigctl.daemon.link import LinkHub
from rigctl.daemon.open_address import open_address, same_address
from rigctl.daemon.table_keeper import WATCHED, TableKeeper

NOW = Mono(100.0)


# ---- the address ---------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_loopback_is_open_in_both_families_and_says_so() -> None:
    """A client that resolves `localhost` to ::1 reaches the endpoint and nobody else."""
    port = free_port()
    opened = open_address("127.0.0.1", port)
    try:
        assert [each.getsockname()[0] for each in opened] == ["127.0.0.1", "::1"]
        assert same_address(opened, "localhost", port)
        assert not same_address(opened, "127.0.0.1", port + 1)
        assert not same_address(opened, "0.0.0.0", port)
        assert not same_address((), "127.0.0.1", port)
    finally:
        for each in opened:
            each.close()


@pytest.mark.parametrize("taken", ["127.0.0.1", "::1"])
def test_a_taken_port_names_its_holder_and_leaves_nothing_open(taken: str) -> None:
    """Whichever family is taken: half an address would send half the clients elsewhere."""
    port = free_port()
    family = socket.AF_INET6 if ":" in taken else socket.AF_INET
    with socket.create_server((taken, port), family=family):
        with pytest.raises(OSError, match=rf"is taken by pid {os.getpid()} \(") as caught:
            open_address("127.0.0.1", port)
        assert "another `port` under [proxy]" in str(caught.value.strerror)
    for each in open_address("127.0.0.1", port):
        each.close()


# ---- the table on disk ---------------------------------------------------------------


class Told(LinkHub):
    """A hub that keeps what it would send."""

    def __init__(self) -> None:
        super().__init__(
            post=lambda _fact: None,
            knows=lambda _pid: False,
            draining=lambda _name: False,
            routes=lambda _told: None,
            greeted=lambda _pid: None,
        )
        self.sent: list[ToProxy] = []

    @property
    def any(self) -> bool:
        return True

    def tell_all(self, message: ToProxy) -> None:
        self.sent.append(message)


class Clock:
    def __init__(self) -> None:
        self.at = Mono(100.0)

    def now(self) -> Mono:
        return self.at

    def wall(self) -> Wall:
        return Wall(1_000_000.0 + self.at)


class Kept:
    """A keeper of the table with the world around it held in the hand."""

    def __init__(self, path: Path) -> None:
        self.rig = endpoint()
        self.state: RigState = self.rig.state
        self.hub, self.clock = Told(), Clock()
        self.watchers = 0
        self.path = path
        self.keeper = TableKeeper(
            path=path,
            clock=self.clock,
            hub=self.hub,
            state=lambda: self.state,
            watchers=lambda: self.watchers,
            post=self.post,
        )

    def post(self, fact: Fact) -> None:
        reduced = reduce(self.state, fact, self.clock.now(), self.clock.wall())
        self.state = reduced.state

    def tables(self) -> list[Table]:
        return [each for each in self.hub.sent if isinstance(each, Table)]

    def trouble(self) -> str:
        return next((each.say for each in self.state.troubles if each.id == "table-file"), "")


def test_a_table_is_sent_once_and_lies_on_disk_for_a_proxy_without_daemon(tmp_path: Path) -> None:
    """Nothing is sent that is as it was; without [proxy] no table is left behind."""
    kept = Kept(tmp_path / "table.json")
    for _ in range(3):
        kept.keeper.taken(kept.state, Ticked())
        kept.clock.at = Mono(kept.clock.at + 1.0)
    (sent,) = kept.tables()
    assert link_wire.decode_to_proxy(kept.path.read_bytes()) == sent
    gone = replace(kept.state, endpoint=replace(kept.state.endpoint, spec=None))
    kept.keeper.update(gone)
    assert not kept.path.exists()
    kept.keeper.update(kept.state)
    assert kept.path.exists()
    assert [each.seq for each in kept.tables()] == [1, 2]


def test_a_disk_that_takes_no_table_is_a_standing_trouble_and_nothing_else(tmp_path: Path) -> None:
    """The table goes out all the same, and is written when there is room again."""
    folder = tmp_path / "state"
    kept = Kept(folder / "table.json")  # the folder is not there: as a disk that takes nothing
    kept.keeper.update(kept.state)
    assert len(kept.tables()) == 1
    assert "not written" in kept.trouble()
    assert "routes by the link" in kept.trouble()
    folder.mkdir()
    kept.keeper.retry()
    assert kept.trouble() == ""
    assert kept.path.exists()
    shutil.rmtree(folder)
    kept.keeper.retry()
    assert kept.trouble() == "", "what is written is not written again for its own sake"


async def test_traffic_is_wanted_while_somebody_looks_and_a_little_longer(tmp_path: Path) -> None:
    """A look costs the proxy five seconds of telling, not a day."""
    kept = Kept(tmp_path / "table.json")
    kept.keeper.update(kept.state)
    kept.keeper.looked()
    assert [each.watched for each in kept.tables()] == [False, True]
    kept.clock.at = Mono(kept.clock.at + WATCHED + 1)
    kept.keeper.update(kept.state)
    assert [each.watched for each in kept.tables()] == [False, True, False]
    kept.watchers = 1
    kept.keeper.update(kept.state)
    assert kept.tables()[-1].watched
    kept.keeper.close()


def test_progress_goes_with_each_sample_and_ends_with_the_work(tmp_path: Path) -> None:
    """An idle engine is said to be idle once."""
    kept = Kept(tmp_path / "table.json")
    rig = kept.rig
    for active, decoded in ((2.0, 5.0), (2.0, 9.0), (0.0, 9.0), (0.0, 9.0), (0.0, 9.0)):
        rig.now += 1.0
        kept.clock.at = Mono(rig.now)
        rig.sample("long", active=active, running=active, decode_tokens=decoded)
        sample = rig.group("long").sample
        assert sample is not None
        kept.keeper.taken(rig.state, EngineSampled(sample))
    told = [each.doing for each in kept.hub.sent if isinstance(each, Progress)]
    assert told.count("idle") == 1
    assert told[-1] == "idle"
    assert len(told) >= 3


# ---- the process ---------------------------------------------------------------------


class Processes:
    """A living process started as an earlier daemon would have, and a launcher of ours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = ProcessLauncher(lambda _process, _code: None)
        self.launcher = ProcessLauncher(lambda _process, _code: None)
        self.started: list[ProcessIdentity] = []

    def start(self, token: str) -> ProcessIdentity:
        command = [sys.executable, "-c", "import time; time.sleep(60)"]
        process = self.before.spawn(command, {}, str(self.folder / "log"), token)
        self.started.append(process)
        return process

    def adopt(self, saved: dict[str, Any] | None) -> EndpointState:
        return adopt_endpoint(SPEC, saved, "tag", self.launcher, NOW)


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    made = Processes(tmp_path)
    yield made
    for each in made.started:
        end(each.pid)
    made.launcher.close()
    for watched in list(made.before._watched.values()):
        if watched.child is not None:
            watched.child.wait()
    made.before.close()


def saved(token: str, **more: Any) -> dict[str, Any]:
    return {"token": token, "serving": None, "opening": None, "leaving": [], "epochs": [], **more}


async def test_a_living_proxy_is_taken_over_by_its_identity(processes: Processes) -> None:
    """With what it told of itself; its leaving predecessor is followed to its end."""
    serving, leaving = processes.start("tag.@proxy.e.1"), processes.start("tag.@proxy.e.0")
    record = saved(
        "tag.@proxy.e.1",
        serving=asdict(serving),
        leaving=[asdict(leaving)],
        epochs=[[serving.pid, "aaaa"]],
        address="127.0.0.1:8000",
    )
    found = processes.adopt(record)
    assert found.keeper.phase == Serving(NOW, serving, False, NOW, True)
    assert set(followed(found.keeper)) == {serving, leaving}
    assert (found.epochs, found.address, found.last_exit) == (
        ((serving.pid, "aaaa"),),
        "127.0.0.1:8000",
        "",
    )


async def test_a_child_whose_record_was_lost_is_found_by_its_token(processes: Processes) -> None:
    """Between spawn and record, and where the whole state file is gone."""
    token = "tag.@proxy.epoch.5.000"
    process = processes.start(token)
    found = processes.adopt(saved(token, spawning=True))
    assert found.serving is not None
    assert found.serving.process.pid == process.pid
    processes.launcher.close()
    found = processes.adopt(None)
    assert found.serving is not None
    assert found.serving.process.pid == process.pid


async def test_a_dead_one_is_told_and_its_epoch_kept_for_its_orphans(processes: Processes) -> None:
    """What it had running is ended by that epoch once the daemon has begun."""
    process = processes.start("tag.@proxy.e.1")
    end(process.pid)
    next(iter(processes.before._watched.values())).child.wait()  # type: ignore[union-attr]
    record = saved("tag.@proxy.e.1", serving=asdict(process), epochs=[[process.pid, "aaaa"]])
    found = processes.adopt(record)
    assert isinstance(found.keeper.phase, Absent)
    assert (found.last_exit, found.crashes) == (DIED, 1)
    assert found.epochs == ((process.pid, "aaaa"),)


async def test_after_a_reboot_nothing_of_it_is_left_and_nobody_is_mistaken_for_it(
    processes: Processes,
) -> None:
    """A process that happens to have its number is not it, and nothing crashed."""
    process = processes.start("other")
    before = replace(process, boot_id="another boot")
    assert before.boot_id != proc.boot_id()
    record = saved("tag.@proxy.e.1", serving=asdict(before), epochs=[[process.pid, "aaaa"]])
    found = processes.adopt(record)
    assert followed(found.keeper) == ()
    assert (found.last_exit, found.crashes, found.epochs) == ("", 0, ())


async def test_another_homes_proxy_is_left_alone(processes: Processes) -> None:
    """The folder was copied: the other home's daemon keeps it."""
    process = processes.start("elsewhere.@proxy.e.1")
    record = saved("elsewhere.@proxy.e.1", serving=asdict(process))
    assert followed(processes.adopt(record).keeper) == ()
