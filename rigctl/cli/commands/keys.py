"""`rigctl keys add|list|remove`: who may use the endpoint. Keys are shown once, kept as hashes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.cli import ask
from rigctl.cli.exits import FAILED, OK, USAGE, End
from rigctl.cli.table import Fitted
from rigctl.cli.words import ABSENT, plural, say, show

if TYPE_CHECKING:
    from rigctl.config.paths import Home
    from rigctl.config.schema import ClientConfig

SCHEMA = 1
"""Of the JSON of these verbs; raised when a field changes meaning or goes."""

HASH_SIGNS = 12
"""Of a hash, enough to tell keys apart."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "keys",
        help="who may use the endpoint: add, list, remove",
        description="The clients of the endpoint. Without any it asks for no key; with the first "
        "one every client needs one. The endpoint follows a change at once.",
    )
    verbs = parser.add_subparsers(dest="keys_verb", metavar="add|list|remove", required=True)
    adds = verbs.add_parser(
        "add",
        help="make a client's key",
        description="Makes a random key and prints it on stdout, once: only its hash is kept.",
    )
    adds.add_argument("name", metavar="NAME", help="what the client is called")
    adds.add_argument(
        "--running", type=_limit, metavar="N", help="requests that may be under way at once"
    )
    adds.add_argument("--comment", metavar="TEXT", default="", help="for yourself")
    adds.add_argument(
        "--replace", action="store_true", help="a new key for a client there is; the old one ends"
    )
    adds.add_argument("--json", action="store_true", help="one JSON object, the key in it")
    adds.set_defaults(run=run_add)
    lists = verbs.add_parser("list", help="names, limits, days; never a key")
    lists.add_argument("--json", action="store_true", help="one JSON object")
    lists.set_defaults(run=run_list)
    removes = verbs.add_parser(
        "remove", help="end a client's key", description="The client is refused from then on."
    )
    removes.add_argument("name", metavar="NAME")
    removes.add_argument("-y", "--yes", action="store_true", help="do not ask")
    removes.set_defaults(run=run_remove)


