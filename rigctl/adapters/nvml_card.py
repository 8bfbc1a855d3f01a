"""One card asked through NVML: each field on its own, each number checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pynvml as _binding

from rigctl.adapters.nvml_processes import ProcessNames, processes
from rigctl.core.cards import CardProcess, CardSample
from rigctl.core.ids import CardId
from rigctl.core.reading import Missing, Reading, Why, known

pynvml: Any = _binding  # the binding carries no types

SLOW_SECONDS = 5.0
"""How old the settings of a card may be (limit, link, persistence): they hardly ever change."""
LOST_SECONDS = 30.0
"""How long a lost card is left alone: asking it costs time, and has crashed the library (C11)."""
NOT_ASKED = Missing(Why.STALE, "not asked while idle: the question itself wakes the card")

_GONE = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "GPU is lost (Xid 79?)",
    pynvml.NVML_ERROR_RESET_REQUIRED: "GPU needs a reset",
}
_ABSENT = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
)
_THROTTLE = {
    0x002: "clocks set by hand",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal",
    0x040: "thermal, by hardware",
    0x080: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}
"""NVML's clock event bits in words; bit 1, idle, holds nothing down."""


class CardLostError(Exception):
    """The card no longer answers; says what NVML said."""


class SessionGoneError(Exception):
    """NVML must be initialised anew: it no longer knows us."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What never changes about a card while the driver runs."""

    uuid: CardId
    index: int
    pci: str
    name: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What changes only when somebody changes it, read every few seconds."""

    limit_watts: Reading
    default_limit_watts: Reading
    max_limit_watts: Reading
    fan: Reading
    pcie_generation: Reading
    pcie_width: Reading
    persistence: Reading


def lost_sample(identity: Identity, text: str) -> CardSample:
    """A card that is there by name only."""
    gone = Missing(Why.LOST, text)
    readings = {name: gone for name in CardSample.__slots__ if name not in _NAMING}
    return CardSample(
        uuid=identity.uuid,
        index=identity.index,
        pci=identity.pci,
        name=identity.name,
        lost=text,
        **readings,
    )


_NAMING = ("uuid", "index", "pci", "name", "lost")


class NvmlCard:
    """One card's handle, with what this NVML session has learnt about it."""

    def __init__(self, handle: Any, identity: Identity) -> None:
        self.handle = handle
        self.identity = identity
        self.all_unknown = False
        """Whether the last reading got Unknown Error (999) for every question."""
        self._absent: set[str] = set()
        self._settings: Settings | None = None
        self._settings_at = float("-inf")
        self._lost = ""
        self._lost_at = float("-inf")
        self._answers = 0
        self._unknowns = 0
        self._pcie: tuple[Reading, Reading] = (Missing(Why.NOT_YET), Missing(Why.NOT_YET))

    def read(self, now: float, names: ProcessNames, *, cheap: bool, pcie: bool) -> CardSample:
        """Ask the card; `cheap` leaves out what wakes it, `pcie` takes 40 ms more (C82)."""
        if self._lost and now - self._lost_at < LOST_SECONDS:
            return lost_sample(self.identity, self._lost)
        self._answers = self._unknowns = 0
        try:
            sample = self._read(now, names, cheap=cheap, pcie=pcie)
        except CardLostError as lost:
            return self._mark_lost(now, str(lost))
        self.all_unknown = self._unknowns > 0 and not self._answers
        if self.all_unknown:
            return self._mark_lost(now, "Unknown Error on every call")
        self._lost = ""
        return sample

    def forget_settings(self) -> None:
        """Read the limits anew at the next sweep: one was just set."""
        self._settings_at = float("-inf")

    def _mark_lost(self, now: float, text: str) -> CardSample:
        self._lost, self._lost_at = text, now
        return lost_sample(self.identity, text)

    def _read(self, now: float, names: ProcessNames, *, cheap: bool, pcie: bool) -> CardSample:
        pstate = self._number("nvmlDeviceGetPerformanceState", high=15)
        if self._settings is None or now - self._settings_at >= SLOW_SECONDS:
            self._settings, self._settings_at = self._read_settings(), now
        settings = self._settings
        total, used, reserved = self._memory()
        power = self._number("nvmlDeviceGetPowerUsage", scale=1e-3, high=float("inf"))
        holders = self._processes(total, names)
        utilisation: Reading = NOT_ASKED
        rx: Reading = NOT_ASKED
        tx: Reading = NOT_ASKED
        if not cheap:
            utilisation = self._number(
                "nvmlDeviceGetUtilizationRates", pick=lambda rates: rates.gpu, high=100
            )
            if pcie:
                self._pcie = self._throughput(1), self._throughput(0)
            rx, tx = self._pcie
        return CardSample(
            uuid=self.identity.uuid,
            index=self.identity.index,
            pci=self.identity.pci,
            name=self.identity.name,
            watts=plausible_watts(power, settings.max_limit_watts, pstate, utilisation),
            limit_watts=settings.limit_watts,
            default_limit_watts=settings.default_limit_watts,
            max_limit_watts=settings.max_limit_watts,
            joules=self._number(
                "nvmlDeviceGetTotalEnergyConsumption", scale=1e-3, high=float("inf")
            ),
            pstate=pstate,
            utilisation=utilisation,
            memory_used=used,
            memory_reserved=reserved,
            memory_total=total,
            celsius=self._temperature(),
            fan=settings.fan,
            clock_mhz=self._number("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM, high=50_000),
            memory_clock_mhz=self._number(
                "nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM, high=50_000
            ),
            throttle=self._throttle(),
            pcie_rx=rx,
            pcie_tx=tx,
            pcie_generation=settings.pcie_generation,
            pcie_width=settings.pcie_width,
            persistence=settings.persistence,
            processes=holders,
        )

    def _read_settings(self) -> Settings:
        most = self._number(
            "nvmlDeviceGetPowerManagementLimitConstraints",
            pick=lambda limits: limits[1],
            scale=1e-3,
            high=10_000,
        )
        old = self._settings
        constant = old is not None and not isinstance(old.default_limit_watts, Missing)
        return Settings(
            limit_watts=self._number("nvmlDeviceGetEnforcedPowerLimit", scale=1e-3, high=10_000),
            default_limit_watts=old.default_limit_watts
            if old is not None and constant
            else self._number("nvmlDeviceGetPowerManagementDefaultLimit", scale=1e-3, high=10_000),
            max_limit_watts=most,
            fan=self._number("nvmlDeviceGetFanSpeed", high=200),
            pcie_generation=self._number("nvmlDeviceGetCurrPcieLinkGeneration", high=32),
            pcie_width=self._number("nvmlDeviceGetCurrPcieLinkWidth", high=64),
            persistence=self._number("nvmlDeviceGetPersistenceMode", high=1),
        )

    def _memory(self) -> tuple[Reading, Reading, Reading]:
        """Total, used and reserved bytes; the v1 call hides the reserve in the used (C86)."""
        if "memory v2" not in self._absent:
            answer = self._ask("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2)
            if not isinstance(answer, Missing):
                return _bytes(answer.total, answer.used, answer.reserved)
        answer = self._ask("nvmlDeviceGetMemoryInfo")
        if isinstance(answer, Missing):
            return answer, answer, answer
        total, used, _ = _bytes(answer.total, answer.used, 0)
        return total, used, Missing(Why.UNSUPPORTED, "the driver's own share is in the used bytes")

    def _temperature(self) -> Reading:
        if "nvmlDeviceGetTemperatureV" not in self._absent:
            reading = self._number(
                "nvmlDeviceGetTemperatureV", pynvml.NVML_TEMPERATURE_GPU, high=150
            )
            if not isinstance(reading, Missing) or reading.why is not Why.UNSUPPORTED:
                return reading
        return self._number("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU, high=150)

    def _throttle(self) -> tuple[str, ...] | Missing:
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if isinstance(bits, Missing) and bits.why is Why.UNSUPPORTED:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return bits if isinstance(bits, Missing) else throttle_words(bits)

    def _throughput(self, counter: int) -> Reading:
        return self._number("nvmlDeviceGetPcieThroughput", counter, scale=1024.0, high=1e12)

    def _processes(self, total: Reading, names: ProcessNames) -> tuple[CardProcess, ...] | Missing:
        compute = self._ask("nvmlDeviceGetComputeRunningProcesses_v3")
        if isinstance(compute, Missing):
            return compute
        graphics = self._ask("nvmlDeviceGetGraphicsRunningProcesses_v3")
        return processes(_rows(compute, graphics), total, names)

    def _number(
        self,
        function: str,
        *arguments: Any,
        high: float,
        scale: float = 1.0,
        pick: Callable[[Any], float] = float,
    ) -> Reading:
        answer = self._ask(function, *arguments)
        if isinstance(answer, Missing):
            return answer
        value = pick(answer) * scale
        if not 0 <= value <= high:
            return Missing(Why.IMPLAUSIBLE, f"{value:g}")
        return value

    def _ask(self, function: str, *arguments: Any) -> Any:
        """The binding's answer, or Missing; what a card lacks is asked once a session (C80)."""
        if function in self._absent:
            return Missing(Why.UNSUPPORTED)
        call = getattr(pynvml, function, None)
        if call is None:
            self._absent.add(function)
            return Missing(Why.UNSUPPORTED)
        try:
            answer = call(self.handle, *arguments)
        except pynvml.NVMLError as error:
            return self._failed(function, arguments, error)
        self._answers += 1
        return answer

    def _failed(self, function: str, arguments: tuple[Any, ...], error: Any) -> Missing:
        code = error.value
        if code in _GONE:
            raise CardLostError(_GONE[code])
        if code == pynvml.NVML_ERROR_UNINITIALIZED:
            raise SessionGoneError(f"{error}")
        if code == pynvml.NVML_ERROR_UNKNOWN:
            self._unknowns += 1
            return Missing(Why.FAILED, f"{error}")
        self._answers += 1
        if code in _ABSENT:
            if function != "nvmlDeviceGetMemoryInfo":
                self._absent.add(function)
            elif arguments:
                self._absent.add("memory v2")
            return Missing(Why.UNSUPPORTED, f"{error}")
        return Missing(Why.FAILED, f"{error}")


def plausible_watts(
    watts: Reading, most: Reading, pstate: Reading, utilisation: Reading
) -> Reading:
    """Power as read, unless no such card can draw it: a wrong number is worse than none (C78)."""
    if isinstance(watts, Missing):
        return watts
    active = known(pstate, 0) < 8 or known(utilisation, 0) > 0
    if watts > 2 * known(most, 1000) or (watts < 1 and active):
        return Missing(Why.IMPLAUSIBLE, f"{watts:g} W")
    return watts


def throttle_words(bits: int) -> tuple[str, ...]:
    """What holds the clocks down, in words; a bit newer than this program keeps its number."""
    unknown = bits & ~sum(_THROTTLE) & ~1
    words = tuple(word for bit, word in _THROTTLE.items() if bits & bit)
    return (*words, f"reason 0x{unknown:x}") if unknown else words


def _bytes(total: int, used: int, reserved: int) -> tuple[Reading, Reading, Reading]:
    if not 0 < total < 1 << 48:
        odd = Missing(Why.IMPLAUSIBLE, f"{total} bytes in all")
        return odd, odd, odd
    return float(total), _within(used, total), _within(reserved, total)


def _within(part: int, total: int) -> Reading:
    return float(part) if part <= total else Missing(Why.IMPLAUSIBLE, f"{part} bytes")


def _rows(compute: Iterable[Any], graphics: Any) -> Iterable[tuple[int, int | None]]:
    lists = (compute,) if isinstance(graphics, Missing) else (compute, graphics)
    return ((row.pid, row.usedGpuMemory) for rows in lists for row in rows)
