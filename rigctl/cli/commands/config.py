"""`rigctl config init|show|check|path`: the owner's file, made, read and explained."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from rigctl.cli import where
from rigctl.cli.exits import FAILED, OK, End
from rigctl.cli.words import say, show

if TYPE_CHECKING:
    from rigctl.config.paths import Home
    from rigctl.config.schema import Config

SCHEMA = 1
"""Of the JSON of these verbs; raised when a field changes meaning or goes."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "config",
        help="rig.toml: init, show, check, path",
        description="Makes, reads and explains rig.toml. Nothing here changes a running engine.",
    )
    verbs = parser.add_subparsers(dest="config_verb", metavar="init|show|check|path", required=True)
    init = verbs.add_parser(
        "init",
        help="write a commented rig.toml from the cards found",
        description="Writes a commented rig.toml: two equal groups of the cards found, in PCI "
        "order. An existing file is never overwritten.",
    )
    init.add_argument(
        "--from-running",
        action="store_true",
        help="from the command lines of the SGLang servers that run now; they stay as they are, "
        "and are taken over at their next restart",
    )
    init.add_argument("--model", metavar="PATH", help="the model both groups start with")
    init.set_defaults(run=run_init)
    shows = verbs.add_parser("show", help="every value, and where it came from; secrets masked")
    shows.add_argument("--json", action="store_true", help="one JSON object")
    shows.set_defaults(run=run_show)
    check = verbs.add_parser(
        "check",
        help="name every fault, with its line",
        description="Reads rig.toml and names every fault in it; then looks whether its cards, "
        "keys, models and engine programs are here.",
        epilog="exit code 0 without faults (warnings are no faults), 1 with",
    )
    check.add_argument("--json", action="store_true", help="one JSON object")
    check.add_argument(
        "--engine",
        action="store_true",
        help="also ask each installed engine whether it knows every flag (some 10 s each)",
    )
    check.set_defaults(run=run_check)
    path = verbs.add_parser("path", help="where rig.toml lies, and the other files")
    path.add_argument("--all", action="store_true", help="state, overrides, logs and socket too")
    path.add_argument("--json", action="store_true", help="all of them as one JSON object")
    path.set_defaults(run=run_path)


def run_path(args: argparse.Namespace) -> int:
    """Print where the file lies, whether or not it exists."""
    home = _home(args)
    places = {
        "config": home.config,
        "state": home.state,
        "overrides": home.overrides,
        "clients": home.clients,
        "logs": home.logs,
        "socket": home.socket,
    }
    if args.json:
        _json("config-path", {name: str(place) for name, place in places.items()})
    elif args.all:
        for name, place in places.items():
            print(f"{name:<10} {place}")
    else:
        print(home.config)
    return OK


def run_init(args: argparse.Namespace) -> int:
    """Write a first rig.toml."""
    from rigctl.cli.found_cards import read_cards
    from rigctl.config.init import PLACEHOLDER_MODEL, drafts_from_cards, write_new
    from rigctl.config.running import draft_group, find_servers
    from rigctl.config.schema import ConfigError

    path = _home(args).config
    if path.exists():
        raise End(
            FAILED,
            f"{path} exists already and is never overwritten.\n"
            "Edit it and run `rigctl config check`, or move it away first.",
        )
    cards, error = read_cards()
    if error:
        say(f"NVML says: {error}")
    if args.from_running:
        servers = find_servers()
        if not servers:
            raise End(
                FAILED,
                "no SGLang server runs here, so there is no command line to read.\n"
                "Start one, or run `rigctl config init` without --from-running.",
            )
        drafts = tuple(draft_group(server, cards) for server in servers)
    else:
        drafts = drafts_from_cards(cards, args.model or PLACEHOLDER_MODEL)
    try:
        written = write_new(path, drafts)
    except ConfigError as fault:
        raise End(FAILED, str(fault)) from None
    for file in written[:-1]:
        say(f"{file}: a key that stood on a command line, readable by you only")
    for draft in drafts:
        count = len(draft.config.cards)
        say(f"{draft.config.name}: {count} cards, port {draft.config.port}, {draft.config.model}")
    say("Edit the file, then run `rigctl config check`.")
    if args.from_running:
        say("The servers stay as they are: rigctl watches them until their next restart by it.")
    print(path)
    return OK


