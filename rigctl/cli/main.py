"""The command line's entry: finds the verb, loads only that verb's module, returns its exit code.

Nothing heavy is imported here: `rigctl status` runs in watch loops and prompts.
"""

from __future__ import annotations

import os
import sys

from rigctl.cli import exits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

VERBS: dict[str, tuple[str, str]] = {
    "panel": ("panel", "open the panel, as `rigctl` alone does: --read-only, --theme"),
    "status": ("status", "the rig on one page: --json, --watch, --check"),
    "start": ("start", "start a group's engine"),
    "stop": ("stop", "drain and stop a group's engine"),
    "restart": ("restart", "drain, stop and start a group's engine"),
    "free": ("free", "free a group's cards for other work: drain, stop, verify, lend"),
    "reclaim": ("reclaim", "take lent cards back, or cancel a free that still drains"),
    "lend": ("lend", "free the cards, run a command on them, take them back"),
    "sleep": ("sleep", "sleep-on-idle on or off, with what it saves"),
    "power-limit": ("power_limit", "set the cards' power limit"),
    "leftovers": ("leftovers", "end processes that a group's own past engine left behind"),
    "endpoint": ("endpoint", "the one address that clients use: how it stands; `restart`"),
    "sessions": ("sessions", "who asks for what at the endpoint: --watch, --client, --cluster"),
    "abort": ("abort", "end one request at the endpoint"),
    "route": ("route", "`route explain`: where the endpoint sent requests, and why"),
    "keys": ("keys", "who may use the endpoint: add, list, remove"),
    "logs": ("logs", "an engine's, the daemon's or the proxy's log: -f, --previous, --grep"),
    "journal": ("journal", "what happened on the rig: -f, --since, --group"),
    "group": ("group", "a group's command line, and what differs from the running one"),
    "config": ("config", "rig.toml: init, show, check, path"),
    "doctor": ("doctor", "look for what commonly goes wrong on such a machine"),
    "bench": ("bench", "what rigctl costs, each figure beside a peer's"),
    "demo": ("demo", "a simulated rig, to look around without a card"),
    "daemon": ("daemon", "run the daemon in the foreground; `stop`, `confirm`"),
    "service": ("service", "the systemd user service: install, status, uninstall"),
    "shortcut": ("shortcut", "a keyboard shortcut for `rigctl free --notify`"),
    "nvml": ("nvml", "`nvml release`: let go of the cards so that one can be reset"),
    "reset-terminal": ("reset_terminal", "mend a terminal that a killed panel left behind"),
    "completion": ("completion", "shell completion for bash, zsh or fish"),
    "version": ("version", "versions of rigctl and of the running daemon"),
}
"""Verb -> module in `cli.commands`, and its line in the help. A module has `add(subparsers)`."""


def run() -> NoReturn:
    """The installed command: `main` with the process's arguments, and a quiet end."""
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # `rigctl status | head -1`: the reader has what it wanted. What is still buffered goes
        # to /dev/null, or the interpreter complains about it while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exits.OK
    except KeyboardInterrupt:
        code = exits.INTERRUPTED
    sys.exit(code)


def main(argv: Sequence[str]) -> int:
    """Run one verb; its exit code. `SystemExit` comes from argparse for usage and help."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        home, rest = _take_globals(list(argv))
        verb, rest = _verb(rest)
        return _call(verb, rest, home)
    except exits.End as end:
        if end.say:
            from rigctl.cli.words import say

            say(end.say)
        return end.code


def _take_globals(argv: list[str]) -> tuple[str | None, list[str]]:
    """Take `--home` and `--no-color` out, wherever they stand before a `--`."""
    home: str | None = None
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            rest.append(word)
            rest.extend(words)
        elif word == "--no-color":
            os.environ["NO_COLOR"] = "1"
        elif word == "--home":
            home = next(words, "")
            if not home:
                raise exits.End(exits.USAGE, "--home needs a folder: `rigctl --home DIR status`.")
        elif word.startswith("--home="):
            home = word.removeprefix("--home=")
        else:
            rest.append(word)
    return home, rest


def _verb(argv: list[str]) -> tuple[str, list[str]]:
    """The verb and what is left for it."""
    first = argv[0] if argv else ""
    if first in ("-h", "--help", "help"):
        print(help_text())
        raise exits.End(exits.OK)
    if first in ("-V", "--version"):
        return "version", argv[1:]
    if first.startswith("-") or not first:
        return "panel", argv
    if first not in VERBS:
        from difflib import get_close_matches

        near = get_close_matches(first, VERBS, 1)
        hint = f"did you mean `rigctl {near[0]}`?" if near else "`rigctl --help` lists them."
        raise exits.End(exits.USAGE, f"there is no verb `{first}`: {hint}")
    return first, argv[1:]


def _call(verb: str, rest: list[str], home: str | None) -> int:
    from importlib import import_module

    command: list[str] = []
    if "--" in rest:
        at = rest.index("--")
        rest, command = rest[:at], rest[at + 1 :]
        if verb != "lend":
            raise exits.End(exits.USAGE, "only `rigctl lend` takes a command after `--`.")
    module = import_module(f"rigctl.cli.commands.{VERBS[verb][0]}")
    if verb == "status" and rest in ([], ["--json"]):
        # What watch loops and prompts run: a third of its time would go into argparse.
        code: int = module.once(home, as_json=bool(rest))
        return code
    from rigctl.cli.parser import Parser

    parser = Parser(prog="rigctl", add_help=False)
    subparsers = parser.add_subparsers(dest="verb", prog="rigctl")
    module.add(subparsers)
    parser.set_defaults(home=home, cmd=command)
    args, unknown = parser.parse_known_args([verb, *rest])
    if unknown:
        words = " ".join(unknown)
        hint = f"`rigctl {verb} --help` says what it takes."
        raise exits.End(exits.USAGE, f"`rigctl {verb}` does not take {words}: {hint}")
    ended: int = args.run(args)
    return ended


def help_text() -> str:
    """`rigctl --help`: the verbs from the table, then the exit codes."""
    verbs = "\n".join(f"  {verb:<15} {line}" for verb, (_, line) in VERBS.items())
    return f"""\
usage: rigctl [--home DIR] [--no-color] [VERB …]

A control panel for a home GPU rig. Without a verb it opens the panel; where
there is no terminal it prints the status.

verbs (`rigctl VERB --help` says more):
{verbs}

options:
  --home DIR      keep config, state, logs and socket under DIR (or RIGCTL_HOME)
  --no-color      plain text (or NO_COLOR=1)
  --version       print the version

{exits.HELP}"""
