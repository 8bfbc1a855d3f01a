"""The NVML worker as the daemon has it: real processes that hang, crash, start slowly and leave."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rigctl.adapters.gpus import GpuWorker, Patience
from rigctl.core.cards import GpuSweep
from rigctl.core.ids import CardId
from rigctl.core.reading import Missing
from rigctl.sim import cardfile
from rigctl.sim.cardfile import CallFault, CardTable, Holder, rtx_3090s

GIB = 1 << 30
POWER = "nvmlDeviceGetPowerUsage"
FREEZER = Path("/sys/fs/cgroup/freezer")

QUICK = Patience(
    tick=0.15, answer=0.5, init=20.0, leave=0.4, probation=30.0, hardened=60.0, stuck_init=1.0
)


class Rig:
    """A card file, a worker over it, and a clock that can be set ahead."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ahead = 0.0
        self.table = rtx_3090s(watts=110.0, pstate=2)
        self.write(self.table)
        self.gpus = self.worker()

    def worker(self, **patience: float) -> GpuWorker:
        argv = [sys.executable, "-m", "rigctl.sim.nvml_worker", str(self.path)]
        return GpuWorker(argv, patience=replace(QUICK, **patience), clock=self.clock)

    def clock(self) -> float:
        return time.monotonic() + self.ahead

    def write(self, table: CardTable) -> None:
        self.table = table
        cardfile.write(self.path, table)

    def card(self, index: int, **changes: Any) -> None:
        cards = list(self.table.cards)
        cards[index] = replace(cards[index], **changes)
        self.write(replace(self.table, cards=tuple(cards)))

    async def answered(self) -> GpuSweep:
        """Sample until the worker answers."""
        return await self.until(lambda sweep: sweep.answered)

    async def until(self, wanted: Any) -> GpuSweep:
        """Sample as the daemon does, until a sweep is as wanted."""
        async with asyncio.timeout(30):
            while True:
                sweep = await self.gpus.sample()
                if wanted(sweep):
                    return sweep
                await asyncio.sleep(0.02)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """Eight cards and their worker, which is gone after the test."""
    made = Rig(tmp_path / "cards.json")
    yield made
    await made.gpus.close()


async def test_a_sweep_comes_through_the_process(rig: Rig) -> None:
    """What the card file says arrives whole, readings and reasons alike."""
    rig.card(1, watts=281.0, throttle=4, processes=(Holder(os.getpid(), 9 * GIB),))
    rig.card(2, faults={POWER: CallFault(code=3)})
    sweep = await rig.answered()
    assert [card.uuid for card in sweep.cards] == [card.uuid for card in rig.table.cards]
    assert (sweep.cards[1].watts, sweep.cards[1].throttle) == (281.0, ("power cap",))
    assert isinstance(sweep.cards[1].processes, tuple)
    assert sweep.cards[1].processes[0].used_bytes == 9 * GIB
    assert isinstance(sweep.cards[2].watts, Missing)
    assert (sweep.driver, sweep.library) == ("580.95.05", "13.580.95.05")
    assert abs(sweep.at - time.monotonic()) < 5


async def test_one_worker_serves_many_sweeps(rig: Rig) -> None:
    """The process that answered first answers last, also when asked by several at once."""
    await rig.answered()
    pid = rig.gpus.pid
    sweeps = await asyncio.gather(*(rig.gpus.sample() for _ in range(4)))
    assert all(sweep.answered for sweep in sweeps)
    assert rig.gpus.pid == pid


@pytest.mark.case("C57")
async def test_a_hanging_card_leaves_the_loop_free(rig: Rig) -> None:
    """While NVML hangs the last sweep comes at once, marked, and says for how long."""
    first = await rig.answered()
    rig.gpus = await _replaced(rig, answer=300.0)
    await rig.answered()
    rig.card(6, faults={POWER: CallFault(hang=300.0)})
    sweep = await rig.until(lambda sweep: not sweep.answered)
    pid = rig.gpus.pid
    assert [card.watts for card in sweep.cards] == [card.watts for card in first.cards]
    rig.ahead += 12.0
    sweep = await rig.gpus.sample()
    assert not sweep.answered
    assert sweep.error == "NVML not answering for 0:12 (card c77f)"
    assert rig.gpus.pid == pid
    assert _children() == {pid}


@pytest.mark.case("C57")
async def test_a_hung_worker_is_replaced_and_the_card_left_out(rig: Rig) -> None:
    """A card that hangs NVML twice in a row is left out, so that the other seven are seen."""
    await rig.answered()
    rig.card(6, faults={POWER: CallFault(hang=300.0)})
    sweep = await rig.until(lambda sweep: sweep.answered and sweep.cards[6].lost)
    assert sweep.cards[6].lost == "NVML hung when asked about this card"
    assert [bool(card.lost) for card in sweep.cards].count(True) == 1
    assert len(_children()) == 1


