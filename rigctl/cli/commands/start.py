"""`rigctl start GROUP`."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act, consequence


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "start", help="start a group's engine", description="Starts a group's engine."
    )
    parser.add_argument("group", metavar="GROUP")
    act.add_options(parser, wait=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask for the start; its exit code."""
    if args.dry_run and act.without_daemon(args):
        return 0
    path, snap = act.rig(args)
    group = act.group_view(snap, args.group)
    limits = consequence.of_limits(snap)
    wish = act.Wish(
        "start",
        {"group": group["name"]},
        f"Start {group['name']} all the same?" if limits else f"Start {group['name']}?",
        destructive=bool(limits),
        costs=[*limits, *consequence.of_return(group)],
        meanwhile=f"Follow it with `rigctl status --watch` or `rigctl logs -f {group['name']}`.",
    )
    return act.carry_out(args, path, wish)
