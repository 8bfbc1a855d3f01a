"""NVML read through the real binding: one session for life, begun anew only when it breaks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pynvml as _binding

from rigctl.adapters.nvml_card import (
    LOST_SECONDS,
    Identity,
    NvmlCard,
    SessionGoneError,
    lost_sample,
)
from rigctl.adapters.nvml_processes import ProcessNames
from rigctl.adapters.nvml_versions import Versions, versions
from rigctl.core.cards import CardSample, GpuSweep
from rigctl.core.ids import CardId, Mono

pynvml: Any = _binding  # the binding carries no types

SKIPPED = "not asked"
"""`lost` of a card left out on request; whoever asked for that says why."""

_BACK_OFF = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before the next nvmlInit, by failures in a row (C90)."""


class NvmlReader:
    """Implements `ports.GpuSource`. A sick card or field costs that card or field only.

    `mark` is told what is about to be asked (`init`, `#3`, a UUID, then nothing), so that
    whoever watches a hang or crash of this process knows the card at fault.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        versions: Versions = versions,
        mark: Callable[[str], None] = lambda _place: None,
    ) -> None:
        self._clock = clock
        self._versions = versions
        self._mark = mark
        self._open = False
        self._cards: dict[int, NvmlCard] = {}
        self._unreachable: dict[int, tuple[float, str]] = {}
        self._count = 0
        self._driver = ""
        self._library = ""
        self._failures = 0
        self._retry_at = float("-inf")
        self._error = ""
        self._reboot_needed = False
        self._pcie_turn = 0

    def sample(self, cheap: bool = False, skip: frozenset[str] = frozenset()) -> GpuSweep:
        """One sweep. `cheap` leaves out what keeps idle cards awake; `skip` names cards
        (UUID, or `#index`) that are not to be touched."""
        begun = self._clock()
        cards: tuple[CardSample, ...] = ()
        if self._open or begun >= self._retry_at:
            try:
                if not self._open:
                    self._begin()
                cards = tuple(
                    self._card(index, begun, cheap, skip, names)
                    for names in (ProcessNames(),)
                    for index in range(self._count)
                )
                self._judge()
            except (pynvml.NVMLError, SessionGoneError) as problem:
                cards = ()
                self._broken(problem)
        self._mark("")
        self._pcie_turn += 1
        ended = self._clock()
        return GpuSweep(
            at=Mono(ended),
            cards=cards,
            driver=self._driver,
            library=self._library,
            error="" if cards else self._error or "NVML shows no card",
            took=ended - begun,
            reboot_needed=not cards and self._reboot_needed,
        )

    def set_power_limit(self, card: CardId, watts: float) -> str:
        """Set one card's limit; empty when done, else what stands in the way."""
        if not self._open:
            self.sample(cheap=True)
        for known in self._cards.values():
            if known.identity.uuid == card:
                return _set_limit(known, watts)
        return f"no card {card} answers"

    def close(self) -> None:
        """End the session, so that the library holds no device open."""
        if self._open:
            self._open = False
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError:
                pass  # a broken session is as closed as it gets

    def _begin(self) -> None:
        self._mark("init")
        pynvml.nvmlInit()
        self._open = True
        self._cards.clear()
        self._unreachable.clear()
        self._driver = pynvml.nvmlSystemGetDriverVersion()
        self._library = pynvml.nvmlSystemGetNVMLVersion()
        self._count = pynvml.nvmlDeviceGetCount()

    def _card(
        self, index: int, now: float, cheap: bool, skip: frozenset[str], names: ProcessNames
    ) -> CardSample:
        place = f"#{index}"
        if place in skip:
            return lost_sample(Identity(CardId(""), index, "", ""), SKIPPED)
        if index not in self._cards:
            self._mark(place)
            if problem := self._reach(index, now):
                return lost_sample(Identity(CardId(""), index, "", ""), problem)
        card = self._cards[index]
        if card.identity.uuid in skip:
            return lost_sample(card.identity, SKIPPED)
        self._mark(card.identity.uuid)
        return card.read(now, names, cheap=cheap, pcie=self._pcie_turn % self._count == index)

    def _reach(self, index: int, now: float) -> str:
        """Get a card's handle and name; what NVML said where it has none."""
        at, problem = self._unreachable.get(index, (float("-inf"), ""))
        if now - at < LOST_SECONDS:
            return problem
        try:
            self._cards[index] = _find(index)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_UNINITIALIZED:
                raise
            problem = f"no handle: {error}"
            self._unreachable[index] = now, problem
            return problem
        self._unreachable.pop(index, None)
        return ""

    def _judge(self) -> None:
        """Unknown Error from every card is the session's fault, not that of all cards (C90)."""
        if self._cards and all(card.all_unknown for card in self._cards.values()):
            raise SessionGoneError("Unknown Error from every card")
        self._failures = 0
        self._error = ""

    def _broken(self, problem: Any) -> None:
        self.close()
        wait = _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        self._retry_at = self._clock() + wait
        self._error = self._explain(problem)

    def _explain(self, problem: Any) -> str:
        code = problem.value if isinstance(problem, pynvml.NVMLError) else 0
        self._reboot_needed = code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
        if self._reboot_needed:
            module, library = self._versions()
            return (
                f"NVML unavailable: kernel module {module or 'unknown'}, "
                f"library {library or 'unknown'} - reboot needed"
            )
        if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return "NVML unavailable: libnvidia-ml.so.1 not found - install the NVIDIA driver"
        if code == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return "NVML unavailable: the driver is not loaded - `sudo modprobe nvidia`"
        if self._failures > 2:
            return (
                f"NVML unavailable: {problem}, {self._failures} times in a row - in a container "
                "the cards are lost when systemd reloads: restart it; else see `dmesg`"
            )
        return f"NVML unavailable: {problem} - trying again"


def _find(index: int) -> NvmlCard:
    """A card's handle, taken by its UUID: an index moves when a neighbour is lost (C13)."""
    first = pynvml.nvmlDeviceGetHandleByIndex(index)
    uuid = pynvml.nvmlDeviceGetUUID(first)
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    return NvmlCard(handle, Identity(CardId(uuid), index, _pci(handle), _name(handle)))


def _pci(handle: Any) -> str:
    """The bus address; empty where a lost card no longer tells it."""
    try:
        info = pynvml.nvmlDeviceGetPciInfo_v3(handle)
    except pynvml.NVMLError:
        return ""
    return f"{info.domain:04X}:{info.bus:02X}:{info.device:02X}.0"


def _name(handle: Any) -> str:
    try:
        return str(pynvml.nvmlDeviceGetName(handle))
    except pynvml.NVMLError:
        return ""


def _set_limit(card: NvmlCard, watts: float) -> str:
    uuid = card.identity.uuid
    try:
        pynvml.nvmlDeviceSetPowerManagementLimit(card.handle, round(watts * 1000))
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
            return f"needs root: `sudo nvidia-smi -i {uuid} -pl {watts:g}`"
        if error.value == pynvml.NVML_ERROR_INVALID_ARGUMENT:
            return f"{watts:g} W is outside what the card takes{_range(card)}"
        return f"{error}"
    card.forget_settings()
    return ""


def _range(card: NvmlCard) -> str:
    try:
        low, high = pynvml.nvmlDeviceGetPowerManagementLimitConstraints(card.handle)
    except pynvml.NVMLError:
        return ""
    return f": {low / 1000:g} to {high / 1000:g} W"