@pytest.mark.case("C57")
async def test_a_card_that_hung_once_gets_another_chance(rig: Rig) -> None:
    """One hang costs a worker, not the card."""
    await rig.answered()
    pid = rig.gpus.pid
    rig.card(6, faults={POWER: CallFault(hang=300.0)})
    await rig.until(lambda sweep: not sweep.answered)
    rig.card(6, faults={})
    sweep = await rig.answered()
    assert [card.lost for card in sweep.cards] == [""] * 8
    assert rig.gpus.pid != pid


@pytest.mark.case("C57")
async def test_closing_does_not_wait_for_a_hang(rig: Rig) -> None:
    """Quit works while NVML hangs: the worker is killed, not joined."""
    await rig.answered()
    rig.card(6, faults={POWER: CallFault(hang=300.0)})
    await rig.until(lambda sweep: not sweep.answered)
    async with asyncio.timeout(10):
        await rig.gpus.close()
    assert _children() == set()


@pytest.mark.case("C57")
async def test_a_worker_stuck_in_the_kernel_is_left_alone(rig: Rig, frozen: Any) -> None:
    """A worker that outlives SIGKILL is neither joined nor doubled, and named."""
    rig.gpus = await _replaced(rig, answer=0.1, leave=0.1)
    await rig.answered()
    pid = rig.gpus.pid
    assert pid is not None
    frozen(pid)
    sweep = await rig.until(lambda sweep: "stuck in the kernel" in sweep.error)
    assert f"worker {pid} is stuck in the kernel" in sweep.error
    assert [card.watts for card in sweep.cards] == [110.0] * 8
    for _ in range(3):
        rig.ahead += 60.0
        assert not (await rig.gpus.sample()).answered
    assert _children() == {pid}
    async with asyncio.timeout(5):
        await rig.gpus.close()


@pytest.mark.case("C11")
async def test_a_crash_in_the_library_costs_one_answer(rig: Rig) -> None:
    """SIGSEGV on card 3: one stale sweep with a note, then seven live cards and a lost one."""
    await rig.answered()
    rig.card(3, faults={POWER: CallFault(crash=True)})
    sweep = await rig.gpus.sample()
    assert not sweep.answered
    assert sweep.error == "the NVML worker crashed (SIGSEGV) (card 4538); started anew"
    assert [card.watts for card in sweep.cards] == [110.0] * 8
    sweep = await rig.answered()
    assert [bool(card.lost) for card in sweep.cards] == [index == 3 for index in range(8)]
    assert sweep.cards[3].lost == "NVML crashed (SIGSEGV) when asked about this card"
    assert sweep.cards[3].uuid == rig.table.cards[3].uuid


@pytest.mark.case("C11")
async def test_a_crash_at_the_handle_is_laid_at_the_index(rig: Rig) -> None:
    """A card that crashes before it tells its UUID is known by what was seen before."""
    await rig.answered()
    crash = {"nvmlDeviceGetHandleByIndex_v2": CallFault(crash=True)}
    rig.card(3, faults=crash)
    os.kill(rig.gpus.pid or 0, signal.SIGKILL)
    sweep = await rig.until(lambda sweep: sweep.answered and sweep.cards[3].lost)
    assert sweep.cards[3].uuid == rig.table.cards[3].uuid
    assert [bool(card.lost) for card in sweep.cards].count(True) == 1


@pytest.mark.case("C11")
async def test_a_card_left_out_is_asked_again(rig: Rig) -> None:
    """After its probation a card that answers again is a card like the others."""
    await rig.answered()
    rig.card(3, faults={POWER: CallFault(crash=True)})
    await rig.until(lambda sweep: sweep.answered and sweep.cards[3].lost)
    rig.card(3, faults={})
    assert (await rig.answered()).cards[3].lost
    rig.ahead += QUICK.probation + 1
    assert (await rig.answered()).cards[3].lost == ""


@pytest.mark.case("C81")
async def test_a_slow_start_is_no_hang(rig: Rig) -> None:
    """nvmlInit of seconds is told as a start, with the remedy, and the worker is left to it."""
    rig.write(replace(rig.table, init_seconds=1.5))
    rig.gpus = await _replaced(rig, answer=0.2)
    sweep = await rig.gpus.sample()
    assert sweep.error.startswith("NVML is starting: 0:00 so far")
    pid = rig.gpus.pid
    rig.ahead += 8.0
    sweep = await rig.gpus.sample()
    assert sweep.error.startswith("NVML is starting: 0:08 so far - slow without persistence mode")
    assert (await rig.answered()).error == ""
    assert rig.gpus.pid == pid


