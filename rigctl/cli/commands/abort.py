"""`rigctl abort REQUEST`: end one request at the endpoint."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act
from rigctl.cli.endpoint_words import NONE, endpoint_of, row_state, running, whose
from rigctl.cli.exits import FAILED, USAGE, End
from rigctl.cli.session_page import find_request, short
from rigctl.cli.words import number, plural, tokens


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "abort",
        help="end one request at the endpoint",
        description="Ends one request: its client gets an error that says who did, and its slot is "
        "free after the chunk that is being read. `rigctl sessions` lists the requests.",
    )
    parser.add_argument(
        "request",
        metavar="REQUEST",
        help="a request's id as `rigctl sessions` shows it, or its session's label",
    )
    act.add_options(parser, wait=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask, then end it; the exit code."""
    path, snap = act.rig(args, start=False)
    if endpoint_of(snap)["state"] == "none":
        raise End(FAILED, NONE)
    row = _one(snap, args.request)
    wish = act.Wish(
        "abort",
        {"request": row["request"]},
        f"End request {short(row['request'])} of {whose(row)}?",
        destructive=True,
        costs=costs(row),
        meanwhile="See `rigctl sessions`.",
    )
    return act.carry_out(args, path, wish)


def _one(snap: dict[str, Any], wanted: str) -> dict[str, Any]:
    """The one request that is meant; else the verb ends with those that could be."""
    found = find_request(snap, wanted)
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(short(row["request"]) for row in found)
        raise End(USAGE, f"`{wanted}` may mean any of {ids}: say more of the one you mean.")
    under_way = running(endpoint_of(snap))
    if not under_way:
        raise End(FAILED, f"no request is under way, so `{wanted}` has ended or never was.")
    raise End(
        USAGE,
        f"no request `{wanted}` is under way; {plural(len(under_way), 'other')} "
        f"{'is' if len(under_way) == 1 else 'are'}: `rigctl sessions` lists them.",
    )


def costs(row: dict[str, Any]) -> list[str]:
    """Whose it is, how it stands, what it made, and what its client will see."""
    where = f" on {row['cluster']}" if row["cluster"] else ""
    context = number(row["context"])
    prompt = f", {tokens(context)} tokens of context" if context is not None else ""
    made = plural(row["produced"], "token") if row["produced"] else "no token"
    return [
        f"{whose(row)} asked it{where}: turn {row['turn']} of session {row['session']}.",
        f"It is {row_state(row)}; it waited {row['waited']:.1f} s and made {made} so far{prompt}.",
        "Its client gets an error that says it was ended here; it is tried nowhere else.",
    ]
