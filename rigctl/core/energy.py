"""Energy since midnight by card: from the driver's counter, else from power over time (C80)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rigctl.core.cards import CardSample, GpuSweep
from rigctl.core.ids import CardId
from rigctl.core.reading import NOT_YET, Missing, Reading, Why, difference, known

JOULES_PER_KWH = 3_600_000.0
LONGEST = 120.0
"""Seconds over which two power readings may be joined by a line."""
HEADROOM = 1.5
"""A counter that gained more than this times the card's limit over the time is not believed."""
ESTIMATED_SHARE = 0.01
"""Of a sum: how much may come from power readings before the sum is marked as estimated."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a sweep was made, by the clocks that matter here."""

    day: str
    """The local date, `2026-11-29`: a new one starts the books at nothing."""
    since_midnight: float
    """Seconds of that day that have passed."""
    boottime: float
    """CLOCK_BOOTTIME, which goes on while the machine is suspended."""
    boot: str
    """The boot's id: counters and clocks of another boot are not compared."""


@dataclass(frozen=True, slots=True)
class CardEnergy:
    """One card's account of the day. Goes through JSON."""

    joules: float = 0.0
    """Used since midnight."""
    estimated: float = 0.0
    """How much of it comes from power readings."""
    counter: float | None = None
    """The driver's counter at the last sweep; None after one without it."""
    watts: float | None = None
    """Power at the last sweep, likewise."""
    at: float = 0.0
    """CLOCK_MONOTONIC of the last sweep that had this card."""
    boottime: float = 0.0
    boot: str = ""


@dataclass(frozen=True, slots=True)
class EnergyBook:
    """The accounts of all cards for one day; the daemon keeps it through its own restart."""

    day: str = ""
    cards: Mapping[str, CardEnergy] = field(default_factory=dict)


def step(book: EnergyBook, sweep: GpuSweep, moment: Moment) -> EnergyBook:
    """Book what each card used since its last sweep; a sweep without answer changes nothing."""
    if not sweep.answered:
        return book
    accounts = dict(book.cards)
    if book.day != moment.day:
        accounts = {
            uuid: CardEnergy(0.0, 0.0, one.counter, one.watts, one.at, one.boottime, one.boot)
            for uuid, one in accounts.items()
        }
    for card in sweep.cards:
        accounts[card.uuid] = _book(accounts.get(card.uuid), card, sweep.at, moment)
    return EnergyBook(moment.day, accounts)


def _book(account: CardEnergy | None, card: CardSample, now: float, moment: Moment) -> CardEnergy:
    before = account or CardEnergy()
    gained, estimated = 0.0, False
    if before.boot == moment.boot and now > before.at:
        gained, estimated = _gained(before, card, now)
        # Of a span that reaches back over midnight only today's part is today's.
        span = moment.boottime - before.boottime
        if span > moment.since_midnight:
            gained *= moment.since_midnight / span
    return CardEnergy(
        joules=before.joules + gained,
        estimated=before.estimated + (gained if estimated else 0.0),
        counter=None if isinstance(card.joules, Missing) else card.joules,
        watts=None if isinstance(card.watts, Missing) else card.watts,
        at=now,
        boottime=moment.boottime,
        boot=moment.boot,
    )


def _gained(before: CardEnergy, card: CardSample, now: float) -> tuple[float, bool]:
    """Joules since the last sweep, and whether they are an estimate. Never negative.

    Monotonic time stands still while the machine is suspended, so a night asleep adds nothing.
    """
    seconds = now - before.at
    counted = difference(card.joules, NOT_YET if before.counter is None else before.counter)
    most = HEADROOM * known(card.max_limit_watts, 1000.0) * (seconds + 1)
    if not isinstance(counted, Missing) and counted <= most:
        return counted, False
    if seconds > LONGEST:
        return 0.0, True
    known_watts = [
        watts
        for watts in (before.watts, None if isinstance(card.watts, Missing) else card.watts)
        if watts is not None
    ]
    if not known_watts:
        return 0.0, True
    return sum(known_watts) / len(known_watts) * seconds, True


@dataclass(frozen=True, slots=True)
class Used:
    """Energy of some cards since midnight."""

    kwh: Reading
    estimated: bool
    """Some of it was worked out from power readings, or a card is left out: write `~`."""

    def cost(self, price_per_kwh: float) -> Reading:
        """In the currency of the price; Missing without one."""
        if isinstance(self.kwh, Missing):
            return self.kwh
        if price_per_kwh <= 0:
            return Missing(Why.UNSUPPORTED, "no price_per_kwh in rig.toml")
        return self.kwh * price_per_kwh


def used(book: EnergyBook, cards: Iterable[CardId]) -> Used:
    """What these cards used today; Missing while none of them has been seen twice."""
    wanted = tuple(cards)
    accounts = [book.cards[uuid] for uuid in wanted if uuid in book.cards]
    measured = [one for one in accounts if one.joules > 0 or one.counter is not None]
    if not measured:
        return Used(NOT_YET, estimated=False)
    joules = sum(one.joules for one in measured)
    guessed = sum(one.estimated for one in measured)
    part = len(measured) < len(wanted) or guessed > ESTIMATED_SHARE * joules
    return Used(joules / JOULES_PER_KWH, estimated=part)