@pytest.mark.case("C81")
async def test_nothing_is_spawned_for_a_sweep(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An `nvidia-smi` on the PATH that would leave a trace is never run."""
    trap = tmp_path / "nvidia-smi"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/spawned\n")
    trap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for _ in range(3):
        await rig.answered()
    assert _children() == {rig.gpus.pid}
    worker = Path(f"/proc/{rig.gpus.pid}/task/{rig.gpus.pid}/children")
    assert worker.read_text() == ""
    assert not (tmp_path / "spawned").exists()


@pytest.mark.case("C89")
async def test_released_means_no_process_holds_the_cards(rig: Rig) -> None:
    """release() ends the worker and starts none until its time is over; then all is anew."""
    await rig.answered()
    pid = rig.gpus.pid
    rig.card(3, lost=16)
    await rig.gpus.release(600.0)
    assert not Path(f"/proc/{pid}").exists()
    sweep = await rig.gpus.sample()
    assert sweep.error.startswith("NVML released for 9:5")
    assert not sweep.answered
    assert _children() == set()
    rig.card(3, lost=0)
    rig.ahead += 600.0
    sweep = await rig.answered()
    assert [card.lost for card in sweep.cards] == [""] * 8
    assert rig.gpus.pid != pid


async def test_releasing_for_no_time_takes_nvml_up_again(rig: Rig) -> None:
    """release(0) ends a release early."""
    await rig.gpus.release(600.0)
    await rig.gpus.release(0.0)
    assert (await rig.answered()).error == ""


@pytest.mark.case("C16")
async def test_an_unavailable_nvml_keeps_the_last_cards(rig: Rig) -> None:
    """Init error 18 in a new worker: last values with the reason, both versions in it."""
    await rig.answered()
    rig.write(replace(rig.table, init_code=18, driver="520.56.06", library="525.85.12"))
    os.kill(rig.gpus.pid or 0, signal.SIGKILL)
    sweep = await rig.until(lambda sweep: "reboot" in sweep.error)
    assert "kernel module 520.56.06, library 525.85.12" in sweep.error
    assert len(sweep.cards) == 8
    assert not sweep.answered


@pytest.mark.case("C16")
async def test_a_worker_that_only_fails_is_replaced(rig: Rig) -> None:
    """A new process loads the library that lies on disk now."""
    rig.write(replace(rig.table, init_code=18))
    await rig.until(lambda sweep: "reboot" in sweep.error)
    pid = rig.gpus.pid
    rig.write(replace(rig.table, init_code=0, faults={"nvmlInitWithFlags": CallFault(code=18)}))
    rig.ahead += 5.0
    await rig.until(lambda _sweep: rig.gpus.pid not in (pid, None))
    rig.write(replace(rig.table, faults={}))
    assert len((await rig.answered()).cards) == 8


async def test_a_missing_program_is_said(rig: Rig) -> None:
    """A worker that cannot start is a sentence, and is tried again with back-off."""
    gpus = GpuWorker(["/nonexistent/python"], patience=QUICK, clock=rig.clock)
    sweep = await gpus.sample()
    assert "the NVML worker cannot start" in sweep.error
    assert "/nonexistent/python" in sweep.error
    await gpus.close()


@pytest.mark.case("C09")
async def test_power_limits_go_through_the_worker(rig: Rig) -> None:
    """A limit is set and read back; without the right comes the exact command."""
    uuid = CardId(rig.table.cards[4].uuid)
    assert (await rig.answered()).cards[4].limit_watts == 350
    assert await rig.gpus.set_power_limit(uuid, 280.0) == ""
    assert (await rig.answered()).cards[4].limit_watts == 280
    rig.write(replace(rig.table, may_set_limits=False))
    assert await rig.gpus.set_power_limit(uuid, 250.0) == (
        f"needs root: `sudo nvidia-smi -i {uuid} -pl 250`"
    )


async def test_the_worker_ends_with_its_parent(rig: Rig) -> None:
    """Closing its stdin ends the worker by itself, code 0: a killed daemon leaves none behind."""
    await rig.answered()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rigctl.sim.nvml_worker",
        str(rig.path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await process.communicate(b'{"do":"sample"}\n{"do":"dance"}\n')
    assert process.returncode == 0
    assert answer.splitlines()[1] == b'{"said": "the NVML worker knows `sample` and `limit`"}'


async def _replaced(rig: Rig, **patience: float) -> GpuWorker:
    await rig.gpus.close()
    return rig.worker(**patience)


def _children() -> set[int]:
    """Living children of this process that are NVML workers."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {
        int(pid)
        for pid in text.split()
        if b"nvml_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Puts a process where SIGKILL does not reach it: the cgroup freezer holds it in D state.

    Where this machine lends no freezer, SIGSTOP and a kill that does nothing stand in.
    """
    group = FREEZER / f"rigctl-test-{os.getpid()}"
    caught: list[int] = []

    def freeze(pid: int) -> None:
        caught.append(pid)
        try:
            group.mkdir()
            (group / "cgroup.procs").write_text(str(pid))
            (group / "freezer.state").write_text("FROZEN")
        except OSError:
            os.kill(pid, signal.SIGSTOP)
            monkeypatch.setattr("subprocess.Popen.kill", lambda _popen: None)

    yield freeze
    if (group / "freezer.state").exists():
        (group / "freezer.state").write_text("THAWED")
    for pid in caught:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if group.exists():
        group.rmdir()
