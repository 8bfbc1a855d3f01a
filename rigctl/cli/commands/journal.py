"""`rigctl journal`: what happened on the rig, from the daemon or, without one, from its file."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rigctl.cli import where
from rigctl.cli.act import seconds
from rigctl.cli.exits import NOT_RUNNING, OK, USAGE, End
from rigctl.cli.talk import Conversation, Lost, NotRunning
from rigctl.cli.words import plain, say, speaks_utf8

ALL = 1_000_000
"""More entries than the bounded file can hold."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "journal",
        help="what happened on the rig",
        description="Prints the journal, oldest first. Works without a daemon, from its file.",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on as things happen")
    parser.add_argument("-n", "--lines", type=int, default=50, metavar="N", help="default 50")
    parser.add_argument(
        "--since", metavar="TIME", help="`2h` ago, `08:00` today or `2026-11-29 08:00`: all since"
    )
    parser.add_argument("--group", metavar="GROUP", help="only this group's entries")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print entries; the exit code."""
    since = moment(args.since, time.time()) if args.since else None
    choosy = since is not None or args.group
    path = where.socket_file(args.home)
    limit = ALL if choosy else args.lines
    last = 0
    try:
        with Conversation(path) as talk:
            talk.ask({"do": "journal", "after": 0, "limit": limit, "follow": False})
            entries = [entry for entry, _ in _entries(talk)]
        running = True
    except NotRunning:
        entries, running = _from_file(Path(where.state_folder(args.home)), limit), False
    last = entries[-1]["seq"] if entries else 0
    found = [entry for entry in entries if _wanted(entry, since, args.group)]
    for entry in found if since is not None else found[max(0, len(found) - args.lines) :]:
        _print(entry, args.json)
    if not found and not args.json:
        say(_none(args, bool(entries)))
    if not args.follow:
        return OK
    if not running:
        say("no daemon runs, so nothing new will come. Start one with `rigctl daemon`.")
        return NOT_RUNNING
    return _follow(args, path, last)


def _none(args: argparse.Namespace, any_at_all: bool) -> str:
    """Why nothing is shown: an empty page would look like a fault."""
    if not any_at_all:
        return "the journal is empty: nothing has happened on this rig yet."
    whose = f" of {args.group}" if args.group else ""
    when = f" since {args.since}" if args.since else ""
    return f"no entry{whose}{when}; `rigctl status` names the groups."


def moment(text: str, now: float) -> float:
    """The wall time that a person means; USAGE where nobody can tell."""
    try:
        return now - seconds(text)
    except ValueError:
        pass
    if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
        text = time.strftime("%Y-%m-%d ", time.localtime(now)) + text
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"):
        try:
            return time.mktime(time.strptime(text, form))
        except ValueError:
            continue
    raise End(USAGE, f"--since {text}: say `2h`, `08:00` or `2026-11-29 08:00`.")


def _entries(talk: Conversation) -> Iterator[tuple[dict[str, Any], int]]:
    """Entries with how many were missed before each."""
    missed = 0
    for line in talk.lines():
        if line.get("kind") == "gap":
            missed += line["missed"]
        elif line.get("kind") == "journal":
            yield line["entry"], missed
            missed = 0


def _from_file(folder: Path, limit: int) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from rigctl.adapters.journal import Journal

    return [asdict(entry) for entry in Journal(folder / "journal.jsonl").after(0, limit)]


def _follow(args: argparse.Namespace, path: str, last: int) -> int:
    """Until ctrl+c; a daemon that is restarted meanwhile is picked up again."""
    while True:
        try:
            with Conversation(path) as talk:
                talk.ask({"do": "journal", "after": last, "limit": ALL, "follow": True})
                for entry, missed in _entries(talk):
                    if missed:
                        say(f"({missed} entries were missed; `rigctl journal` has them)")
                    last = entry["seq"]
                    if _wanted(entry, None, args.group):
                        _print(entry, args.json)
        except (Lost, NotRunning):
            time.sleep(1.0)


def _wanted(entry: dict[str, Any], since: float | None, group: str | None) -> bool:
    return (since is None or entry["wall"] >= since) and (not group or entry["group"] == group)


def _print(entry: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(entry), flush=True)
        return
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["wall"]))
    text = f"{when}  {entry['group'] or 'rig':<10} {entry['say']}"
    print(plain(text, speaks_utf8(sys.stdout)), flush=True)
