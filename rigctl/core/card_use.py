"""Who holds a card, judged by NVML alone: *process gone* is not *memory freed*."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rigctl.core.cards import CardProcess, CardSample, GpuSweep
from rigctl.core.ids import CardId
from rigctl.core.reading import Missing

TOLERANCE = 640 * 1024 * 1024
"""Bytes over a card's baseline that still count as free: a driver reserve (C64), a desktop."""

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Use:
    """One card's holder in words; `held` is what stands between it and being free."""

    card: CardId
    kind: str
    """free, ours, foreign, unknown, lost, unseen."""
    held: float
    """Bytes over the baseline; 0 when free."""
    say: str
    """`card 5: 9.6 GiB held by pid 9001 (anna, python), not ours`; empty when free."""


def use_of(
    card: CardSample | None,
    wanted: CardId,
    ours: Collection[int],
    baselines: Mapping[str, float],
    label: str = "",
) -> Use:
    """Who holds this card; `ours` are the pids of the group's own engine."""
    name = label or f"card {wanted[:8]}"
    if card is None:
        return Use(wanted, "lost", 0, f"{name} is missing: NVML does not list {wanted}")
    name = label or f"card {card.index}"
    if card.lost:
        return Use(wanted, "lost", 0, f"{name} is lost: {card.lost}; a reboot brings it back")
    if isinstance(card.memory_used, Missing):
        return Use(
            wanted, "unseen", 0, f"{name}: memory not readable ({card.memory_used.why.value})"
        )
    held = card.memory_used - baselines.get(wanted, 0.0)
    processes = () if isinstance(card.processes, Missing) else card.processes
    mine = [each for each in processes if each.pid in ours]
    if mine:
        pids = ", ".join(str(each.pid) for each in mine)
        return Use(wanted, "ours", held, f"{name}: {_size(held)} held by the engine (pid {pids})")
    if held <= TOLERANCE:
        return Use(wanted, "free", 0, "")
    foreign = [each for each in processes if _holds(each)]
    if foreign:
        who = ", ".join(_who(each) for each in foreign)
        return Use(wanted, "foreign", held, f"{name}: {_size(held)} held by {who}, not ours")
    return Use(wanted, "unknown", held, f"{name}: {_size(held)} held by an unknown process")


def uses(
    cards: tuple[CardId, ...],
    sweep: GpuSweep | None,
    ours: Collection[int],
    baselines: Mapping[str, float],
) -> tuple[Use, ...]:
    """The holders of a group's cards, in the group's order."""
    found = {} if sweep is None else {each.uuid: each for each in sweep.cards}
    return tuple(use_of(found.get(card), card, ours, baselines) for card in cards)


def engine_gone(
    cards: tuple[CardId, ...],
    sweep: GpuSweep | None,
    ours: Collection[int],
    baselines: Mapping[str, float],
) -> bool:
    """Whether nothing of our engine is left on the cards: free, lost, or plainly somebody else's.

    Memory that no listed process explains counts as the engine's own: a driver frees it seconds
    after the process went (C64).
    """
    if not cards:
        return True
    if sweep is None or not sweep.answered or sweep.error:
        return False
    return all(
        each.kind in ("free", "lost", "foreign") for each in uses(cards, sweep, ours, baselines)
    )


def learn_baseline(card: CardSample, before: float | None) -> float | None:
    """What a card holds when nobody uses it: remembered, not assumed to be nothing (C64)."""
    if card.lost or isinstance(card.memory_used, Missing) or isinstance(card.processes, Missing):
        return before
    if any(_holds(each) for each in card.processes) or card.memory_used > TOLERANCE:
        return before
    return card.memory_used if before is None else min(before, card.memory_used)


def _holds(process: CardProcess) -> bool:
    return isinstance(process.used_bytes, Missing) or process.used_bytes > 0


def _who(process: CardProcess) -> str:
    if not process.visible:
        return f"pid {process.pid} (not visible here: a container?)"
    inside = ", ".join(part for part in (process.user, process.name) if part)
    return f"pid {process.pid} ({inside})" if inside else f"pid {process.pid}"


def _size(held: float) -> str:
    return f"{held / GIB:.1f} GiB"
