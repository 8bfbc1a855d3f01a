"""`rigctl free [GROUP]`: drain, stop, verify by NVML, lend. With `--notify` for a hotkey."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act, consequence, exits
from rigctl.cli.cards import variables
from rigctl.cli.exits import End
from rigctl.cli.follow import follow
from rigctl.cli.logout import user
from rigctl.cli.talk import snapshot
from rigctl.cli.words import plural, say, show, span
from rigctl.core.harmless import one_line

HOLDER_SIGNS = 100
"""Of a holder's name: it stands in rows, in notices and in every snapshot."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "free",
        help="free a group's cards for other work",
        description="Lets running answers finish up to a limit, stops the engine, waits until NVML "
        "shows the cards free, and lends them. Prints the variables for your program on stdout.",
        epilog='eval "$(rigctl free --yes)" sets them in your shell. Exit code 4: only some cards '
        "are free, the others are held by a process that is not ours. `rigctl reclaim` ends it.",
    )
    parser.add_argument("group", metavar="GROUP", nargs="?", help="default: free_group of rig.toml")
    add_lease_options(parser)
    parser.add_argument(
        "--notify",
        action="store_true",
        help="for a hotkey: never asks, tells by desktop notification, pressed again while "
        "draining it cancels",
    )
    parser.add_argument("--uuids", action="store_true", help="print UUIDs instead of numbers")
    act.add_force(parser)
    act.add_options(parser, wait=True)
    parser.set_defaults(run=run)


def add_lease_options(parser: argparse.ArgumentParser) -> None:
    """How long, for whom, and how patient."""
    parser.add_argument(
        "--for",
        dest="lease",
        type=act.seconds,
        metavar="TIME",
        help="lease length, like 2h: afterwards it is overdue and warned about, never ended",
    )
    parser.add_argument("--holder", metavar="NAME", help="who or what the cards are for")
    parser.add_argument(
        "--drain",
        type=act.seconds,
        metavar="TIME",
        help="how long running answers may finish; 0 does not wait (default: rig.toml)",
    )


def run(args: argparse.Namespace) -> int:
    """Free the cards; the exit code."""
    if args.notify:
        return _from_hotkey(args)
    if args.dry_run and act.without_daemon(args):
        return exits.OK
    path, snap = act.rig(args)
    group = act.group_view(snap, args.group)
    wish = wish_for(args, snap, group)

    def finish(ended: dict[str, Any]) -> None:
        if ended["state"] == "done":
            found = variables(snapshot(path), group, uuids=args.uuids)
            show("export " + " ".join(f"{key}={value}" for key, value in found.items()))

    return act.carry_out(args, path, wish, finish)


def wish_for(
    args: argparse.Namespace,
    snap: dict[str, Any],
    group: dict[str, Any],
    *,
    holder: str = "",
    pid: int | None = None,
) -> act.Wish:
    """The free of this group, with what it costs."""
    name = group["name"]
    lease = f"They are lent for {span(args.lease)}." if args.lease else "They are lent open-ended."
    destroys = consequence.destroys(group)
    costs = consequence.of_stop(group, args.drain, snap["free_drain_limit"]) if destroys else []
    costs += consequence.of_gate(snap, group, comes_back=False)
    return act.Wish(
        "free",
        {
            "group": name,
            "holder": one_line(args.holder or holder)[:HOLDER_SIGNS] or user(),
            "for_seconds": args.lease,
            "drain_seconds": args.drain,
            "force": args.force,
            "holder_pid": pid,
            "toggle": bool(getattr(args, "notify", False)),
        },
        f"Free the {plural(len(group['cards']), 'card')} of {name}?",
        destructive=destroys,
        costs=[*costs, lease, *consequence.of_return(group)],
        meanwhile=f"`rigctl reclaim {name}` cancels it; see `rigctl status`.",
    )


def _from_hotkey(args: argparse.Namespace) -> int:
    """Never ask, tell where the person looks, and let a second press cancel."""
    from rigctl.adapters.notify import notify

    def tell(summary: str, text: str, *, urgent: bool = False) -> None:
        problem = notify(summary, text, urgent=urgent)
        say(f"{summary}: {text}")
        if problem:
            say(f"(no notification: {problem})")

    try:
        path, snap = act.rig(args)
        group = act.group_view(snap, args.group)
        wish = wish_for(args, snap, group)
        accepted = act.send(path, wish)
        said = accepted["say"] or "asked for"
        again = ". Press again to cancel." if consequence.destroys(group) else ""
        tell(f"rigctl: free {group['name']}", said + again)
        if not args.wait:
            return exits.OK
        ended = follow(
            path,
            accepted["operation"],
            timeout=args.timeout,
            quiet=True,
            meanwhile=wish.meanwhile,
        )
    except End as end:
        tell("rigctl: free failed", end.say, urgent=True)
        return end.code
    code = act.ENDS.get(ended["state"], exits.FAILED)
    tell(
        f"rigctl: {group['name']} {'freed' if code == exits.OK else ended['state']}",
        ended["say"],
        urgent=code != exits.OK and ended["state"] != "cancelled",
    )
    return code
