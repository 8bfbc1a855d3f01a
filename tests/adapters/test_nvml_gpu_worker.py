"""The NVML worker as the daemon has it: real processes that hang and crash, at what cost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nvml_worker_kit import POWER, QUICK, Rig, children, rig

from rigctl.core.reading import Missing
from rigctl.sim.cardfile import CallFault, Holder

__all__ = ["rig"]

GIB = 1 << 30
FREEZER = Path("/sys/fs/cgroup/freezer")


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
    await rig.replace_worker(tick=20.0, answer=20.0)
    await rig.answered()
    pid = rig.gpus.pid
    sweeps = await asyncio.gather(*(rig.gpus.sample() for _ in range(4)))
    assert all(sweep.answered for sweep in sweeps)
    assert rig.gpus.pid == pid


@pytest.mark.case("C57")
async def test_a_hanging_card_leaves_the_loop_free(rig: Rig) -> None:
    """While NVML hangs the last sweep comes at once, marked, and says for how long."""
    first = await rig.answered()
    await rig.replace_worker(answer=300.0)
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
    assert children() == {pid}


@pytest.mark.case("C57")
async def test_a_hung_worker_is_replaced_and_the_card_left_out(rig: Rig) -> None:
    """A card that hangs NVML twice in a row is left out, so that the other seven are seen."""
    await rig.answered()
    rig.card(6, faults={POWER: CallFault(hang=300.0)})
    sweep = await rig.until(lambda sweep: sweep.answered and sweep.cards[6].lost)
    assert sweep.cards[6].lost == "NVML hung when asked about this card"
    assert [bool(card.lost) for card in sweep.cards].count(True) == 1
    assert len(children()) == 1


@pytest.mark.case("C57")
async def test_a_card_that_hung_once_gets_another_chance(rig: Rig) -> None:
    """One hang costs a worker, not the card; an answer between two hangs wipes the slate."""
    await rig.answered()
    for _ in range(2):
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
    assert children() == set()


@pytest.mark.case("C57")
async def test_a_worker_stuck_in_the_kernel_is_left_alone(rig: Rig, frozen: Any) -> None:
    """A worker that outlives SIGKILL is neither joined nor doubled, and named."""
    await rig.replace_worker(answer=0.1, leave=0.1)
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
    assert children() == {pid}
    async with asyncio.timeout(5):
        await rig.gpus.close()


@pytest.mark.case("C11")
async def test_a_crash_in_the_library_costs_one_answer(rig: Rig) -> None:
    """SIGSEGV on card 3: one stale sweep with a note, then seven live cards and a lost one."""
    await rig.replace_worker(tick=20.0, answer=20.0)
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
async def test_a_lost_card_keeps_the_name_it_had(rig: Rig) -> None:
    """A new worker that gets no more than a UUID out of a card still has its name and place."""
    before = (await rig.answered()).cards[3]
    broken = CallFault(code=15)
    rig.card(3, lost=15, faults={"nvmlDeviceGetName": broken, "nvmlDeviceGetPciInfo_v3": broken})
    os.kill(rig.gpus.pid or 0, signal.SIGKILL)
    sweep = await rig.until(lambda sweep: sweep.answered and sweep.cards[3].lost)
    assert (sweep.cards[3].name, sweep.cards[3].pci) == (before.name, before.pci)


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
