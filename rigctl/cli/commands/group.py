"""`rigctl group show NAME`: the command line of a group, and what the running one has otherwise."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rigctl.cli import where
from rigctl.cli.exits import FAILED, OK, USAGE, End
from rigctl.cli.words import say, show

if TYPE_CHECKING:
    from rigctl.config.schema import LaunchPlan
    from rigctl.core.cards import CardSample

SCHEMA = 1
"""Of the JSON of this verb; raised when a field changes meaning or goes."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of the group: from rig.toml, and from the daemon where one runs."""

    plan: LaunchPlan | None
    fault: str
    """Why there is no plan."""
    view: dict[str, Any] | None
    """The daemon's view of the group."""
    why_no_view: str


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "group",
        help="a group's command line, and what differs from the running one",
        description="Shows how rigctl starts a group's engine. Changes nothing.",
    )
    verbs = parser.add_subparsers(dest="group_verb", metavar="show", required=True)
    shows = verbs.add_parser(
        "show",
        help="the command line, and what the running one has otherwise",
        description="Prints the variables and the command line that start the group's engine, "
        "ready to paste, secrets masked; then what the running engine has otherwise.",
    )
    shows.add_argument("group", metavar="NAME", help="the group's name in rig.toml")
    shows.add_argument("--json", action="store_true", help="one JSON object")
    shows.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the command line; 1 where neither rig.toml nor the daemon has one."""
    found = _find(args)
    if found.plan is None and found.view is None:
        raise End(FAILED, f"{found.fault}\n{found.why_no_view}")
    if args.json:
        _print_json(args.group, found)
    else:
        _print_page(found)
    return OK


def _find(args: argparse.Namespace) -> Found:
    from rigctl.cli.found_cards import ask_daemon, cards_of, read_cards
    from rigctl.config.load import load
    from rigctl.config.paths import find_home
    from rigctl.config.plan import launch_plan
    from rigctl.config.schema import ConfigError

    home = find_home(args.home)
    snap, why = ask_daemon(where.socket_file(args.home))
    views = {view["name"]: view for view in snap["groups"]} if snap else {}
    view = views.get(args.group)
    try:
        config = load(home.config, home.overrides)
    except ConfigError as fault:
        return Found(None, str(fault), view, why)
    names = [str(group.name) for group in config.groups]
    if args.group not in names:
        if view is None:
            raise End(USAGE, _no_group(args.group, sorted({*names, *views})))
        return Found(None, f"{config.path} has no group {args.group!r} any more", view, why)
    group = config.group(args.group)
    cards: tuple[CardSample, ...] = ()
    error = ""
    if snap:
        cards = cards_of(snap)
    elif group.cards:
        cards, error = read_cards()
    if error:
        return Found(None, f"the cards cannot be read: {error}", view, why)
    try:
        plan = launch_plan(group, config, cards, os.environ, group.sleep_on_idle, home.state)
    except ConfigError as fault:
        return Found(None, str(fault), view, why)
    return Found(plan, "", view, why)


def _no_group(name: str, names: list[str]) -> str:
    from rigctl.config.faults import nearest

    near = nearest(name, names)
    advice = f"did you mean {near!r}?" if near else f"the groups are {', '.join(names)}."
    return f"there is no group {name!r}: {advice}"


def _print_page(found: Found) -> None:
    """The command on stdout, ready to paste; remarks on stderr, differences on stdout."""
    if found.plan is not None:
        show(_pasted(found.plan.masked, _masked_env(found.plan)))
    else:
        say(f"rig.toml gives no command line: {found.fault}")
        assert found.view is not None
        show(_pasted(tuple(found.view["command"]), {}))
    if found.view is None:
        say(f"{found.why_no_view}: computed from rig.toml alone, nothing to compare with.")
        return
    for line in _stale(found):
        say(line)
    if found.view["pid"] is None:
        say(f"the engine does not run ({found.view['state']}): nothing to compare with.")
    elif not found.view["differs"]:
        show("\n# the running engine was started the same way")
    else:
        show("\n# what the running engine has otherwise; a restart takes this command line")
        for line in found.view["differs"]:
            show(f"#   {line}")


def _stale(found: Found) -> tuple[str, ...]:
    """What the daemon would start otherwise, since it read rig.toml earlier."""
    from rigctl.config.diff import differences

    if found.plan is None or found.view is None or not found.view["command"]:
        return ()
    words = ("in rig.toml", "in the daemon")
    lines = differences(found.plan.masked, found.view["command"], words=words)
    if not lines:
        return ()
    return ("the daemon has read rig.toml before this change:", *(f"  {line}" for line in lines))


def _print_json(name: str, found: Found) -> None:
    view, plan = found.view, found.plan
    command = list(plan.masked) if plan else list(view["command"]) if view else []
    print(
        json.dumps(
            {
                "schema": SCHEMA,
                "kind": "group",
                "name": name,
                "command": command,
                "env": _masked_env(plan) if plan else None,
                "cards": list(plan.cards) if plan else list(view["cards"]) if view else [],
                "fault": found.fault,
                "daemon": view is not None,
                "state": view["state"] if view else None,
                "pid": view["pid"] if view else None,
                "differs": list(view["differs"]) if view else None,
                "stale": list(_stale(found)[1:]),
            },
            ensure_ascii=False,
        )
    )


def _masked_env(plan: LaunchPlan) -> dict[str, str]:
    from rigctl.config.flags import MASK, secret_name

    return {name: MASK if secret_name(name) else value for name, value in plan.env.items()}


def _pasted(argv: tuple[str, ...], env: dict[str, str]) -> str:
    """Variables, program and flags as a shell takes them, a flag a line."""
    from rigctl.config.flags import is_flag, split_command

    program = split_command(argv).program
    lines = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    lines.append(shlex.join(program))
    for word in argv[len(program) :]:
        if is_flag(word):
            lines.append(f"  {shlex.quote(word)}")
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return " \\\n".join(lines)
