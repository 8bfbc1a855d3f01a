"""`rigctl completion bash|zsh|fish`: scripts made from the verbs' own parsers."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rigctl.cli import where
from rigctl.cli.completion_scripts import SCRIPTS
from rigctl.cli.exits import OK, End
from rigctl.cli.parser import Parser
from rigctl.cli.talk import snapshot


@dataclass(frozen=True, slots=True)
class Word:
    """One verb as the shells need to know it."""

    name: str
    help: str
    options: tuple[tuple[str, str, bool], ...]
    """Long option, help, whether it takes a value."""
    choices: tuple[str, ...]
    """What its positional arguments may be, in any place."""
    groups: bool
    """Whether a group's name is among them."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "completion",
        help="shell completion",
        description="Prints a completion script. bash: `source <(rigctl completion bash)`; "
        "zsh: put it as `_rigctl` in a folder of $fpath; fish: "
        "`rigctl completion fish > ~/.config/fish/completions/rigctl.fish`.",
    )
    parser.add_argument("shell", choices=(*SCRIPTS, "groups"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a script, or the groups' names for the scripts to ask for."""
    if args.shell == "groups":
        print("\n".join(groups(args.home)))
    else:
        print(SCRIPTS[args.shell](list(words())))
    return OK


def words() -> Iterator[Word]:
    """Every verb of the table, described by its parser."""
    from rigctl.cli.main import VERBS

    for verb, (module, line) in VERBS.items():
        parser = Parser(prog="rigctl", add_help=False)
        subparsers = parser.add_subparsers(prog="rigctl")
        import_module(f"rigctl.cli.commands.{module}").add(subparsers)
        yield _word(verb, line, subparsers.choices[verb])


def groups(home: str | None) -> list[str]:
    """The groups' names: of the daemon, else of rig.toml; none where neither can be read."""
    try:
        return [group["name"] for group in snapshot(where.socket_file(home))["groups"]]
    except End:
        pass
    try:
        with open(where.config_file(home), "rb") as file:
            found = tomllib.load(file).get("group", [])
        return [group["name"] for group in found]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _word(verb: str, line: str, parser: argparse.ArgumentParser) -> Word:
    options: dict[str, tuple[str, bool]] = {}
    choices: list[str] = []
    takes_group = False
    for each in (parser, *_nested(parser)):
        for action in each._actions:
            if isinstance(action, argparse._SubParsersAction):
                choices.extend(action.choices)
                continue
            for option in action.option_strings:
                if option.startswith("--") and action.help != argparse.SUPPRESS:
                    options[option] = (action.help or "", action.nargs != 0)
            if not action.option_strings:
                choices.extend(map(str, action.choices or ()))
                takes_group |= "GROUP" in str(action.metavar or "")
            else:
                takes_group |= action.metavar == "GROUP"
    if verb == "completion":
        choices.remove("groups")
    flat = tuple((name, " ".join(text.split()), value) for name, (text, value) in options.items())
    return Word(verb, line, flat, tuple(choices), takes_group)


def _nested(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()
