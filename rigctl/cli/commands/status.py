"""`rigctl status`: one look at the rig, for people, scripts and watch loops."""

from __future__ import annotations

import sys

from rigctl.cli import exits, where
from rigctl.cli.talk import decoded_snapshot, snapshot_line
from rigctl.cli.words import raw

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
        from rigctl.cli.watching import watch

        watch(path, _page, bytes if args.json else None)
    if not args.check:
        return once(args.home, as_json=args.json)
    line = snapshot_line(path)
    snap = decoded_snapshot(line)
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
    print_page(decoded_snapshot(line))
    return exits.OK


def plain_status(home: str | None) -> int:
    """What `rigctl` alone does without a terminal: the page, and the exit code of `--check`."""
    from rigctl.cli.verdict import verdict

    snap = decoded_snapshot(snapshot_line(where.socket_file(home)))
    print_page(snap)
    return verdict(snap)[0]


def print_page(snap: dict[str, Any]) -> None:
    """The page for people on stdout."""
    for line in _page(snap):
        print(line)


def _raw(line: bytes) -> int:
    raw(line)
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
