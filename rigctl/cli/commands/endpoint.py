"""`rigctl endpoint [status|restart]`: the one address in front of the groups."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rigctl.cli import act, where
from rigctl.cli.endpoint_page import page
from rigctl.cli.endpoint_words import NONE, answers, base_url, endpoint_of, in_flight, told
from rigctl.cli.exits import FAILED, OK, End
from rigctl.cli.paint import Paint, colours_on, width
from rigctl.cli.talk import snapshot
from rigctl.cli.words import plain, plural, raw, span, speaks_utf8

SCHEMA = 1
"""Of the object that `--json` prints; raised when a field changes meaning or goes."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "endpoint",
        help="the one address in front of the groups: status, restart",
        description="The one address that clients use: where it is, how it stands, how it judges "
        "each cluster and by what evidence, and what is off. `rigctl sessions` shows its requests.",
        epilog="exit code 0; 1 where rig.toml has no [proxy]; 3 without a daemon",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run_status)
    verbs = parser.add_subparsers(dest="endpoint_verb", metavar="status|restart")
    status = verbs.add_parser("status", help="the page that `rigctl endpoint` alone shows")
    status.add_argument("--json", action="store_true", help="one JSON object")
    status.set_defaults(run=run_status)
    restart = verbs.add_parser(
        "restart",
        help="put a new process in its place, without cutting an answer",
        description="A new process takes the listening socket over, or opens the address that "
        "rig.toml says now; the old one finishes what it has and ends. No connection is refused "
        "meanwhile.",
    )
    act.add_options(restart, wait=True)
    restart.set_defaults(run=run_restart)


def run_status(args: argparse.Namespace) -> int:
    """Print the page; its exit code."""
    view = endpoint_of(snapshot(where.socket_file(args.home)))
    if args.json:
        told = {"schema": SCHEMA, "kind": "endpoint", "base_url": base_url(view.get("url", ""))}
        raw(json.dumps({**told, **view}, ensure_ascii=False).encode())
        return FAILED if view["state"] == "none" else OK
    if view["state"] == "none":
        raise End(FAILED, NONE)
    utf8 = speaks_utf8(sys.stdout)
    for line in page(view, Paint(colours_on()), width()):
        print(plain(line, utf8))
    return OK


def run_restart(args: argparse.Namespace) -> int:
    """Ask for the restart; its exit code."""
    if args.dry_run and act.without_daemon(args):
        return OK
    path, snap = act.rig(args)
    view = endpoint_of(snap)
    if view["state"] == "none":
        raise End(FAILED, NONE)
    return act.carry_out(
        args,
        path,
        act.Wish(
            "restart-endpoint",
            {},
            "Restart the endpoint?",
            # Nobody is cut off where the old process answers; where it does not, its answers are.
            destructive=view["state"] == "lost",
            costs=costs(view),
            meanwhile="See `rigctl endpoint`.",
        ),
    )


def costs(view: dict[str, Any]) -> list[str]:
    """What happens to the work in hand."""
    if not told(view):
        if view["state"] == "lost":
            return ["The old process does not answer; what it carries is cut off with it."]
        return [f"A new process is started behind {view['url']}."]
    running = in_flight(view)
    runs = (
        f"{answers(running)}: the old process finishes {'it' if running == 1 else 'them'}."
        if running
        else "No answer runs."
    )
    queued = view["rows"]["queued"]
    if queued:
        oldest = span(view["rows"]["oldest_wait"])
        runs += f" {plural(queued, 'request')} queued there (oldest {oldest}) go on waiting."
    return [f"A new process takes {view['url']} over; no connection is refused meanwhile.", runs]
