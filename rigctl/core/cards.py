"""One card as NVML shows it at one moment: every field a number or the reason it is absent."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.ids import CardId, Mono
from rigctl.core.reading import NOT_YET, Missing, Reading


@dataclass(frozen=True, slots=True)
class CardProcess:
    """Holds memory on a card. Shown and named; never by itself a reason to signal (C84)."""

    pid: int
    used_bytes: Reading
    name: str = ""
    """/proc comm, or empty when the pid is not visible here (a container, gone meanwhile)."""
    user: str = ""
    visible: bool = True
    """Whether /proc has this pid; False for another pid namespace or a process just gone (C04)."""


@dataclass(frozen=True, slots=True)
class CardSample:
    """One sweep's view of one card. A sick card or field costs that card or field only (C11)."""

    uuid: CardId
    index: int
    """NVML's own index, which is PCI order."""
    pci: str
    """`0000:0C:00.0`, upper case, 4-digit domain."""
    name: str
    lost: str = ""
    """Empty while the card answers; else what NVML said (`GPU is lost (Xid 79?)`)."""
    watts: Reading = NOT_YET
    limit_watts: Reading = NOT_YET
    """The enforced power limit."""
    default_limit_watts: Reading = NOT_YET
    max_limit_watts: Reading = NOT_YET
    joules: Reading = NOT_YET
    """The driver's energy counter; restarts at 0 with the driver (C80)."""
    pstate: Reading = NOT_YET
    """0 (full clocks) to 15."""
    utilisation: Reading = NOT_YET
    """Percent of the last sample period in which a kernel ran."""
    memory_used: Reading = NOT_YET
    """Bytes used, driver reserve left out where NVML's v2 call tells them apart (C86)."""
    memory_reserved: Reading = NOT_YET
    memory_total: Reading = NOT_YET
    celsius: Reading = NOT_YET
    fan: Reading = NOT_YET
    """Percent of full speed."""
    clock_mhz: Reading = NOT_YET
    memory_clock_mhz: Reading = NOT_YET
    throttle: tuple[str, ...] | Missing = NOT_YET
    """Reasons the clocks are held down now, in words (`power cap`, `thermal`); idle is none."""
    pcie_rx: Reading = NOT_YET
    """Bytes a second from the host."""
    pcie_tx: Reading = NOT_YET
    pcie_generation: Reading = NOT_YET
    pcie_width: Reading = NOT_YET
    persistence: Reading = NOT_YET
    """1 when persistence mode is on, 0 when off (C81)."""
    processes: tuple[CardProcess, ...] | Missing = NOT_YET


@dataclass(frozen=True, slots=True)
class GpuSweep:
    """All cards at one moment, as the NVML worker saw them."""

    at: Mono
    cards: tuple[CardSample, ...]
    driver: str = ""
    library: str = ""
    error: str = ""
    """Why there are no cards at all: init failed, version mismatch (C16), worker hung (C57)."""
    took: float = 0.0
    """Seconds the sweep needed."""
    reboot_needed: bool = False
    """Driver and library do not match: what stops now does not come back before a reboot (C16)."""
    answered: bool = True
    """False when the worker did not answer and these cards are the last ones known."""
