"""`rigctl sleep GROUP on|off`: the sleep-on-idle flag, what changing it costs and what it saves."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act, consequence
from rigctl.cli.words import show


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "sleep",
        help="sleep-on-idle on or off",
        description="Sets the engine's --sleep-on-idle. That takes a restart of the engine; the "
        "watts and the scheduler's CPU before and after are shown.",
    )
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("wish", choices=("on", "off"))
    parser.add_argument(
        "--no-restart", action="store_true", help="only note it for the next start of the engine"
    )
    act.add_force(parser)
    act.add_options(parser, wait=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Set the flag; the exit code."""
    if args.dry_run and act.without_daemon(args):
        return 0
    path, snap = act.rig(args)
    group = act.group_view(snap, args.group)
    name, on = group["name"], args.wish == "on"
    restarts = consequence.destroys(group) and not args.no_restart
    costs = [f"{name}: sleep-on-idle is {group['sleep']['say'] or 'not known'} now."]
    if restarts:
        costs += [
            *consequence.of_stop(group, None),
            *consequence.of_gate(snap, group, comes_back=True),
            *consequence.of_return(group),
        ]
    else:
        costs.append("Noted for the next start; nothing is restarted.")
    wish = act.Wish(
        "sleep",
        {
            "group": name,
            "on": on,
            "restart": not args.no_restart,
            "force": args.force,
        },
        f"Restart {name} with sleep-on-idle {args.wish}?",
        destructive=restarts and group["sleep"]["running"] is not on,
        costs=costs,
        meanwhile="Follow it with `rigctl status --watch`.",
    )

    def finish(ended: dict[str, Any]) -> None:
        for line in saving(ended["figures"]):
            show(line)

    return act.carry_out(args, path, wish, finish)


def saving(figures: dict[str, float]) -> list[str]:
    """`515 W -> 128 W`, only where both sides were measured."""
    lines = []
    before, after = figures.get("watts_before"), figures.get("watts_after")
    if before is not None and after is not None:
        lines.append(f"power {before:.0f} W → {after:.0f} W ({after - before:+.0f} W)")
    before, after = figures.get("scheduler_cpu_before"), figures.get("scheduler_cpu_after")
    if before is not None and after is not None:
        lines.append(f"scheduler {100 * before:.0f} % → {100 * after:.0f} % of a core")
    return lines
