"""The fake NVML: stands in for the C library below the real `pynvml` binding.

`install(path)` assigns it to `pynvml.nvmlLib`; the binding's own functions then call it with
their own C structures, so that whatever works on it works through the real call path.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pynvml as _binding

from rigctl.sim import cardfile
from rigctl.sim.cardfile import CallFault, CardFileError, CardState, CardTable
from rigctl.sim.held_memory import HeldMemory

pynvml: Any = _binding  # the binding carries no types

UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
VERSION_MISMATCH = 25

_AWAKE_SECONDS = 3.0
"""P2 for this long after a utilisation query of a card that wakes when asked (C82)."""
_SETTLE_SECONDS = 10.0
"""And back in its own P-state after this long without one."""

_NO_FAULT = CallFault()

_NUMBERS: dict[str, Callable[[CardState], int]] = {
    "nvmlDeviceGetPowerManagementLimit": lambda card: round(card.limit_watts * 1000),
    "nvmlDeviceGetEnforcedPowerLimit": lambda card: round(card.limit_watts * 1000),
    "nvmlDeviceGetPowerManagementDefaultLimit": lambda card: round(card.default_limit_watts * 1000),
    "nvmlDeviceGetTotalEnergyConsumption": lambda card: round(card.joules * 1000),
    "nvmlDeviceGetFanSpeed": lambda card: card.fan,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda card: card.throttle,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda card: card.throttle,
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda card: card.pcie_generation,
    "nvmlDeviceGetCurrPcieLinkWidth": lambda card: card.pcie_width,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda card: card.pcie_generation,
    "nvmlDeviceGetMaxPcieLinkWidth": lambda card: card.pcie_width,
    "nvmlDeviceGetPersistenceMode": lambda card: int(card.persistence),
    "nvmlDeviceGetComputeMode": lambda _card: 0,
    "nvmlDeviceGetDisplayMode": lambda _card: 0,
    "nvmlDeviceGetDisplayActive": lambda _card: 0,
}
"""Functions of one card that hand out one number."""

_LACKING = (
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetDriverModel_v2",
    "nvmlDeviceGetDriverModel",
)
"""What a gaming card does not report, and other monitors ask for all the same."""

_KNOWN_OF_THE_LOST = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3",
)
"""What the library remembers of a card that fell off the bus (C11)."""


def install(path: Path) -> FakeNvml:
    """Put a fake over the card file in the place of libnvidia-ml.so.1, for this process."""
    fake = FakeNvml(path)
    pynvml.nvmlLib = fake
    pynvml._nvmlGetFunctionPointer_cache.clear()
    return fake


class FakeNvml:
    """Answers as the library would, from a card file looked at anew at each call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = str(path)
        self._seen: tuple[int, int, int] | None = None
        self._table = CardTable(())
        self._limits: dict[str, float] = {}
        self._session: int | None = None
        self._asked: dict[str, float] = {}
        self._memory_held = HeldMemory()
        for name, number in _NUMBERS.items():
            self._publish(name, partial(self._number, number))
        bodies: dict[str, Callable[..., int]] = {
            "nvmlDeviceGetPowerUsage": self._power,
            "nvmlDeviceGetPerformanceState": self._performance_state,
            "nvmlDeviceGetUtilizationRates": self._utilisation,
            "nvmlDeviceGetMemoryInfo": self._memory,
            "nvmlDeviceGetMemoryInfo_v2": self._memory_v2,
            "nvmlDeviceGetTemperature": self._temperature,
            "nvmlDeviceGetTemperatureV": self._temperature_v1,
            "nvmlDeviceGetClockInfo": self._clock,
            "nvmlDeviceGetPcieThroughput": self._pcie,
            "nvmlDeviceGetPowerManagementLimitConstraints": self._constraints,
            "nvmlDeviceGetComputeRunningProcesses_v3": self._processes,
            "nvmlDeviceGetGraphicsRunningProcesses_v3": self._no_processes,
            "nvmlDeviceGetMPSComputeRunningProcesses_v3": self._no_processes,
            "nvmlDeviceGetIndex": self._index,
            "nvmlDeviceGetMinorNumber": self._index,
            "nvmlDeviceGetMaxClockInfo": self._highest_clock,
            "nvmlDeviceGetCudaComputeCapability": self._capability,
            "nvmlDeviceGetName": self._name,
            "nvmlDeviceGetUUID": self._uuid,
            "nvmlDeviceGetPciInfo_v3": self._pci_info,
            "nvmlDeviceSetPowerManagementLimit": self._set_limit,
        }
        for name, body in bodies.items():
            self._publish(name, body)
        of_the_system: dict[str, Callable[..., int]] = {
            "nvmlShutdown": self._shutdown,
            "nvmlSystemGetDriverVersion": self._driver_version,
            "nvmlSystemGetNVMLVersion": self._library_version,
            "nvmlSystemGetCudaDriverVersion": self._cuda_version,
            "nvmlSystemGetCudaDriverVersion_v2": self._cuda_version,
            "nvmlDeviceGetCount_v2": self._count,
            "nvmlDeviceGetHandleByIndex_v2": self._by_index,
            "nvmlDeviceGetHandleByUUID": self._by_uuid,
        }
        for name, system in of_the_system.items():
            setattr(self, name, partial(self._system_call, name, system))
        for name in _LACKING:
            self._publish(name, lambda *_: cardfile.NOT_SUPPORTED)
        self.nvmlInitWithFlags = self._init
        self.nvmlErrorString = partial(self._error_string)

    @property
    def table(self) -> CardTable:
        """The card file as it is now; an unreadable one leaves the last good table."""
        try:
            stat = os.stat(self._file)
            seen = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if seen != self._seen:
                self._table = cardfile.read(self._path)
                self._limits = dict(cardfile.limits(self._path, self._table.session))
                self._seen = seen
        except (OSError, CardFileError):
            if self._seen is None:
                raise
        return self._table

    def _publish(self, name: str, body: Callable[..., int]) -> None:
        """Make a function of one card: its first argument is the handle."""
        setattr(self, name, partial(self._card_call, name, body))

    def _card_call(self, name: str, body: Callable[..., int], handle: Any, *rest: Any) -> int:
        table = self.table
        if code := self._session_code(table):
            return code
        number = (ctypes.c_void_p.from_buffer(handle).value or 0) // 16 - 1
        if not 0 <= number < len(table.cards):
            return INVALID_ARGUMENT
        card = table.cards[number]
        fault = card.faults.get(name) or table.faults.get(name) or _NO_FAULT
        if card.lost and not fault.crash and name not in _KNOWN_OF_THE_LOST:
            return card.lost
        _wait(table.call_seconds)
        return _suffer(fault) or (
            body(card, *rest) if fault.value is None else _hand_out(rest[-1], fault.value)
        )

    def _system_call(self, name: str, body: Callable[..., int], *arguments: Any) -> int:
        table = self.table
        return (
            self._session_code(table)
            or _suffer(table.faults.get(name) or _NO_FAULT)
            or body(*arguments)
        )

    def _session_code(self, table: CardTable) -> int:
        if self._session is None:
            return UNINITIALIZED
        return table.stale_code if self._session != table.session else 0

    def _init(self, _flags: int) -> int:
        table = self.table
        _wait(table.init_seconds)
        code = _suffer(table.faults.get("nvmlInitWithFlags") or _NO_FAULT) or table.init_code
        if not code:
            self._session = table.session
        return code

    def _shutdown(self) -> int:
        self._session = None
        return 0

    def _error_string(self, code: int) -> bytes:
        return f"Unknown Error {code}".encode()

    def _driver_version(self, text: Any, _size: Any) -> int:
        text.value = self._table.driver.encode()
        return 0

    def _library_version(self, text: Any, _size: Any) -> int:
        text.value = f"13.{self._table.library}".encode()
        return 0

    def _cuda_version(self, out: Any) -> int:
        return _hand_out(out, 13_000)

    def _count(self, out: Any) -> int:
        return _hand_out(out, len(self._table.cards))

    def _by_index(self, index: Any, out: Any) -> int:
        if index.value >= len(self._table.cards):
            return INVALID_ARGUMENT
        fault = self._table.cards[index.value].faults.get("nvmlDeviceGetHandleByIndex_v2")
        return (fault and _suffer(fault)) or _hand_out_handle(out, index.value)

    def _by_uuid(self, uuid: Any, out: Any) -> int:
        for index, card in enumerate(self._table.cards):
            if card.uuid.encode() == uuid.value:
                return _hand_out_handle(out, index)
        return NOT_FOUND

    def _number(self, number: Callable[[CardState], int], card: CardState, out: Any) -> int:
        return _hand_out(out, number(self._limited(card)))

    def _limited(self, card: CardState) -> CardState:
        if card.uuid not in self._limits:
            return card
        return replace(card, limit_watts=self._limits[card.uuid])

    def _index(self, card: CardState, out: Any) -> int:
        return _hand_out(out, self._table.cards.index(card))

    def _name(self, card: CardState, text: Any, _size: Any) -> int:
        text.value = card.name.encode()
        return 0

    def _uuid(self, card: CardState, text: Any, _size: Any) -> int:
        text.value = card.uuid.encode()
        return 0

    def _pci_info(self, card: CardState, out: Any) -> int:
        domain, bus, rest = card.pci.split(":")
        info = out._obj
        info.domain, info.bus, info.device = int(domain, 16), int(bus, 16), int(rest[:2], 16)
        info.busIdLegacy = card.pci.encode()
        info.busId = f"{int(domain, 16):08X}:{bus}:{rest}".encode()
        return 0

    def _awake(self, card: CardState) -> int | None:
        """The P-state our own questions hold the card in, if they do."""
        since = time.monotonic() - self._asked.get(card.uuid, float("-inf"))
        if not card.wakes_when_asked or since >= _SETTLE_SECONDS:
            return None
        return min(card.pstate, 2 if since < _AWAKE_SECONDS else 5)

    def _power(self, card: CardState, out: Any) -> int:
        watts = card.watts if self._awake(card) is None else max(card.watts, card.awake_watts)
        return _hand_out(out, round(watts * 1000))

    def _performance_state(self, card: CardState, out: Any) -> int:
        awake = self._awake(card)
        return _hand_out(out, card.pstate if awake is None else awake)

    def _utilisation(self, card: CardState, out: Any) -> int:
        self._asked[card.uuid] = time.monotonic()
        out._obj.gpu, out._obj.memory = card.utilisation, card.utilisation // 2
        return 0

    def _temperature(self, card: CardState, _sensor: Any, out: Any) -> int:
        return _hand_out(out, card.celsius)

    def _temperature_v1(self, card: CardState, out: Any) -> int:
        if out._obj.version != pynvml.nvmlTemperature_v1:
            return VERSION_MISMATCH
        out._obj.temperature = card.celsius
        return 0

    def _clock(self, card: CardState, kind: Any, out: Any) -> int:
        memory = kind.value == pynvml.NVML_CLOCK_MEM
        return _hand_out(out, card.memory_clock_mhz if memory else card.clock_mhz)

    def _highest_clock(self, _card: CardState, kind: Any, out: Any) -> int:
        return _hand_out(out, 9751 if kind.value == pynvml.NVML_CLOCK_MEM else 2100)

    def _pcie(self, card: CardState, counter: Any, out: Any) -> int:
        sent = counter.value == pynvml.NVML_PCIE_UTIL_TX_BYTES
        return _hand_out(out, round((card.pcie_tx if sent else card.pcie_rx) / 1024))

    def _capability(self, _card: CardState, major: Any, minor: Any) -> int:
        _hand_out(major, 8)
        return _hand_out(minor, 6)

    def _constraints(self, card: CardState, low: Any, high: Any) -> int:
        low._obj.value = round(card.min_limit_watts * 1000)
        return _hand_out(high, round(card.max_limit_watts * 1000))

    def _memory(self, card: CardState, out: Any) -> int:
        used = min(card.memory_total, self._memory_held.used(card) + card.memory_reserved)
        out._obj.total, out._obj.used = card.memory_total, used
        out._obj.free = card.memory_total - used
        return 0

    def _memory_v2(self, card: CardState, out: Any) -> int:
        if out._obj.version != pynvml.nvmlMemory_v2:
            return VERSION_MISMATCH
        used = min(card.memory_total - card.memory_reserved, self._memory_held.used(card))
        out._obj.total, out._obj.reserved, out._obj.used = (
            card.memory_total,
            card.memory_reserved,
            used,
        )
        out._obj.free = card.memory_total - card.memory_reserved - used
        return 0

    def _processes(self, card: CardState, count: Any, rows: Any) -> int:
        listed = self._memory_held.listed(card)
        room, count._obj.value = count._obj.value, len(listed)
        if room < len(listed):
            return INSUFFICIENT_SIZE
        for number, (pid, used) in enumerate(listed):
            rows[number].pid, rows[number].usedGpuMemory = pid, used
            rows[number].gpuInstanceId = rows[number].computeInstanceId = 0xFFFF_FFFF
        return 0

    def _no_processes(self, _card: CardState, count: Any, _rows: Any) -> int:
        return _hand_out(count, 0)

    def _set_limit(self, card: CardState, milliwatts: Any) -> int:
        watts = milliwatts.value / 1000
        if not self._table.may_set_limits:
            return cardfile.NO_PERMISSION
        if not card.min_limit_watts <= watts <= card.max_limit_watts:
            return INVALID_ARGUMENT
        cardfile.set_limit(self._path, self._table.session, card.uuid, watts)
        self._limits[card.uuid] = watts
        return 0


def _wait(seconds: float) -> None:
    if seconds:
        time.sleep(seconds)


def _suffer(fault: CallFault) -> int:
    """Hang, crash, or hand out an error code; 0 lets the call do its work."""
    _wait(fault.hang)
    if fault.crash:
        os.kill(os.getpid(), signal.SIGSEGV)
    return fault.code


def _hand_out(out: Any, number: int) -> int:
    target = out._obj
    for name in ("value", "gpu", "used", "temperature"):
        if hasattr(target, name):
            setattr(target, name, number)
    return 0


def _hand_out_handle(out: Any, index: int) -> int:
    """Handles are opaque to the binding: a number where the library has an address."""
    ctypes.c_void_p.from_address(ctypes.addressof(out._obj)).value = (index + 1) * 16
    return 0
