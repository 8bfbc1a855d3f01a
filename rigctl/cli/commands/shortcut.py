"""`rigctl shortcut`: a key that runs `rigctl free --notify`, and a menu entry for the panel."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli.commands.service import command
from rigctl.cli.exits import FAILED, OK, USAGE, End
from rigctl.cli.shortcuts import TARGETS, text_of
from rigctl.cli.words import say, show


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "shortcut",
        help="a keyboard shortcut that frees the cards",
        description="Prints, or with --install installs, a key that runs `rigctl free --notify`: "
        "it never asks, notifies, and pressed again while draining it cancels. `desktop` is a menu "
        "entry that opens the panel. Only our own block of your files is changed, and the first "
        "change keeps a copy beside the file.",
    )
    parser.add_argument("target", nargs="?", choices=tuple(TARGETS), help="where")
    parser.add_argument("--key", metavar="KEY", help="in the target's spelling: F, <Super>F9 …")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--install", action="store_true")
    action.add_argument("--uninstall", action="store_true")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print, install or remove; the exit code."""
    if args.target is None:
        if args.install or args.uninstall or args.key:
            raise End(USAGE, f"say where: `rigctl shortcut {'|'.join(TARGETS)} --install`.")
        for target in TARGETS.values():
            show(f"# rigctl shortcut {target.name} --install")
            show(text_of(target, own_command(args.home), target.key))
        return OK
    try:
        _one(args)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise End(FAILED, f"{what}; the file stays as it was.") from None
    return OK


def _one(args: argparse.Namespace) -> None:
    target = TARGETS[args.target]
    key = args.key or target.key
    if args.uninstall:
        say(target.uninstall())
    elif args.install:
        say(target.install(text_of(target, own_command(args.home), key), key))
    else:
        show(text_of(target, own_command(args.home), key).rstrip())


def own_command(home: str | None) -> list[str]:
    """`/…/rigctl [--home DIR]`: desktops start programs with a PATH of their own."""
    return command(home)[:-1]
