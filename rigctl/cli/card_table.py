"""The table of cards on the status page: columns go from the least needed when space is short."""

from __future__ import annotations

from rigctl.cli.table import Fitted
from rigctl.cli.words import ABSENT, count, number, percent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rigctl.cli.paint import Paint

    Card = dict[str, Any]

RIGHT = ("watts", "util", "memory", "°C", "fan", "MHz")
FIRST_TO_GO = ("MHz", "fan", "throttled", "util", "group", "°C", "memory", "P")
"""Columns in the order in which a narrow terminal loses them."""


def card_table(cards: list[Card], paint: Paint, width: int) -> list[str]:
    """Head and one row a card, fitted to the width."""
    columns: dict[str, Callable[[Card], str]] = {
        "#": lambda card: str(card["index"]),
        "card": _label,
        "group": lambda card: card["group"] or ABSENT,
        "use": lambda card: card["use"],
        "P": _pstate,
        "watts": _watts,
        "util": lambda card: _over(card["utilisation"], 100),
        "memory": _memory,
        "°C": lambda card: count(card["celsius"]),
        "fan": lambda card: _over(card["fan"], 100),
        "MHz": lambda card: count(card["clock_mhz"]),
        "throttled": _throttled,
    }
    if not any(_throttled(card) for card in cards):
        del columns["throttled"]
    fitted = Fitted(
        {name: [make(card) for card in cards] for name, make in columns.items()},
        width,
        right=RIGHT,
        first_to_go=FIRST_TO_GO,
    )
    lines = [paint(fitted.head, "dim")]
    for card, row in zip(cards, fitted.rows, strict=True):
        lines.append(paint(row, "bad" if card["lost"] else ""))
        if card["lost"]:
            lines.append(f"   {card['lost']}")
    return lines


def _label(card: Card) -> str:
    name = card["name"]
    for prefix in ("NVIDIA ", "GeForce ", "RTX "):
        name = name.removeprefix(prefix)
    return f"{name} ·{card['short']}"


def _pstate(card: Card) -> str:
    value = number(card["pstate"])
    return ABSENT if value is None else f"P{value:.0f}"


def _watts(card: Card) -> str:
    limit = number(card["limit_watts"])
    return f"{count(card['watts'])}/{ABSENT if limit is None else f'{limit:.0f}'}"


def _memory(card: Card) -> str:
    used, whole = number(card["memory_used"]), number(card["memory_total"])
    left = ABSENT if used is None else f"{used / 2**30:.1f}"
    right = ABSENT if whole is None else f"{whole / 2**30:.0f} GiB"
    return f"{left} / {right}"


def _over(value: Any, whole: float) -> str:
    got = number(value)
    return ABSENT if got is None else percent(got / whole)


def _throttled(card: Card) -> str:
    reasons = card["throttle"]
    return "" if isinstance(reasons, dict) else ", ".join(reasons)
