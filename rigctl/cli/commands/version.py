"""`rigctl version`: ours, and the running daemon's."""

from __future__ import annotations

import argparse
import json
import platform
from typing import Any

from rigctl import __version__
from rigctl.cli import where
from rigctl.cli.exits import OK, End
from rigctl.cli.talk import Conversation
from rigctl.cli.words import show
from rigctl.control import PROTOCOL


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser("version", help="versions", description="Prints versions.")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the versions; always 0: no daemon is an answer too."""
    daemon = _daemon(where.socket_file(args.home))
    if args.json:
        print(
            json.dumps(
                {
                    "schema": 1,
                    "kind": "version",
                    "rigctl": __version__,
                    "protocol": PROTOCOL,
                    "python": platform.python_version(),
                    "daemon": daemon and daemon["rigctl"],
                    "daemon_protocol": daemon and daemon["protocol"],
                }
            )
        )
        return OK
    show(f"rigctl {__version__}")
    if daemon:
        show(f"daemon {daemon['rigctl']}")
        if (daemon["rigctl"], daemon["protocol"]) != (__version__, PROTOCOL):
            show(
                "they differ: `rigctl daemon stop`, then any act starts the new one; engines go on"
            )
    return OK


def _daemon(path: str) -> dict[str, Any] | None:
    try:
        with Conversation(path) as talk:
            talk.ask({"do": "hello", "protocol": PROTOCOL, "rigctl": __version__, "role": "cli"})
            return talk.line()
    except (End, TimeoutError):
        return None
