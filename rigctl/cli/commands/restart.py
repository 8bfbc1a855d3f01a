"""`rigctl restart GROUP`: drain, stop, start."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act, consequence
from rigctl.cli.commands.stop import add_arguments


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "restart",
        help="drain, stop and start a group's engine",
        description="Lets running answers finish up to a limit, stops the engine, starts it anew.",
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask for the restart; its exit code."""
    if args.dry_run and act.without_daemon(args):
        return 0
    path, snap = act.rig(args)
    group = act.group_view(snap, args.group)
    name = group["name"]
    wish = act.Wish(
        "restart",
        {"group": name, "drain_seconds": args.drain, "force": args.force},
        f"Restart {name}?",
        destructive=consequence.destroys(group),
        costs=[
            *consequence.of_stop(group, args.drain),
            *consequence.of_gate(snap, group, comes_back=True),
            *consequence.of_return(group),
        ],
        meanwhile="Follow it with `rigctl status --watch`.",
    )
    return act.carry_out(args, path, wish)
