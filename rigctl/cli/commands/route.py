"""`rigctl route explain`: where the endpoint sent requests, and why."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from rigctl.cli import where
from rigctl.cli.endpoint_words import NONE, endpoint_of
from rigctl.cli.exits import FAILED, OK, End
from rigctl.cli.paint import width
from rigctl.cli.route_words import block
from rigctl.cli.session_page import short
from rigctl.cli.talk import Conversation, Lost, NotRunning, snapshot
from rigctl.cli.words import say, show

SCHEMA = 1
"""Of each object that `--json` prints."""
ALL = 100_000
"""More decisions than are kept."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "route",
        help="where the endpoint sent requests, and why",
        description="Explains the endpoint's decisions. Starts nothing, changes nothing.",
    )
    verbs = parser.add_subparsers(dest="route_verb", metavar="explain", required=True)
    explain = verbs.add_parser(
        "explain",
        help="the last decisions, one a block, oldest first",
        description="One decision a block: where, by which rule, how the session was known, the "
        "estimate of the prompt and how it was made, the wait, what waiting and moving would have "
        "cost. Never a word of a prompt.",
    )
    explain.add_argument("-n", "--lines", type=int, default=10, metavar="N", help="default 10")
    explain.add_argument("--request", metavar="ID", help="of this request")
    explain.add_argument("--session", metavar="LABEL", help="of this session")
    explain.add_argument("--json", action="store_true", help="one JSON object a line")
    explain.add_argument("-f", "--follow", action="store_true", help="go on as they are made")
    explain.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print decisions; the exit code."""
    path = where.socket_file(args.home)
    if endpoint_of(snapshot(path))["state"] == "none":
        raise End(FAILED, NONE)
    if args.follow:
        _follow(args, path)
    limit = ALL if args.request or args.session else max(0, args.lines)
    with Conversation(path) as talk:
        talk.ask({"do": "routes", "limit": limit, "follow": False})
        records = list(_records(talk))
    found = [record for record in records if _wanted(args, record)]
    for record in found[max(0, len(found) - max(0, args.lines)) :]:
        _print(args, record)
    if not found and not args.json:
        say(_none(args, bool(records)))
    return OK


def _none(args: argparse.Namespace, any_at_all: bool) -> str:
    """Why nothing is shown: an empty page would look like a fault."""
    if args.request or args.session:
        return (
            f"no decision about {args.request or args.session} is kept; `rigctl route explain` "
            "shows the newest."
        )
    if any_at_all:
        return "there are decisions; -n says how many to show."
    return "the endpoint has decided nothing since its start: no request came."


def _records(talk: Conversation) -> Iterator[dict[str, Any]]:
    for line in talk.lines():
        if line.get("kind") == "route":
            yield line["record"]
        elif line.get("kind") == "gap":
            say(f"({line['missed']} decisions were missed)")


def _wanted(args: argparse.Namespace, record: dict[str, Any]) -> bool:
    if args.request:
        request = record["request"]
        if not request.startswith(args.request) and short(request) != args.request:
            return False
    return not args.session or record["session"] == args.session


def _follow(args: argparse.Namespace, path: str) -> NoReturn:
    """Until ctrl+c; a daemon that is restarted meanwhile is picked up again.

    A decision comes as it is made, and once more when its answer has ended.
    """
    limit, away = max(0, args.lines), False
    while True:
        try:
            with Conversation(path) as talk:
                talk.ask({"do": "routes", "limit": limit, "follow": True})
                away = False
                for record in _records(talk):
                    if _wanted(args, record):
                        _print(args, record)
        except (Lost, NotRunning):
            if not away:
                say("the daemon went away; waiting for it to come back (ctrl+c ends)")
            away, limit = True, 0
        time.sleep(1.0)


def _print(args: argparse.Namespace, record: dict[str, Any]) -> None:
    if args.json:
        print(json.dumps({"schema": SCHEMA, "kind": "route", **record}), flush=True)
        return
    show("\n".join(block(record, time.time(), width())) + "\n")