def _limit(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100_000:
        raise ValueError(text)
    return number


_limit.__name__ = "number from 1 on"  # argparse names the type in its message


def run_add(args: argparse.Namespace) -> int:
    """Make a key; the exit code."""
    import datetime
    from dataclasses import replace

    from rigctl.config.clients import hash_key, locked, name_fault, new_key, write_clients
    from rigctl.config.schema import ClientConfig

    wrong = name_fault(args.name)
    if wrong:
        raise End(USAGE, f"{wrong}.")
    home = _home(args)
    key = new_key()
    made = ClientConfig(
        args.name,
        hash_key(key),
        args.running,
        datetime.datetime.now().astimezone().date(),
        args.comment,
    )
    with _writing(home.clients), locked(home.clients):
        clients = _read(home.clients)
        old = next((one for one in clients if one.name == args.name), None)
        if old is not None and not args.replace:
            raise End(
                FAILED,
                f"{args.name} has a key already, and it cannot be shown again.\n"
                f"`rigctl keys add {args.name} --replace` makes a new one; the old one ends.",
            )
        if old is not None:
            made = replace(
                made,
                running=old.running if args.running is None else args.running,
                comment=args.comment or old.comment,
            )
            changed = tuple(made if one.name == args.name else one for one in clients)
        else:
            changed = (*clients, made)
        write_clients(home.clients, changed)
    if args.json:
        told = {"schema": SCHEMA, "kind": "key", "name": made.name, "key": key}
        print(json.dumps({**told, "running": made.running}))
        return OK
    say(f"{args.name}'s key, shown this once; only its hash is kept ({home.clients}):")
    print(key, flush=True)
    say(_how(home))
    if not clients:
        say("It is the first one: from now on every client needs a key.")
    return OK


def _how(home: Home) -> str:
    """What the client does with it, and from when it counts."""
    from rigctl.config.load import load
    from rigctl.config.schema import ConfigError

    try:
        proxy = load(home.config).proxy
    except ConfigError:
        proxy = None
    if proxy is None:
        return "It counts once rig.toml has a [proxy] section: see `rigctl config init`."
    host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
    return (
        f"The client sets base_url to http://{host}:{proxy.port}/v1 and api_key to this key; the "
        "endpoint takes it at once."
    )


def run_list(args: argparse.Namespace) -> int:
    """Print the clients; the exit code."""
    clients = _read(_home(args).clients)
    if args.json:
        rows = [
            {
                "name": one.name,
                "running": one.running,
                "created": None if one.created is None else one.created.isoformat(),
                "comment": one.comment,
                "sha256": one.key_hash[:HASH_SIGNS],
            }
            for one in clients
        ]
        print(json.dumps({"schema": SCHEMA, "kind": "keys", "clients": rows}, ensure_ascii=False))
        return OK
    if not clients:
        say("no client has a key, so none is asked for: `rigctl keys add NAME` makes the first.")
        return OK
    fitted = Fitted(
        {
            "name": [one.name for one in clients],
            "running": [_at_most(one) for one in clients],
            "created": [ABSENT if one.created is None else str(one.created) for one in clients],
            "sha256": [f"{one.key_hash[:HASH_SIGNS]}…" for one in clients],
            "comment": [one.comment for one in clients],
        },
        10_000,
    )
    for line in (fitted.head, *fitted.rows):
        show(line)
    return OK


def _at_most(client: ClientConfig) -> str:
    return "any" if client.running is None else f"at most {client.running}"


def run_remove(args: argparse.Namespace) -> int:
    """End a key; the exit code."""
    from rigctl.config.clients import locked, write_clients

    home = _home(args)
    client = _find(_read(home.clients), args.name)
    ask.confirm(f"End the key of {client.name}?", _costs(home, client), yes=args.yes)
    with _writing(home.clients), locked(home.clients):
        clients = _read(home.clients)
        _find(clients, args.name)  # somebody else may have ended it meanwhile
        left = tuple(one for one in clients if one.name != args.name)
        if not left:
            _refuse_open(home, args.name)
        write_clients(home.clients, left)
    if left:
        say(f"{args.name} is refused from now on; {plural(len(left), 'client')} left.")
    else:
        say(f"{args.name}'s key has ended, the last one: no key is asked for any more.")
    return OK


def _find(clients: tuple[ClientConfig, ...], name: str) -> ClientConfig:
    for one in clients:
        if one.name == name:
            return one
    from rigctl.config.faults import nearest

    near = nearest(name, [one.name for one in clients])
    hint = f"did you mean `{near}`?" if near else "`rigctl keys list` shows who has one."
    raise End(USAGE, f"no client is called `{name}`: {hint}")


def _costs(home: Home, client: ClientConfig) -> list[str]:
    others = [one for one in _read(home.clients) if one.name != client.name]
    made = f" (made {client.created})" if client.created else ""
    lines = [f"{client.name}'s key{made} ends; its requests are refused (401) from then on."]
    if not others:
        lines.append(
            "It is the last one: afterwards no key is asked for, and everybody on this machine can "
            "use the endpoint."
        )
    return lines


def _refuse_open(home: Home, name: str) -> None:
    """An endpoint that other machines reach never goes without keys."""
    from rigctl.config.load import load
    from rigctl.config.proxy_checks import is_loopback
    from rigctl.config.schema import ConfigError

    try:
        proxy = load(home.config).proxy
    except ConfigError:
        return
    if proxy is not None and not is_loopback(proxy.host):
        raise End(
            FAILED,
            f"{name} has the last key, and [proxy] listens on {proxy.host}, where other machines "
            'reach it: write host = "127.0.0.1" first and run `rigctl endpoint restart`, or give '
            "another client a key.",
        )


def _home(args: argparse.Namespace) -> Home:
    from rigctl.config.paths import find_home

    return find_home(args.home)


def _read(path: Path) -> tuple[ClientConfig, ...]:
    from rigctl.config.clients import read_clients
    from rigctl.config.schema import ConfigError

    try:
        return read_clients(path)
    except ConfigError as fault:
        raise End(FAILED, str(fault)) from None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A full disk or a folder without rights ends the verb in words; the table is as it was."""
    try:
        yield
    except OSError as error:
        raise End(
            FAILED,
            f"{path} cannot be written: {error.strerror}. Nothing was changed; make room or mend "
            "its folder's rights, then try again.",
        ) from None
