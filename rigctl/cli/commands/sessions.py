"""`rigctl sessions`: every request at the endpoint, how it stands, and each client's sums."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rigctl.cli import where
from rigctl.cli.endpoint_words import NONE, endpoint_of
from rigctl.cli.exits import FAILED, OK, End
from rigctl.cli.paint import Paint, colours_on, width
from rigctl.cli.session_page import chosen, page
from rigctl.cli.talk import decoded_snapshot, snapshot
from rigctl.cli.words import plain, raw, speaks_utf8

SCHEMA = 1
"""Of the object that `--json` prints; raised when a field changes meaning or goes."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "sessions",
        help="who asks for what at the endpoint",
        description="Shows each request at the endpoint and the sessions whose prompts are cached: "
        "client, cluster, state, context, tokens a second, wait, share of the pool; below them the "
        "sums of each client since the endpoint's start. Starts nothing.",
        epilog="exit code 0; 1 where rig.toml has no [proxy]; 3 without a daemon",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("-w", "--watch", action="store_true", help="again with every change")
    parser.add_argument("--client", metavar="NAME", help="only this client's; `-`: without a key")
    parser.add_argument("--cluster", metavar="GROUP", help="only those on this group")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the page; its exit code."""
    path = where.socket_file(args.home)
    snap = snapshot(path)
    if endpoint_of(snap)["state"] == "none":
        raise End(FAILED, NONE)

    def shown(snap: dict[str, Any]) -> list[str]:
        if endpoint_of(snap)["state"] == "none":
            return [NONE]
        lines = page(snap, Paint(colours_on()), width(), args.client, args.cluster)
        utf8 = speaks_utf8(sys.stdout)
        return [plain(line, utf8) for line in lines]

    def data(snap: dict[str, Any]) -> bytes:
        rows = chosen(snap, args.client, args.cluster)
        told = {"schema": SCHEMA, "kind": "sessions", **rows}
        return json.dumps(told, ensure_ascii=False).encode()

    if args.watch:
        from rigctl.cli.watching import watch

        watch(path, shown, (lambda line: data(decoded_snapshot(line))) if args.json else None)
    if args.json:
        raw(data(snap))
    else:
        print("\n".join(shown(snap)))
    return OK
