"""`rigctl stop GROUP` and, in its sister module, `restart`: drain, then end the engine."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act, consequence


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "stop",
        help="drain and stop a group's engine",
        description="Lets running answers finish up to a limit, then stops the engine.",
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """GROUP, the drain limit and what every act takes."""
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "--drain",
        type=act.seconds,
        metavar="TIME",
        help="how long running answers may finish; 0 does not wait (default: the group's own)",
    )
    act.add_force(parser)
    act.add_options(parser, wait=False)


def run(args: argparse.Namespace) -> int:
    """Ask for the stop; its exit code."""
    if args.dry_run and act.without_daemon(args):
        return 0
    path, snap = act.rig(args)
    group = act.group_view(snap, args.group)
    name = group["name"]
    wish = act.Wish(
        "stop",
        {"group": name, "drain_seconds": args.drain, "force": args.force},
        f"Stop {name}?",
        destructive=consequence.destroys(group),
        costs=[
            *consequence.of_stop(group, args.drain),
            *consequence.of_gate(snap, group, comes_back=False),
            *consequence.of_return(group),
        ],
        meanwhile=f"`rigctl start {name}` cancels it while it drains; see `rigctl status`.",
    )
    return act.carry_out(args, path, wish)
