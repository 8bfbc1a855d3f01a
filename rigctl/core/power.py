"""Watts summed over cards, and power limits as they are against as they should be (C09, C78)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rigctl.core.cards import CardSample
from rigctl.core.ids import CardId
from rigctl.core.reading import NOT_YET, Missing, Reading, Total, known, total

TOLERANCE = 1.0
"""Watts by which a limit may differ from the wanted one: drivers round."""


def watts(cards: Iterable[CardSample], of: Sequence[CardId] | None = None) -> Total:
    """Power of all cards, or of those named; one that is not there counts as a missing part."""
    return total(_readings(cards, of, "watts"))


def limit_watts(cards: Iterable[CardSample], of: Sequence[CardId] | None = None) -> Total:
    """The most that these cards may draw: the sum of their enforced limits."""
    return total(_readings(cards, of, "limit_watts"))


def _readings(
    cards: Iterable[CardSample], of: Sequence[CardId] | None, name: str
) -> Iterable[Reading]:
    by_uuid: dict[CardId, Reading] = {card.uuid: getattr(card, name) for card in cards}
    if of is None:
        return by_uuid.values()
    return [by_uuid.get(uuid, NOT_YET) for uuid in of]


@dataclass(frozen=True, slots=True)
class LimitDeviation:
    """One card whose enforced power limit is not the one wanted."""

    card: CardId
    wanted: float
    enforced: float
    at_default: bool
    """Whether it is the card's default: then a reboot or driver reload took the limit away."""

    @property
    def command(self) -> str:
        """What sets it right, where rigctl itself has no right to."""
        return f"sudo nvidia-smi -i {self.card} -pl {self.wanted:g}"


def limit_deviations(
    cards: Iterable[CardSample], wanted: Mapping[CardId, float]
) -> tuple[LimitDeviation, ...]:
    """Cards that enforce another limit than wanted; one that does not tell is not accused."""
    return tuple(
        LimitDeviation(
            card.uuid,
            wanted[card.uuid],
            card.limit_watts,
            abs(card.limit_watts - known(card.default_limit_watts, float("inf"))) <= TOLERANCE,
        )
        for card in cards
        if card.uuid in wanted
        and not isinstance(card.limit_watts, Missing)
        and abs(card.limit_watts - wanted[card.uuid]) > TOLERANCE
    )


def say_deviations(deviations: Sequence[LimitDeviation]) -> str:
    """`limits back at default: 8 cards, worst case +630 W`; empty when there is nothing to say."""
    if not deviations:
        return ""
    defaults = all(one.at_default for one in deviations)
    what = "limits back at default" if defaults else "limits differ from rig.toml"
    count = len(deviations)
    cards = "1 card" if count == 1 else f"{count} cards"
    more = sum(max(0.0, one.enforced - one.wanted) for one in deviations)
    if more:
        return f"{what}: {cards}, worst case +{more:.0f} W"
    return f"{what}: {cards}, all below what is wanted"


def say_remedy(deviations: Sequence[LimitDeviation]) -> str:
    """The next commands, joined so that they can be pasted as one."""
    return " && ".join(one.command for one in deviations)
