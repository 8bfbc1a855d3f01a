"""`rigctl reclaim [GROUP]`: end the lease and bring the engine back."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act, consequence
from rigctl.cli.words import number


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "reclaim",
        help="take lent cards back",
        description="Ends the lease and starts the engine as soon as NVML shows its cards free. "
        "Cancels a `free` that still drains. What runs on the cards is not ended.",
    )
    parser.add_argument("group", metavar="GROUP", nargs="?", help="default: what `free` means")
    parser.add_argument("--no-start", action="store_true", help="leave the engine off")
    act.add_options(parser, wait=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask for the cards; the exit code."""
    if args.dry_run and act.without_daemon(args):
        return 0
    path, snap = act.rig(args)
    group = act.group_view(snap, args.group)
    name = group["name"]
    costs = [*held(group), *([] if args.no_start else consequence.of_return(group))]
    wish = act.Wish(
        "reclaim",
        {"group": name, "start": not args.no_start},
        f"Reclaim {name}?",
        costs=costs,
        meanwhile="Follow it with `rigctl status --watch`.",
    )
    return act.carry_out(args, path, wish)


def held(group: dict[str, Any]) -> list[str]:
    """Who still holds memory on the lent cards: the engine waits for them."""
    lease = group["lease"]
    if not lease or not number(lease["held_bytes"]["value"]):
        return []
    size = f"{lease['held_bytes']['value'] / 2**30:.1f} GiB"
    who = f"pid {lease['pid']} ({lease['command']})" if lease["pid"] else f'"{lease["holder"]}"'
    return [f"{size} on its cards are still held by {who}; the engine waits until they are free."]
