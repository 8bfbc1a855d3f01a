"""`rigctl lend GROUP -- CMD…`: free the cards, run a command on them, take them back."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from typing import Any

from rigctl.cli import act, exits, talk
from rigctl.cli.cards import variables
from rigctl.cli.commands.free import add_lease_options, wish_for
from rigctl.cli.exits import End
from rigctl.cli.follow import follow
from rigctl.cli.talk import snapshot
from rigctl.cli.words import say
from rigctl.cli.worker import Relay, check
from rigctl.config.flags import MASK, mask, secret_name
from rigctl.core.redact import redact


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "lend",
        help="run a command on a group's cards",
        usage="rigctl lend GROUP [--for TIME] [--kill] [options] -- CMD…",
        description="Frees the group's cards, runs CMD with CUDA_DEVICE_ORDER, "
        "CUDA_VISIBLE_DEVICES, RIGCTL_GROUP and RIGCTL_CARDS set, and takes the cards back when "
        "CMD ends, also after ctrl+c or when the terminal dies.",
        epilog="Exit code: CMD's own, 128 + signal where one ended it; 125 the cards could not be "
        "lent, 126 CMD may not be executed, 127 there is no CMD.",
    )
    parser.add_argument("group", metavar="GROUP")
    add_lease_options(parser)
    parser.add_argument(
        "--kill", action="store_true", help="at the end of --for, end CMD (and nothing else)"
    )
    parser.add_argument("--uuids", action="store_true", help="name the cards by UUID")
    act.add_force(parser)
    act.add_options(parser, wait=None)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Lend the cards; the command's exit code, or 125 to 127."""
    if not args.cmd:
        raise End(exits.USAGE, "say what to run after `--`: `rigctl lend long -- python train.py`.")
    if args.kill and args.lease is None:
        raise End(exits.USAGE, "--kill needs an end: add --for TIME, like --for 2h.")
    check(args.cmd[0])
    if args.dry_run and act.without_daemon(args):
        return exits.OK
    try:
        path, snap = act.rig(args)
        group = act.group_view(snap, args.group)
        wish = wish_for(args, snap, group, holder=_named(args.cmd), pid=os.getpid())
        if args.dry_run:
            return act.dry_run(args, wish)
        act.question(args, wish)
    except End as end:
        # A wrong word or an unanswered question is the person's; all else is rigctl's failure.
        raise End(end.code if end.code == exits.USAGE else exits.LEND_FAILED, end.say) from None
    relay = Relay()
    try:
        return _lend(args, path, group, wish, relay)
    except KeyboardInterrupt:
        _take_back(path, group["name"])
        raise


def _named(command: list[str]) -> str:
    """The command as the holder's name, its keys masked: that name goes into journal and state."""
    words = []
    for word in mask(command):
        name, equals, _ = word.partition("=")
        shown = f"{name}={MASK}" if equals and secret_name(name) else word
        words.append(shown if MASK in shown else shlex.quote(shown))
    return redact(" ".join(words))[:60]


def _lend(
    args: argparse.Namespace, path: str, group: dict[str, Any], wish: act.Wish, relay: Relay
) -> int:
    name = group["name"]
    asked = False
    try:
        accepted = act.send(path, wish, may_ask=not args.yes)
        asked = True
        if accepted["say"]:
            say(accepted["say"])
        ended = follow(
            path,
            accepted["operation"],
            timeout=args.timeout,
            quiet=args.json,
            meanwhile="",
        )
        say(act.outcome(ended))
        if ended["state"] != "done":
            raise End(
                exits.LEND_FAILED,
                f"{args.cmd[0]} was not run: the cards of {name} are not all free.",
            )
        found = variables(snapshot(path), group, uuids=args.uuids)
    except End as end:
        if asked:
            _take_back(path, name)
        raise End(exits.LEND_FAILED, end.say) from None
    found |= {"RIGCTL_GROUP": name, "RIGCTL_CARDS": ",".join(group["cards"])}
    try:
        worker = relay.start(args.cmd, found)
    except End:
        _take_back(path, name)
        raise
    _tell(path, name, worker.pid, args.kill)
    code = worker.wait()
    _take_back(path, name)
    if args.json:
        print(
            json.dumps(
                {
                    "schema": act.SCHEMA,
                    "kind": "lend",
                    "group": name,
                    "operation": ended,
                    "exit_code": code,
                }
            )
        )
    return code


def _tell(path: str, group: str, pid: int, kill: bool) -> None:
    """Let the daemon know what runs on the cards; the command goes on if it cannot be told."""
    try:
        act.send(
            path,
            act.Wish("lend-started", {"group": group, "pid": pid, "kill_at_end": kill}, ""),
        )
    except End as end:
        say(f"the daemon was not told which process runs on the cards: {end.say}")


def _take_back(path: str, group: str) -> None:
    """Ask for the cards; where no daemon answers, it does so itself: it watches our pid."""
    try:
        answer = talk.act(path, "reclaim", {"group": group, "start": True})
    except End as end:
        say(f"the cards of {group} were not taken back by us: {end.say}")
        return
    refused = answer.get("refused")
    if refused and refused["code"] == "not-lent":
        say(f"the lease of {group} had ended already; see `rigctl status`.")
    elif refused:
        say(f"the cards of {group} were not taken back by us: {refused['say']}")
    else:
        say(answer["accepted"]["say"] or f"{group} is taken back.")
