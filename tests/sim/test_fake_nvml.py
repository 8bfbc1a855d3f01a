"""The fake NVML through the real binding: memory freed late, cards that wake, torn files."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from rigctl.sim import cardfile, gpus
from rigctl.sim.cardfile import CallFault, CardTable, Holder, rtx_3090s

GIB = 1 << 30
MIB = 1 << 20


class Fake:
    """The binding, initialised over a card file that the test changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.table = rtx_3090s()
        cardfile.write(path, self.table)
        gpus.install(path)
        pynvml.nvmlInit()

    def card(self, index: int, **changes: Any) -> Any:
        """Change one card; its handle."""
        cards = list(self.table.cards)
        cards[index] = replace(cards[index], **changes)
        self.table = CardTable(tuple(cards))
        cardfile.write(self.path, self.table)
        return pynvml.nvmlDeviceGetHandleByIndex(index)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Fake]:
    """A fake in the place of the library; the binding forgets it afterwards."""
    yield Fake(tmp_path / "cards.json")
    pynvml.nvmlShutdown()
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    """A process to hold memory, which the test may end."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def used(handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2).used)


def wait_for(wanted: int, handle: Any) -> float:
    """Seconds until the card's used bytes are as wanted."""
    begun = time.monotonic()
    while used(handle) != wanted:
        assert time.monotonic() - begun < 10, used(handle)
        time.sleep(0.01)
    return time.monotonic() - begun


@pytest.mark.case("C64")
def test_memory_goes_a_while_after_its_process(fake: Fake, holder: subprocess.Popen[bytes]) -> None:
    """All of it stays at first, then part, then none; a baseline is there from first to last."""
    handle = fake.card(
        0,
        memory_used=450 * MIB,
        processes=(Holder(holder.pid, 10 * GIB),),
        release_seconds=0.5,
    )
    assert used(handle) == 10 * GIB + 450 * MIB
    holder.kill()
    holder.wait()
    time.sleep(0.1)
    assert used(handle) == 10 * GIB + 450 * MIB
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(handle) == []
    wait_for(4 * GIB + 450 * MIB, handle)
    wait_for(450 * MIB, handle)


@pytest.mark.case("C64")
def test_memory_may_never_be_freed(fake: Fake, holder: subprocess.Popen[bytes]) -> None:
    """Without a release time the memory of a dead process stays for good."""
    handle = fake.card(0, processes=(Holder(holder.pid, 10 * GIB),), release_seconds=None)
    holder.kill()
    holder.wait()
    for _ in range(4):
        assert used(handle) == 10 * GIB
        time.sleep(0.1)


def test_a_zombie_holds_nothing(fake: Fake) -> None:
    """A process that ended and was not reaped has given its memory back."""
    process = subprocess.Popen(["sleep", "60"])
    handle = fake.card(0, processes=(Holder(process.pid, GIB),), release_seconds=0.0)
    assert used(handle) == GIB
    os.kill(process.pid, signal.SIGKILL)
    wait_for(0, handle)
    assert Path(f"/proc/{process.pid}").exists()
    process.wait()


def test_a_recycled_pid_holds_nothing(fake: Fake) -> None:
    """A pid with another start time is another process."""
    other = Holder(os.getpid(), GIB, start_ticks=1)
    handle = fake.card(0, processes=(other,), release_seconds=0.0)
    assert used(handle) == 0


@pytest.mark.case("C82")
def test_a_utilisation_query_wakes_the_card(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2 for three seconds after the question, P8 ten seconds after the last one."""
    handle = fake.card(0, wakes_when_asked=True, watts=8.0)
    now = time.monotonic()
    monkeypatch.setattr("rigctl.sim.gpus.time.monotonic", lambda: now)
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 8
    pynvml.nvmlDeviceGetUtilizationRates(handle)
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 2
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 28_000
    now += 4.0
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 5
    now += 6.0
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 8
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 8_000


def test_errors_are_the_bindings_own(fake: Fake) -> None:
    """A fault's code comes out as the binding's exception, text and all."""
    handle = fake.card(0, faults={"nvmlDeviceGetFanSpeed": CallFault(code=3)})
    with pytest.raises(pynvml.NVMLError_NotSupported, match="Not Supported"):
        pynvml.nvmlDeviceGetFanSpeed(handle)
    handle = fake.card(0, faults={"nvmlDeviceGetFanSpeed": CallFault(code=19)})
    with pytest.raises(pynvml.NVMLError) as caught:
        pynvml.nvmlDeviceGetFanSpeed(handle)
    assert "Unknown Error 19" in str(caught.value)
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetViolationStatus(handle, 0)


def test_a_torn_card_file_leaves_the_last_table(fake: Fake) -> None:
    """A file that is no table is not believed; the next good one is."""
    handle = fake.card(0, celsius=50)
    assert pynvml.nvmlDeviceGetTemperature(handle, 0) == 50
    fake.path.write_text("{")
    assert pynvml.nvmlDeviceGetTemperature(handle, 0) == 50
    fake.card(0, celsius=60)
    assert pynvml.nvmlDeviceGetTemperature(handle, 0) == 60


def test_limits_set_through_nvml_are_known_to_the_world(fake: Fake) -> None:
    """The writer of the card file learns set limits, and a new driver session forgets them."""
    handle = fake.card(0)
    uuid = fake.table.cards[0].uuid
    pynvml.nvmlDeviceSetPowerManagementLimit(handle, 280_000)
    assert cardfile.limits(fake.path, session=0) == {uuid: 280.0}
    assert cardfile.limits(fake.path, session=1) == {}
    fake.card(0, celsius=51)
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 280_000
