"""`rigctl status`: one look at the rig, for people, scripts and watch loops."""

from __future__ import annotations

import os
import sys

from rigctl.cli import exits, where
from rigctl.cli.exits import End
from rigctl.cli.talk import Conversation, Lost, NotRunning, decoded, snapshot_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "status",
        help="the rig on one page",
        description="Shows the rig as the daemon sees it. Starts nothing.",
        epilog="exit code 0 whatever it shows; with --check 1 degraded, 3 down; 3 without a daemon",
    )
    parser.add_argument("--json", action="store_true", help="the daemon's snapshot, one JSON line")
    parser.add_argument("-w", "--watch", action="store_true", help="again with every change")
    parser.add_argument(
        "--check", action="store_true", help="say what is wrong: exit code 1 degraded, 3 down"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the status; its exit code."""
    path = where.socket_file(args.home)
    if args.watch:
        return _watch(path, args.json)
    if not args.check:
        return once(args.home, as_json=args.json)
    line = snapshot_line(path)
    snap = _decoded(line)
    from rigctl.cli.verdict import verdict

    code, reasons = verdict(snap)
    if args.json:
        _raw(line)
    else:
        from rigctl.cli.words import show

        show("\n".join(reasons) or "all well")
    return code


def once(home: str | None, *, as_json: bool) -> int:
    """One look, which is all that most calls want."""
    line = snapshot_line(where.socket_file(home))
    if as_json:
        return _raw(line)
    print_page(_decoded(line))
    return exits.OK


def plain_status(home: str | None) -> int:
    """What `rigctl` alone does without a terminal: the page, and the exit code of `--check`."""
    from rigctl.cli.verdict import verdict

    snap = _decoded(snapshot_line(where.socket_file(home)))
    print_page(snap)
    return verdict(snap)[0]


def print_page(snap: dict[str, Any]) -> None:
    """The page for people on stdout."""
    for line in _page(snap):
        print(line)


def _decoded(line: bytes) -> dict[str, Any]:
    snap = decoded(line)
    if snap.get("kind") == "error":
        raise End(exits.FAILED, str(snap.get("say", "")))
    return snap


def _raw(line: bytes) -> int:
    sys.stdout.flush()
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
    # An error object is data too, but the exit code must not call it a status.
    return exits.FAILED if line.startswith(b'{"kind":"error"') else exits.OK


def _page(snap: dict[str, Any]) -> list[str]:
    from rigctl import __version__
    from rigctl.cli.paint import Paint, colours_on, width
    from rigctl.cli.render import page
    from rigctl.cli.words import plain, speaks_utf8

    lines = page(snap, Paint(colours_on()), width())
    if snap["rigctl"] != __version__:
        lines.append(
            f"the daemon is rigctl {snap['rigctl']}, this command is {__version__}: "
            "`rigctl daemon stop`, then any act starts the new one; engines go on"
        )
    utf8 = speaks_utf8(sys.stdout)
    return [plain(line, utf8) for line in lines]


def _watch(path: str, raw: bool) -> int:
    import time

    from rigctl.cli.words import say

    screen = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    lost = False
    while True:
        try:
            with Conversation(path) as talk:
                talk.ask({"do": "watch"})
                lost = False
                while True:
                    line = talk.raw_line(None)
                    if raw:
                        _raw(line)
                    else:
                        _frame(_decoded(line), screen)
        except NotRunning:
            if not lost:
                raise
            time.sleep(1.0)
        except Lost:
            say("the daemon went away; waiting for it to come back (ctrl+c ends)")
            lost = True
            time.sleep(0.5)


def _frame(snap: dict[str, Any], screen: bool) -> None:
    lines = _page(snap)
    if screen:
        rows = max(2, os.get_terminal_size(sys.stdout.fileno()).lines)
        if len(lines) >= rows:
            lines = [*lines[: rows - 2], f"({len(lines) - rows + 2} more lines)"]
        # Home, each line cleared to its end, then the rest of the screen: no flicker.
        body = "\x1b[K\r\n".join(lines)
        sys.stdout.write(f"\x1b[H{body}\x1b[K\r\n\x1b[J")
    else:
        sys.stdout.write("\n".join(lines) + "\n\n")
    sys.stdout.flush()
