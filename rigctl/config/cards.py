"""Which real cards a group means: by UUID, PCI address or index, and never the next one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rigctl.config.faults import nearest, origin_line
from rigctl.config.schema import CardRef, Config, ConfigError, GroupConfig
from rigctl.core.cards import CardSample

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
_UUID = re.compile(r"GPU-[0-9a-z-]+", re.IGNORECASE)

HOW = 'a card is "GPU-…" (its UUID), "0000:0C:00.0" (its PCI address) or a number (its index)'


def parse_card(value: object) -> CardRef:
    """The card that a value of `cards` names. ConfigError says why it names none."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ConfigError(f"{value!r} names no card: {HOW}")
    if isinstance(value, int) or value.strip().isdecimal():
        if int(value) < 0:
            raise ConfigError(f"card {value} is below 0: an index counts from 0")
        return CardRef("index", str(int(value)))
    text = value.strip()
    address = _PCI.fullmatch(text)
    if address:
        domain, bus, device, function = address.groups()
        short = (domain or "0").lstrip("0").rjust(4, "0")
        return CardRef("pci", f"{short}:{bus}:{device}.{function}".upper())
    if _UUID.fullmatch(text):
        return CardRef("uuid", "GPU-" + text[4:].lower())
    if text.upper().startswith("MIG-"):
        raise ConfigError(f"{value!r} is a slice of a card; rigctl works with whole cards: {HOW}")
    raise ConfigError(f"{value!r} names no card: {HOW}")


def resolve(
    cards: tuple[CardRef, ...], present: Sequence[CardSample], group: str = ""
) -> tuple[CardSample, ...]:
    """The real cards behind the names, in the owner's order.

    ConfigError names every card that is missing, and two names for one card. A missing card is
    never replaced by its neighbour: the indexes of the others may have moved (C13).
    """
    who = f"group {group!r}: " if group else ""
    found: list[CardSample] = []
    missing: list[str] = []
    for reference in cards:
        card = next((card for card in present if _is(reference, card)), None)
        if card is None:
            missing.append(f"card {reference.value} is missing{_hint(reference, present)}")
        else:
            found.append(card)
    if missing:
        raise ConfigError(f"{who}{'; '.join(missing)}; present: {describe(present)}")
    for position, card in enumerate(found):
        if card in found[:position]:
            names = " and ".join(reference.value for reference in cards if _is(reference, card))
            raise ConfigError(f"{who}{names} are one card, {label(card)}: name each card once")
    return tuple(found)


def resolve_group(
    group: GroupConfig, config: Config, present: Sequence[CardSample]
) -> tuple[CardSample, ...]:
    """The cards of one group, safe to start on. ConfigError says where and why not, in words.

    Also refused: indexes while any configured index is absent (which card is gone cannot be told,
    so every index may mean another card), a lost card, and a card that another group has.
    """
    try:
        return _resolve_group(group, config, present)
    except ConfigError as error:
        line = origin_line(config.origins.get(f"group.{group.name}.cards", ""))
        raise ConfigError(error.say, path=config.path, line=line) from None


def _resolve_group(
    group: GroupConfig, config: Config, present: Sequence[CardSample]
) -> tuple[CardSample, ...]:
    highest = max(
        (int(card.value) for one in config.groups for card in one.cards if card.kind == "index"),
        default=-1,
    )
    named_by_index = any(card.kind == "index" for card in group.cards)
    if named_by_index and highest >= len(present):
        raise ConfigError(
            f"group {group.name!r} names its cards by index, the file uses indexes up to "
            f"{highest}, and {len(present)} of {highest + 1} cards are here: when one is missing "
            "the others move up, so no index is safe; name the cards by UUID; present: "
            f"{describe(present)}"
        )
    mine = resolve(group.cards, present, group.name)
    for card in mine:
        if card.lost:
            raise ConfigError(f"group {group.name!r}: card {label(card)} is lost: {card.lost}")
        for other in config.groups:
            if other.name != group.name and any(_is(reference, card) for reference in other.cards):
                raise ConfigError(
                    f"group {group.name!r}: card {label(card)} also belongs to group "
                    f"{other.name!r}: a card can be in one group"
                )
    return mine


def label(card: CardSample) -> str:
    """A card as a person finds it: index, UUID and address."""
    return f"{card.index} {card.uuid} ({card.pci})"


def describe(present: Sequence[CardSample]) -> str:
    """The cards that are here, in one line."""
    return ", ".join(label(card) for card in present) if present else "none"


def _is(reference: CardRef, card: CardSample) -> bool:
    match reference.kind:
        case "uuid":
            return str(card.uuid).lower() == reference.value.lower()
        case "pci":
            return card.pci.upper() == reference.value
        case "index":
            return str(card.index) == reference.value


def _hint(reference: CardRef, present: Sequence[CardSample]) -> str:
    """The nearest card that is there: for a typing mistake or a UUID cut short."""
    if reference.kind == "index":
        return ""
    names = [str(card.uuid) if reference.kind == "uuid" else card.pci for card in present]
    longer = [name for name in names if name.lower().startswith(reference.value.lower())]
    if len(longer) == 1:
        return f" (cut short? the whole name is {longer[0]})"
    near = nearest(reference.value, names) if reference.kind == "uuid" else ""
    if near and _distance(near.lower(), reference.value.lower()) <= 2:
        return f" (did you mean {near}?)"
    return ""


def _distance(one: str, other: str) -> int:
    """Characters that differ, for names of one length; else a large number."""
    if len(one) != len(other):
        return max(len(one), len(other))
    return sum(a != b for a, b in zip(one, other, strict=True))
