"""The NVML worker seen from the daemon: one process, one question, and patience with both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from rigctl.adapters.nvml_process import WorkerProcess
from rigctl.core.cards import CardSample, GpuSweep
from rigctl.core.ids import CardId, Mono
from rigctl.core.reading import Missing, Why

_BACK_OFF = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before a new worker, by ends in a row without an answer between."""

_SWEEP = msgspec.json.Decoder(GpuSweep)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what may take, in seconds."""

    tick: float = 1.0
    """For an answer, before the caller gets the last sweep instead."""
    answer: float = 10.0
    """For an answer, before the worker counts as hung and is killed."""
    init: float = 90.0
    """The same while NVML initialises: 1.5 s a card and more without persistence mode (C81)."""
    leave: float = 0.5
    """For a worker to leave when asked, and again when killed."""
    probation: float = 60.0
    """Before a card that hung or crashed NVML is asked again; doubles with each time."""
    hardened: float = 960.0
    """The longest that such a card is left out."""
    stuck_init: float = 120.0
    """Before a worker whose NVML only ever fails is replaced: a new one loads a new library."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A place at which NVML hung or crashed: a UUID, or `#index` before that is known."""

    said: str
    """`NVML crashed (SIGSEGV) when asked about this card`."""
    strikes: int
    until: float
    """Left out until then."""


