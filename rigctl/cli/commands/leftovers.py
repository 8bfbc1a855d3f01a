"""`rigctl leftovers [GROUP]`: processes of a group's own past engine that still live (C01)."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act
from rigctl.cli.exits import OK
from rigctl.cli.words import plural, say, show


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "leftovers",
        help="end what a group's own past engine left behind",
        description="Ends exactly the processes that rigctl recorded as the group's own engine and "
        "that outlived it. Without GROUP it lists them. Nobody else's process is touched.",
    )
    parser.add_argument("group", metavar="GROUP", nargs="?")
    act.add_options(parser, wait=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List or end leftovers; the exit code."""
    path, snap = act.rig(args, start=bool(args.group) and not args.dry_run)
    if not args.group:
        for group in snap["groups"]:
            for pid in group["leftovers"]:
                show(f"{group['name']} {pid}")
        if not any(group["leftovers"] for group in snap["groups"]):
            say("no leftovers.")
        return OK
    group = act.group_view(snap, args.group)
    pids = ", ".join(str(pid) for pid in group["leftovers"])
    if not pids:
        say(f"{group['name']} has no leftovers.")
        return OK
    what = plural(len(group["leftovers"]), "leftover process", "leftover processes")
    wish = act.Wish(
        "end-leftovers",
        {"group": group["name"]},
        f"End {what} of {group['name']}?",
        destructive=True,
        costs=[f"{what} of {group['name']}'s past engine: pid {pids}. They serve nobody."],
    )
    return act.carry_out(args, path, wish)
