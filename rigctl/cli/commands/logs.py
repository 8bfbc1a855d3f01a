"""`rigctl logs GROUP`: an engine's log, or the daemon's own, with a daemon or without."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rigctl.adapters.logfile import LogFiles
from rigctl.adapters.logfold import Fold
from rigctl.adapters.tail import Tail, last_lines
from rigctl.cli import where
from rigctl.cli.exits import FAILED, OK, USAGE, End
from rigctl.cli.talk import Conversation, Lost, NotRunning
from rigctl.cli.words import plain, say, speaks_utf8
from rigctl.core.redact import redact

OWN = ("daemon", "proxy")
"""Words for the logs of rigctl's own processes; no group may be called so."""

LOOK = 0.25
"""Seconds between two looks at a followed file."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "logs",
        help="an engine's, the daemon's or the endpoint's log",
        description="Prints the end of a group's log, keys masked and repeated lines counted. "
        "`rigctl logs daemon` is the daemon's own, `rigctl logs proxy` that of the endpoint's "
        "process. Works without a daemon too.",
    )
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as lines come")
    parser.add_argument("-n", "--lines", type=int, default=200, metavar="N", help="default 200")
    parser.add_argument(
        "--previous",
        type=int,
        nargs="?",
        const=1,
        default=0,
        metavar="N",
        help="the run before (N: so many runs before)",
    )
    parser.add_argument(
        "-g", "--grep", metavar="PATTERN", help="only lines that match, in either case"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print log lines; the exit code."""
    try:
        wanted = re.compile(args.grep or "", re.IGNORECASE)
    except re.error as error:
        raise End(USAGE, f"--grep {args.grep}: not a pattern: {error}.") from None
    utf8 = speaks_utf8(sys.stdout)
    for line in _lines(args):
        if wanted.search(line):
            print(plain(line, utf8), flush=args.follow)
    return OK


def _lines(args: argparse.Namespace) -> Iterator[str]:
    """From the daemon, which knows the files; from the files where there is none."""
    if args.group in OWN:
        yield from _from_file(args)
        return
    question = {
        "do": "log",
        "group": args.group,
        "lines": args.lines,
        "follow": args.follow,
        "previous": args.previous,
    }
    try:
        with Conversation(where.socket_file(args.home)) as talk:
            talk.ask(question)
            for line in talk.lines():
                if line.get("kind") == "log":
                    yield line["line"]
        return
    except NotRunning:
        pass
    except Lost as lost:
        if not args.follow:
            raise
        say(f"{lost.say.splitlines()[0]} Following the file instead.")
        args.lines = 0
    yield from _from_file(args)


def log_file(home: str | None, group: str, previous: int) -> Path:
    """Where a log lies: the run before is `NAME.1.log`, of our own processes `daemon.log.1`."""
    folder = Path(where.logs_folder(home))
    if group in OWN:
        return folder / (f"{group}.log" + (f".{previous}" if previous else ""))
    return LogFiles(folder).path(group, previous)


def _from_file(args: argparse.Namespace) -> Iterator[str]:
    path = log_file(args.home, args.group, args.previous)
    try:
        end = last_lines(path, args.lines)
    except FileNotFoundError:
        raise End(FAILED, _nothing(args, path)) from None
    except PermissionError:
        raise End(FAILED, f"no right to read {path}: it belongs to the daemon's user.") from None
    fold = Fold()
    for line in (*end.lines, *([end.rest] if end.rest and not args.follow else [])):
        yield from fold.feed(redact(line))
    yield from fold.flush()
    if not args.follow:
        return
    tail = Tail(path, end.offset)
    try:
        while True:
            lines = tail.read()
            for line in lines:
                yield from fold.feed(redact(line))
            if not lines:
                yield from fold.flush()
                time.sleep(LOOK)
    finally:
        tail.close()


def _nothing(args: argparse.Namespace, path: Path) -> str:
    """There is no such file: never started, no earlier run, or a name mistyped."""
    names = sorted(each.name.removesuffix(".log") for each in path.parent.glob("*.log"))
    have = f"there is a log of {', '.join(names)}." if names else "no log was written yet."
    which = f"run {args.previous} before this one" if args.previous else "log"
    return f"`{args.group}` has no {which} at {path}; {have}"
