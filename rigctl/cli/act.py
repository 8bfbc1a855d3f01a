"""What every act has in common: options, a daemon to ask, the question, the wait, the exit code."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rigctl.cli import ask, where
from rigctl.cli.exits import FAILED, NOT_RUNNING, OK, PARTLY, USAGE, End
from rigctl.cli.follow import follow
from rigctl.cli.talk import NotRunning, act, snapshot
from rigctl.cli.words import say

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds of each unit that a length of time may be given in."""

LONGEST = 1e9
"""Seconds: 30 years. Calendars end not much later."""

SCHEMA = 1
"""Of the object that `--json` prints for an act."""

ENDS = {"done": OK, "partly": PARTLY, "failed": FAILED, "cancelled": FAILED}


@dataclass(frozen=True, slots=True)
class Wish:
    """One act, ready to be asked for."""

    command: str
    """Its name on the socket."""
    args: dict[str, Any]
    question: str
    """`Free long?`, asked only where `destructive`."""
    destructive: bool = False
    costs: list[str] = field(default_factory=list)
    """The consequence in numbers, said before the question and by --dry-run."""
    meanwhile: str = "See `rigctl status`."
    """What a person can do while it goes on without us."""


def add_options(parser: ArgumentParser, *, wait: bool | None) -> None:
    """The options that every act takes; `wait` is the default, None where there is no choice."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    if wait is not None:
        parser.add_argument(
            "--wait",
            action=BooleanOptionalAction,
            default=wait,
            help="wait for the outcome" + (" (the default)" if wait else ""),
        )
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="TIME",
        help="wait at most so long (90, 2m), then exit 124; the act goes on",
    )
    parser.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")
    parser.add_argument("--dry-run", action="store_true", help="say what would happen, do nothing")


def add_force(parser: ArgumentParser) -> None:
    """For acts after which an engine may not come back."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="also where the engine could not come back before a reboot",
    )


def seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `2h`, `1d`, `1h30m` in seconds; ValueError otherwise."""
    import re

    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        parts = [(text, "s")]
    elif not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(text)
    whole = sum(float(number) * UNITS[unit] for number, unit in parts)
    if whole > LONGEST:
        raise ValueError(text)
    return whole


seconds.__name__ = "time"  # argparse names the type: `invalid time value: '2 hours'`


def rig(args: Namespace, *, start: bool = True) -> tuple[str, dict[str, Any]]:
    """The socket's path and a snapshot; starts a daemon where none runs, and says so."""
    path = where.socket_file(args.home)
    try:
        return path, snapshot(path)
    except NotRunning:
        if not start:
            raise
    start_daemon(args.home)
    return path, snapshot(path)


def start_daemon(home: str | None) -> None:
    """Start the rig's daemon in the background; `End` with its own words where it does not."""
    from rigctl.cli.logout import warning
    from rigctl.config.paths import find_home
    from rigctl.control.start import DaemonStartError, ensure_daemon

    try:
        ensure_daemon(find_home(home), say)
    except DaemonStartError as error:
        raise End(NOT_RUNNING, error.say) from None
    about_logout = warning()
    if about_logout:
        say(about_logout)


def group_view(snap: dict[str, Any], name: str | None) -> dict[str, Any]:
    """The group of that name (None: the one that `free` means); USAGE with the nearest name."""
    wanted = name if name is not None else snap["free_means"]
    for group in snap["groups"]:
        if group["name"] == wanted:
            found: dict[str, Any] = group
            return found
    from difflib import get_close_matches

    names = [group["name"] for group in snap["groups"]]
    near = get_close_matches(wanted, names, 1)
    hint = f"did you mean `{near[0]}`?" if near else f"there is {', '.join(names) or 'none'}."
    raise End(USAGE, f"there is no group `{wanted}`: {hint}")


def carry_out(
    args: Namespace,
    path: str,
    wish: Wish,
    finish: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Ask the person, ask the daemon, wait where wanted; the exit code.

    `finish` is called with the ended operation, to print what is data about it.
    """
    if args.dry_run:
        return dry_run(args, wish)
    question(args, wish)
    accepted = send(path, wish, as_json=args.json, may_ask=not args.yes)
    if accepted["say"] and not args.json:
        say(accepted["say"])
    if not args.wait:
        if args.json:
            print_outcome(wish, accepted, None)
        else:
            say(f"asked for. {wish.meanwhile}")
        return OK
    ended = follow(
        path,
        accepted["operation"],
        timeout=args.timeout,
        quiet=args.json,
        meanwhile=wish.meanwhile,
    )
    if args.json:
        print_outcome(wish, accepted, ended)
    else:
        say(outcome(ended))
        if finish is not None:
            finish(ended)
    return ENDS.get(ended["state"], FAILED)


def question(args: Namespace, wish: Wish) -> None:
    """The confirmation, where the act takes something from somebody."""
    if wish.destructive:
        ask.confirm(wish.question, wish.costs, yes=args.yes)


def send(path: str, wish: Wish, *, as_json: bool = False, may_ask: bool = False) -> dict[str, Any]:
    """`{"operation": …, "say": …}`; a refusal ends the verb with the daemon's words.

    Where the daemon wants a second confirmation (C16) and a person is there, it is asked for by a
    word to type, which no slip of a key can answer; without one the words name `--force`.
    """
    answer = act(path, wish.command, wish.args)
    refused = answer.get("refused")
    may_ask = may_ask and not as_json and wish.args.get("force") is False
    if refused and refused["code"] == "needs-confirmation" and may_ask and ask.somebody_there():
        say(refused["say"])
        ask.typed(str(wish.args["group"]))
        answer = act(path, wish.command, wish.args | {"force": True})
        refused = answer.get("refused")
    if refused:
        if as_json:
            print(json.dumps(_object(wish) | {"refused": refused}))
        raise End(USAGE if refused["code"] == "unknown-group" else FAILED, refused["say"])
    accepted: dict[str, Any] = answer["accepted"]
    return accepted


def dry_run(args: Namespace, wish: Wish) -> int:
    """Say what would be asked for, and what it would cost."""
    if args.json:
        print(json.dumps(_object(wish) | {"dry_run": True, "costs": wish.costs}))
        return OK
    say(f"would ask the daemon: {wish.question.rstrip('?')}")
    for line in wish.costs:
        say(line)
    return OK


def without_daemon(args: Namespace) -> bool:
    """Whether a dry run finds no daemon; says so, since the costs cannot be known then."""
    try:
        snapshot(where.socket_file(args.home))
    except NotRunning:
        say("no daemon runs: it would be started first, and then asked.")
        return True
    return False


def outcome(ended: dict[str, Any]) -> str:
    """`long: 4 of 4 cards free, 94.9 GiB, 7.9 s`."""
    who = ended["group"] or ended["kind"]
    how = "" if ended["state"] == "done" else f"{ended['state']}: "
    return f"{who}: {how}{ended['say'] or ended['state']}"


def print_outcome(wish: Wish, accepted: dict[str, Any], ended: dict[str, Any] | None) -> None:
    """The act as one JSON object."""
    print(json.dumps(_object(wish) | {"accepted": accepted, "operation": ended}))
    sys.stdout.flush()


def _object(wish: Wish) -> dict[str, Any]:
    return {"schema": SCHEMA, "kind": "act", "command": wish.command, "args": wish.args}
