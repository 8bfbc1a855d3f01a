"""Eight cards' state over time: who holds them, what that makes them draw, and the table of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rigctl.sim.cardfile import CardTable, Holder, rtx_3090s
from rigctl.sim.world import RELEASE_SECONDS, Duty, card_at, celsius_after, fan_at


@dataclass(slots=True)
class Tenant:
    """One engine's report: it holds cards and makes them work."""

    pid: int
    cards: tuple[int, ...]
    schedulers: tuple[int, ...]
    duty: Duty
    held_bytes: int


@dataclass(slots=True)
class _Card:
    celsius: float = 36.0
    joules: float = 0.0
    lost: int = 0
    holders: dict[int, Holder] = field(default_factory=dict)
    """By pid; a dead one stays until its memory would be given back."""
    gone_since: dict[int, float] = field(default_factory=dict)


class Cards:
    """Told of tenants and of time passing; knows no socket and no file."""

    def __init__(self, count: int, speed: float, start_ticks: Callable[[int], int | None]) -> None:
        self._blank = rtx_3090s(count)
        self._cards = [_Card(celsius=35.0 + index % 4) for index in range(count)]
        self._speed = speed
        self._start_ticks = start_ticks
        self._tenants: dict[int, Tenant] = {}
        self._phase = 0.0
        self.limits: Mapping[str, float] = {}
        """Power limits set through NVML, by UUID."""

    @property
    def busy(self) -> bool:
        """Whether anything works, so that readings change by themselves."""
        rest = (Duty.OFF, Duty.SLEEPING, Duty.POLLING)
        return any(tenant.duty not in rest for tenant in self._tenants.values())

    def find(self, named: str) -> tuple[int, ...]:
        """Card numbers of a CUDA_VISIBLE_DEVICES value: indexes in PCI order, or UUIDs."""
        uuids = [card.uuid for card in self._blank.cards]
        found: list[int] = []
        for word in (part.strip() for part in named.split(",") if part.strip()):
            if word.isdigit() and int(word) < len(uuids):
                found.append(int(word))
            elif word in uuids:
                found.append(uuids.index(word))
        return tuple(found)

    def report(self, tenant: Tenant) -> None:
        """An engine says what it does."""
        self._tenants[tenant.pid] = tenant
        for card, pid in zip(tenant.cards, tenant.schedulers, strict=False):
            if tenant.held_bytes:
                self.hold(card, pid, tenant.held_bytes)

    def hold(self, card: int, pid: int, held: int) -> None:
        """A process holds memory on a card."""
        known = self._cards[card].holders.get(pid)
        ticks = known.start_ticks if known else self._start_ticks(pid)
        if ticks is not None:
            self._cards[card].holders[pid] = Holder(pid, held, ticks)

    def leave(self, pid: int) -> None:
        """An engine is gone; what its processes hold is given back as they end."""
        self._tenants.pop(pid, None)

    def lose(self, card: int, code: int) -> tuple[int, ...]:
        """A card falls off the bus (NVML error `code`; 0 brings it back); whose card it was."""
        self._cards[card].lost = code
        return tuple(tenant.pid for tenant in self._tenants.values() if card in tenant.cards)

    def tenant_on(self, card: int) -> int | None:
        """Pid of the engine on a card."""
        for tenant in self._tenants.values():
            if card in tenant.cards:
                return tenant.pid
        return None

    def _duty(self, index: int) -> Duty:
        for tenant in self._tenants.values():
            if index in tenant.cards[: len(tenant.schedulers)]:
                return tenant.duty
        return Duty.SLEEPING if self._cards[index].holders else Duty.OFF

    def _limit(self, index: int) -> float:
        blank = self._blank.cards[index]
        return self.limits.get(blank.uuid, blank.limit_watts)

    def advance(self, seconds: float, now: float) -> None:
        """Real seconds pass: energy flows, temperatures follow, dead processes let go."""
        self._phase = now % 3600
        for index, card in enumerate(self._cards):
            watts = card_at(self._duty(index), index, self._limit(index), self._phase).watts
            card.joules += watts * seconds
            card.celsius = celsius_after(card.celsius, watts, seconds * self._speed)
            for pid, holder in tuple(card.holders.items()):
                if self._start_ticks(pid) == holder.start_ticks:
                    card.gone_since.pop(pid, None)
                    continue
                since = card.gone_since.setdefault(pid, now)
                if now - since > self.release_seconds + 1.0:
                    del card.holders[pid], card.gone_since[pid]

    @property
    def release_seconds(self) -> float:
        """Real seconds from a process's end until its memory is free."""
        return RELEASE_SECONDS / self._speed

    def table(self) -> CardTable:
        """What NVML shows now."""
        rows = []
        for index, (blank, card) in enumerate(zip(self._blank.cards, self._cards, strict=True)):
            duty = self._duty(index)
            at = card_at(duty, index, self._limit(index), self._phase)
            loading = duty is Duty.LOADING
            traffic = 2.1e9 if loading else 4.0e7 if at.utilisation else 0.0
            rows.append(
                replace(
                    blank,
                    watts=round(at.watts, 2),
                    clock_mhz=at.clock_mhz,
                    memory_clock_mhz=at.memory_clock_mhz,
                    utilisation=at.utilisation,
                    celsius=round(card.celsius),
                    fan=fan_at(card.celsius),
                    pstate=at.pstate,
                    joules=card.joules,
                    throttle=4 if at.capped else 0 if at.utilisation else 1,
                    pcie_rx=traffic,
                    pcie_tx=traffic / 7,
                    processes=tuple(card.holders.values()),
                    release_seconds=self.release_seconds,
                    lost=card.lost,
                )
            )
        return replace(self._blank, cards=tuple(rows))
