"""`rigctl power-limit [GROUP|CARD] WATTS`, or the exact command where rights do not allow it."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act
from rigctl.cli.exits import USAGE, End
from rigctl.cli.words import number, plural, show

MOST = 1e6
"""Watts: no card takes as many."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "power-limit",
        help="set the cards' power limit",
        usage="rigctl power-limit [GROUP|CARD] WATTS [options]",
        description="Sets the power limit of one card, a group's cards, or all of them. CARD is "
        "its number, PCI address, UUID or the four digits after the dot in the status. Where the "
        "daemon lacks the right, the command that sets it is printed.",
    )
    parser.add_argument("words", nargs="+", metavar="[GROUP|CARD] WATTS")
    act.add_options(parser, wait=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Set the limit; the exit code."""
    target, watts = _parse(args.words)
    if args.dry_run and act.without_daemon(args):
        return 0
    path, snap = act.rig(args)
    group, cards = _find(snap, target)
    one = cards[0]["uuid"] if target and not group else None
    before = sorted({f"{got:.0f} W" for card in cards if (got := number(card["limit_watts"]))})
    what = f"{plural(len(cards), 'card')} to {watts:g} W each"
    wish = act.Wish(
        "power-limit",
        {"group": group, "watts": watts, "card": one},
        f"Limit {what}?",
        costs=[f"Limit {what}; now {', '.join(before) or 'not known'}."],
    )

    def finish(ended: dict[str, Any]) -> None:
        if ended["state"] != "done":
            ids = ",".join(card["uuid"] for card in cards)
            show(f"sudo nvidia-smi -i {ids} -pl {watts:g}")

    return act.carry_out(args, path, wish, finish)


def _parse(words: list[str]) -> tuple[str, float]:
    *target, last = words
    try:
        watts = float(last.removesuffix("W").removesuffix("w"))
    except ValueError:
        watts = 0.0
    if not 0 < watts < MOST or len(target) > 1:
        raise End(USAGE, "say it like `rigctl power-limit 280` or `rigctl power-limit long 280`.")
    return (target[0] if target else ""), watts


def _find(snap: dict[str, Any], target: str) -> tuple[str | None, list[dict[str, Any]]]:
    """The group's name (None for a card or the whole rig) and the cards that are meant."""
    cards = snap["cards"]
    if not target:
        return None, cards
    if any(group["name"] == target for group in snap["groups"]):
        wanted = act.group_view(snap, target)["cards"]
        return target, [card for card in cards if card["uuid"] in wanted]
    key = target.lower().lstrip("·")
    found = [
        card
        for card in cards
        if key
        in (str(card["index"]), card["short"].lower(), card["uuid"].lower(), card["pci"].lower())
    ]
    if len(found) != 1:
        names = ", ".join(group["name"] for group in snap["groups"])
        numbers = ", ".join(f"{card['index']} ·{card['short']}" for card in cards)
        raise End(USAGE, f"`{target}` is neither a group ({names}) nor one card ({numbers}).")
    return None, found