def run_show(args: argparse.Namespace) -> int:
    """Print every value with its origin."""
    from rigctl.config.show import shown_values

    home = _home(args)
    config = _load(home)
    values = shown_values(config)
    if args.json:
        _json(
            "config",
            {
                "path": config.path,
                "overrides": str(home.overrides),
                "values": [
                    {
                        "key": one.key,
                        "value": one.value,
                        "origin": one.origin,
                        "after": one.after,
                    }
                    for one in values
                ],
                "clients": [client.name for client in config.clients],
            },
        )
        return OK
    show(f"# {config.path}, overrides in {home.overrides}")
    table = ""
    width = max(len(one.text) for one in values if len(one.text) <= 60)
    for one in values:
        if one.table != table:
            table = one.table
            show(f"\n{table}")
        after = f", a change counts after `{one.after}`" if one.after else ""
        show(f"{one.text:<{width}}  # {one.origin}{after}")
    if config.proxy is None:
        show("\n# no [proxy]: rigctl runs no endpoint before the groups")
    else:
        names = ", ".join(client.name for client in config.clients) or "none, no key is asked for"
        show(f"\n# clients with a key: {names} ({home.clients}, `rigctl keys list`)")
    return OK


def run_check(args: argparse.Namespace) -> int:
    """Name every fault; 1 where there is one."""
    home = _home(args)
    faults, warnings = _findings(args, home)
    if args.json:
        _json("config-check", {"path": str(home.config), "faults": faults, "warnings": warnings})
    else:
        for fault in faults:
            show(fault)
        for warning in warnings:
            say(f"warning: {warning}")
        if not faults:
            show(f"{home.config}: no faults")
    return FAILED if faults else OK


def _findings(args: argparse.Namespace, home: Home) -> tuple[list[str], list[str]]:
    """Faults and warnings of the file, and of what it names on this machine."""
    from rigctl.cli.found_cards import ask_daemon, cards_of, read_cards
    from rigctl.config.check_world import (
        card_faults,
        engine_faults,
        world_faults,
        world_warnings,
    )
    from rigctl.config.faults import SeveralFaultsError
    from rigctl.config.load import load
    from rigctl.config.proxy_checks import not_yet
    from rigctl.config.schema import ConfigError

    try:
        config = load(home.config, home.overrides, home.clients)
    except SeveralFaultsError as several:
        return [str(fault) for fault in several.faults], []
    except ConfigError as fault:
        return [str(fault)], []
    warnings = list(world_warnings(config))
    faults = list(world_faults(config, os.environ))
    snap, _ = ask_daemon(where.socket_file(args.home))
    if snap:
        moves = not_yet(config.proxy, snap.get("endpoint", {}).get("url", ""))
        warnings += [moves] if moves else []
    if any(group.cards for group in config.groups):
        cards, error = (cards_of(snap), "") if snap else read_cards()
        if error:
            warnings.append(f"the cards could not be checked: {error}")
        else:
            faults += card_faults(config, cards)
    if args.engine:
        faults += engine_faults(config, os.environ)
    return faults, warnings


def _home(args: argparse.Namespace) -> Home:
    from rigctl.config.paths import find_home

    return find_home(args.home)


def _load(home: Home) -> Config:
    from rigctl.config.load import load
    from rigctl.config.schema import ConfigError

    try:
        return load(home.config, home.overrides, home.clients)
    except ConfigError as fault:
        raise End(FAILED, str(fault)) from None


def _json(kind: str, fields: dict[str, Any]) -> None:
    print(json.dumps({"schema": SCHEMA, "kind": kind, **fields}, ensure_ascii=False))
