"""`rigctl daemon`: run it in the foreground; `daemon stop` ends it, `daemon confirm` trusts it."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act, consequence
from rigctl.cli.exits import FAILED, OK, USAGE, End
from rigctl.cli.follow import follow
from rigctl.cli.talk import Conversation, Lost, NotRunning
from rigctl.cli.words import plural, say

LEAVING = 30.0
"""Seconds that a daemon may take to leave once it said it would."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "daemon",
        help="run the daemon",
        description="Runs the daemon in the foreground, as a service manager wants it.",
    )
    parser.set_defaults(run=run)
    verbs = parser.add_subparsers(dest="what", metavar="[stop|confirm]", prog="rigctl daemon")
    stop = verbs.add_parser(
        "stop", help="end the daemon; engines go on", description="Ends the daemon. Engines go on."
    )
    stop.add_argument("--engines", action="store_true", help="stop every engine first")
    act.add_options(stop, wait=True)
    stop.set_defaults(run=run_stop)
    confirm = verbs.add_parser(
        "confirm",
        help="accept what was rebuilt after an unreadable state file",
        description="When the state file could not be read, the daemon finds its engines again in "
        "/proc and signals none of them until a person has looked: `rigctl status`, then this.",
    )
    act.add_options(confirm, wait=False)
    confirm.set_defaults(run=run_confirm)


def run(args: argparse.Namespace) -> int:
    """Be the daemon until it is told to end; its exit code."""
    from rigctl.daemon.main import main

    return main(["--home", args.home] if args.home else [])


def run_stop(args: argparse.Namespace) -> int:
    """End the daemon; the exit code."""
    path, snap = act.rig(args, start=False)
    running = [
        group["name"]
        for group in snap["groups"]
        if group["pid"] or (args.engines and consequence.destroys(group))
    ]
    engines = plural(len(running), "engine")
    fate = (
        f"{engines} ({', '.join(running)}) are drained and stopped first."
        if args.engines
        else f"{engines} go on, unwatched until a daemon runs again."
    )
    wish = act.Wish(
        "stop-daemon",
        {"stop_engines": args.engines},
        "End the daemon?",
        destructive=bool(args.engines and running),
        costs=[fate if running else "No engine runs."],
    )
    if args.dry_run:
        return act.dry_run(args, wish)
    if args.engines and not args.wait:
        raise End(USAGE, "--engines stops them first, which takes waiting: leave --no-wait out.")
    act.question(args, wish)
    if args.engines:
        ours = [group["name"] for group in snap["groups"] if consequence.destroys(group)]
        _stop_engines(path, args, ours)
    accepted = act.send(path, wish, as_json=args.json)
    if args.json:
        act.print_outcome(wish, accepted, None)
    elif accepted["say"]:
        say(accepted["say"])
    if args.wait:
        _until_gone(path, args)
    return OK


def _stop_engines(path: str, args: argparse.Namespace, names: list[str]) -> None:
    """Drain and stop these engines, all at once; the verb ends where one of them does not."""
    meanwhile = "The daemon and its engines go on; see `rigctl status`."
    asked = []
    for name in names:
        wish = act.Wish(
            "stop", {"group": name, "drain_seconds": None, "force": False}, f"Stop {name}?"
        )
        asked.append((name, act.send(path, wish, as_json=args.json)["operation"]))
    for name, operation in asked:
        ended = follow(path, operation, timeout=args.timeout, quiet=args.json, meanwhile=meanwhile)
        if ended["state"] != "done":
            raise End(FAILED, f"{name}: {ended['state']}: {ended['say']}. {meanwhile}")
        if not args.json:
            say(act.outcome(ended))


def run_confirm(args: argparse.Namespace) -> int:
    """Accept the rebuilt state; the exit code."""
    path, snap = act.rig(args, start=False)
    costs = [
        f"{group['name']}: {group['state']}"
        + (f", pid {group['pid']}, {group['process_count']} processes" if group["pid"] else "")
        for group in snap["groups"]
    ]
    wish = act.Wish(
        "confirm-state",
        {},
        "Is this what runs, and may rigctl signal it?",
        destructive=True,
        costs=costs,
    )
    return act.carry_out(args, path, wish)


def _until_gone(path: str, args: argparse.Namespace) -> None:
    """Until the socket is dead: `daemon stop && daemon` must not meet the old one."""
    import time

    from rigctl.cli.exits import TIMED_OUT

    patience = args.timeout or (None if args.engines else LEAVING)
    deadline = None if patience is None else time.monotonic() + patience
    while deadline is None or time.monotonic() < deadline:
        try:
            with Conversation(path) as talk:
                talk.ask({"do": "hello", "protocol": 1, "rigctl": "", "role": "cli"})
                talk.line()
        except (NotRunning, Lost):
            if not args.json:
                say("the daemon has ended.")
            return
        time.sleep(0.1)
    raise End(TIMED_OUT, "the daemon has not ended yet; see `rigctl logs daemon`.")
