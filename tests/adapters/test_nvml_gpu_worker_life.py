"""The NVML worker's life: slow starts, release for a reset, hopeless libraries, its end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from nvml_worker_kit import POWER, QUICK, Rig, children, rig

from rigctl.adapters.gpus import GpuWorker
from rigctl.core.ids import CardId
from rigctl.sim import cardfile
from rigctl.sim.cardfile import CallFault, rtx_3090s

__all__ = ["rig"]


@pytest.mark.case("C81")
async def test_a_slow_start_is_no_hang(rig: Rig) -> None:
    """nvmlInit of seconds is told as a start, with the remedy, and the worker is left to it."""
    rig.write(replace(rig.table, init_seconds=2.0))
    await rig.replace_worker(answer=1.5)
    sweep = await rig.gpus.sample()
    assert sweep.error.startswith("NVML is starting: 0:00 so far")
    pid = rig.gpus.pid
    rig.ahead += 8.0
    sweep = await rig.gpus.sample()
    assert sweep.error.startswith("NVML is starting: 0:08 so far - slow without persistence mode")
    assert (await rig.answered()).error == ""
    assert rig.gpus.pid == pid


@pytest.mark.case("C57")
async def test_a_start_after_a_hang_is_still_silence(rig: Rig) -> None:
    """When the new worker hangs in nvmlInit too, the time without an answer goes on counting."""
    await rig.answered()
    pid = rig.gpus.pid
    hang = {POWER: CallFault(hang=300.0), "nvmlInitWithFlags": CallFault(hang=300.0)}
    rig.write(replace(rig.table, faults=hang))
    sweep = await rig.until(lambda _sweep: rig.gpus.pid not in (pid, None))
    rig.ahead += 12.0
    sweep = await rig.gpus.sample()
    assert sweep.error.startswith("NVML not answering for 0:1")


@pytest.mark.case("C89")
async def test_a_release_lets_a_running_sweep_finish(rig: Rig) -> None:
    """The polite way first: a process killed inside the driver has frozen cards."""
    await rig.answered()
    await rig.replace_worker(tick=10.0, leave=10.0)
    await rig.answered()
    rig.write(replace(rig.table, call_seconds=0.002))
    running = asyncio.ensure_future(rig.gpus.sample())
    await asyncio.sleep(0.05)
    await rig.gpus.release(600.0)
    sweep = await running
    assert sweep.answered
    assert len(sweep.cards) == 8


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
    assert children() == {rig.gpus.pid}
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
    assert children() == set()
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


async def test_a_worker_that_keeps_ending_is_started_ever_more_seldom(
    rig: Rig, tmp_path: Path
) -> None:
    """Once at once, then after 1 s, 2 s and so on; each end is said."""
    starts = tmp_path / "starts"
    held = time.monotonic()
    gpus = GpuWorker(
        ["sh", "-c", f"echo x >> {starts}; exit 3"],
        patience=replace(QUICK, tick=5.0),
        clock=lambda: held + rig.ahead,
    )
    for _ in range(6):
        assert "the NVML worker ended with code 3" in (await gpus.sample()).error
    assert starts.read_text() == "x\nx\n"
    rig.ahead += 1.0
    for _ in range(3):
        await gpus.sample()
    assert starts.read_text() == "x\nx\nx\n"
    await gpus.close()


def test_a_hung_worker_goes_with_a_killed_daemon(tmp_path: Path) -> None:
    """kill -9 of the daemon while NVML hangs: nobody reads the closed pipe, yet it ends."""
    cards = rtx_3090s(1, faults={POWER: CallFault(hang=300.0)})
    cardfile.write(tmp_path / "cards.json", cards)
    program = f"""
import asyncio, sys
from rigctl.adapters.gpus import GpuWorker
async def main():
    worker = [sys.executable, "-m", "rigctl.sim.nvml_worker", {str(tmp_path / "cards.json")!r}]
    gpus = GpuWorker(worker)
    while "card" not in (await gpus.sample()).error:
        pass
    print(gpus.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        worker = Path(f"/proc/{int(daemon.stdout.readline())}")
        assert worker.exists()
        daemon.kill()
    for _ in range(500):
        if _gone(worker):
            break
        time.sleep(0.02)
    assert _gone(worker)


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


def _gone(process: Path) -> bool:
    """Whether a /proc folder is that of no living process."""
    try:
        return " Z " in (process / "stat").read_text()
    except OSError:
        return True
