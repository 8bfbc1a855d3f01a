"""`rigctl` alone, or `rigctl panel`: the panel; without a terminal the plain status."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from rigctl.cli import act, where
from rigctl.cli.commands.status import plain_status
from rigctl.cli.words import say


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "panel",
        usage="rigctl [panel] [--read-only] [--theme NAME] [--no-mouse]",
        help="open the panel",
        description="Opens the panel, and starts the daemon where none runs. Without a terminal it "
        "prints the status and its exit code is that of `status --check`.",
    )
    parser.add_argument("--read-only", action="store_true", help="look, do not act")
    parser.add_argument("--theme", metavar="NAME", help="one of themes/, or a file")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Open the panel; its exit code."""
    from rigctl.tui.terminal import plain_reason

    reason = plain_reason(os.environ, _is_terminal(sys.stdin), _is_terminal(sys.stdout))
    if reason:
        if _is_terminal(sys.stdout):
            say(f"no panel here: {reason}.")
        return plain_status(args.home)
    _, snap = act.rig(args)
    from rigctl.cli.revive import reviver
    from rigctl.config.paths import find_home
    from rigctl.control.client import SocketClient
    from rigctl.tui.main import run_panel

    path = Path(where.socket_file(args.home))
    return run_panel(
        lambda: SocketClient(path),
        read_only=args.read_only,
        theme=args.theme,
        no_mouse=args.no_mouse,
        keys=own_keys(where.config_file(args.home)),
        # A simulated rig's daemon is its demo's to start: an ordinary one would find no such cards.
        revive=None if snap["simulated"] else reviver(find_home(args.home)),
    )


def own_keys(config: str) -> dict[str, str]:
    """The owner's `[keys]` table: action -> key. Empty where there is none.

    The panel says what in it cannot be used; a file that is no TOML is the daemon's to report.
    """
    try:
        with open(config, "rb") as file:
            table = tomllib.load(file).get("keys", {})
    except (OSError, tomllib.TOMLDecodeError):
        return {}
    return {str(name): str(key) for name, key in table.items()} if isinstance(table, dict) else {}


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (ValueError, AttributeError):
        return False