class GpuWorker:
    """Implements `ports.Gpus`. A hang or crash of NVML costs one answer, not the daemon (C57)."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        patience: Patience = Patience(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._argv = tuple(argv)
        self._patience = patience
        self._clock = clock
        self._turn = asyncio.Lock()
        self._process: WorkerProcess | None = None
        self._pending: asyncio.Future[bytes] | None = None
        self._pending_is_sample = False
        self._answered_once = False
        self._asked_at = 0.0
        self._silent_since: float | None = None
        self._failing_since: float | None = None
        self._ends = 0
        self._retry_at = float("-inf")
        self._trouble = ""
        self._released_until = float("-inf")
        self._closed = False
        self._suspects: dict[str, Suspect] = {}
        self._identities: dict[int, tuple[CardId, str, str]] = {}
        self._last = GpuSweep(Mono(clock()), (), error="NVML not asked yet", answered=False)

    @property
    def pid(self) -> int | None:
        """The worker's process id, for its figures; None while none lives."""
        process = self._process
        return None if process is None or process.ended else process.pid

    async def sample(self, cheap: bool = False) -> GpuSweep:
        """The newest sweep, or the last one with `answered` False and the reason in `error`."""
        async with self._turn:
            skip = sorted(
                place for place, one in self._suspects.items() if one.until > self._clock()
            )
            answer = await self._question({"do": "sample", "cheap": cheap, "skip": skip})
            if isinstance(answer, str):
                return replace(self._last, answered=False, error=answer)
            return self._accept(_SWEEP.decode(answer))

    async def set_power_limit(self, card: CardId, watts: float) -> str:
        """Set one card's limit; empty when done, else why not and what to do."""
        async with self._turn:
            answer = await self._question({"do": "limit", "card": card, "watts": watts})
            if isinstance(answer, str):
                return answer
            said: str = msgspec.json.decode(answer)["said"]
            return said

    async def release(self, seconds: float) -> None:
        """End the worker and start none for that long; 0 takes NVML up again (C89)."""
        self._released_until = self._clock() + seconds
        if seconds > 0:
            await self._end()

    async def close(self) -> None:
        """End the worker now; one that cannot be ended is left behind."""
        self._closed = True
        await self._end()
        if self._process is not None:
            self._process.abandon()

    async def _end(self) -> None:
        if self._process is not None and await self._process.end(self._patience.leave):
            self._process = self._pending = None
            self._silent_since = None

    async def _question(self, request: dict[str, object]) -> bytes | str:
        """The worker's answer to this request, or in words why there is none by now."""
        if self._pending is not None:
            late = await self._wait(self._pending)
            if isinstance(late, str):
                return late
            if self._pending_is_sample and request["do"] == "sample":
                return late
        process = self._ready()
        if isinstance(process, str):
            return process
        self._asked_at = self._clock()
        self._pending_is_sample = request["do"] == "sample"
        self._pending = process.ask(msgspec.json.encode(request) + b"\n")
        return await self._wait(self._pending)

    async def _wait(self, pending: asyncio.Future[bytes]) -> bytes | str:
        await asyncio.wait((pending,), timeout=self._patience.tick)
        if not pending.done():
            return self._still_waiting()
        self._pending = None
        if answer := pending.result():
            self._ends = 0
            self._silent_since = None
            self._answered_once = True
            return answer
        return self._ended()

    def _ready(self) -> WorkerProcess | str:
        """A worker to ask; or why there is none."""
        now = self._clock()
        process = self._process
        if now < self._released_until or self._closed:
            if process is not None and not process.ended:
                return f"NVML released, but worker {process.pid} is stuck in it and holds the cards"
            left = "" if self._closed else f" for {_minutes(self._released_until - now)} more"
            return f"NVML released{left}"
        if process is not None and not process.ended:
            return process
        if process is not None:
            return self._ended()
        if now < self._retry_at:
            return self._trouble
        try:
            self._answered_once = False
            self._process = WorkerProcess(self._argv)
        except OSError as problem:
            self._trouble = f"the NVML worker cannot start: {problem}"
            self._back_off()
            return self._trouble
        return self._process

    def _still_waiting(self) -> str:
        """What to say of a question without answer; ends the worker when it has hung."""
        process, now = self._process, self._clock()
        if process is None:
            return self._trouble
        if self._silent_since is None:
            self._silent_since = self._asked_at
        if process.killed:
            return self._stuck(process)
        place, waited = process.place, now - self._asked_at
        if place == "init" or not (place or self._answered_once):
            if waited < self._patience.init:
                first = self._silent_since == self._asked_at
                return _starting(waited) if first else self._silence(place)
        elif waited < self._limit(place):
            return self._silence(place)
        if _is_card(place):
            self._suspect(place, "NVML hung", at_once=False)
        process.kill()
        return self._silence(place)

    def _limit(self, place: str) -> float:
        """A card on probation gets less time: it has had its chance."""
        return self._patience.answer / (3 if place in self._suspects else 1)

    def _ended(self) -> str:
        """The worker is gone though nobody asked it to: note why, plan the next."""
        process, self._process, self._pending = self._process, None, None
        if process is None:
            return self._trouble
        place = process.place
        if process.killed:
            self._trouble = self._silence(place)
        else:
            how = process.how_it_ended()
            at = _label(place)
            self._trouble = f"the NVML worker {how}{at}; started anew"
            if _is_card(place):
                self._suspect(place, f"NVML {how}", at_once=True)
        self._back_off()
        return self._trouble

    def _back_off(self) -> None:
        self._retry_at = self._clock() + _BACK_OFF[min(self._ends, len(_BACK_OFF) - 1)]
        self._ends += 1

    def _suspect(self, place: str, what: str, *, at_once: bool) -> None:
        """Note the card at fault: left out at once after a crash, after two hangs otherwise."""
        before = self._suspects.get(place)
        strikes = 1 if before is None else before.strikes + 1
        served = strikes if at_once else strikes - 1
        wait = min(self._patience.probation * 2 ** (served - 1), self._patience.hardened)
        until = self._clock() + wait if served > 0 else float("-inf")
        self._suspects[place] = Suspect(f"{what} when asked about this card", strikes, until)

    def _silence(self, place: str) -> str:
        since = self._clock() - (self._silent_since or self._asked_at)
        return f"NVML not answering for {_minutes(since)}{_label(place)}"

    def _stuck(self, process: WorkerProcess) -> str:
        return f"{self._silence(process.place)}; worker {process.pid} is stuck in the kernel"

    def _accept(self, sweep: GpuSweep) -> GpuSweep:
        """Remember a sweep, with names for cards that could not give theirs."""
        now = self._clock()
        if sweep.error:
            self._replace_hopeless(now)
            return replace(
                self._last,
                answered=False,
                error=sweep.error,
                reboot_needed=sweep.reboot_needed,
            )
        self._failing_since = None
        cards = tuple(self._named(card, now) for card in sweep.cards)
        for card in cards:
            self._identities[card.index] = card.uuid, card.pci, card.name
            if not card.lost:
                # Answered after its time on probation: it starts with a clean sheet.
                self._suspects.pop(card.uuid, None)
                self._suspects.pop(f"#{card.index}", None)
        self._last = replace(sweep, cards=cards)
        return self._last

    def _named(self, card: CardSample, now: float) -> CardSample:
        uuid, pci, name = self._identities.get(card.index, (CardId(""), "", ""))
        if not card.uuid:
            named = uuid or CardId(f"unknown-{card.index}")
            card = replace(card, uuid=named, pci=pci, name=name)
        elif card.uuid == uuid and not card.pci:
            card = replace(card, pci=pci, name=name)
        one = self._suspects.get(card.uuid) or self._suspects.get(f"#{card.index}")
        if one is None or one.until <= now or not card.lost:
            return card
        gone = Missing(Why.LOST, one.said)
        absent: dict[str, Any] = {
            name: gone for name in CardSample.__slots__ if isinstance(getattr(card, name), Missing)
        }
        return replace(card, lost=one.said, **absent)

    def _replace_hopeless(self, now: float) -> None:
        """A worker that only fails may hold a library that was replaced on disk since."""
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since > self._patience.stuck_init and self._process is not None:
            self._failing_since = None
            self._process.kill()


def _is_card(place: str) -> bool:
    return place not in ("", "init")


def _label(place: str) -> str:
    """` (card c2f1)`, or ` (card #3)` where only its index is known."""
    return f" (card {place.removeprefix('GPU-')[:4]})" if _is_card(place) else ""


def _starting(seconds: float) -> str:
    hint = " - slow without persistence mode: `sudo nvidia-smi -pm 1`" if seconds > 3 else ""
    return f"NVML is starting: {_minutes(seconds)} so far{hint}"


def _minutes(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02d}"
