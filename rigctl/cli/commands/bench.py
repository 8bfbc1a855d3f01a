"""`rigctl bench self`: what rigctl costs, each figure beside its peer's in the same run."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

from rigctl.cli.exits import FAILED, OK

DESCRIPTION = """\
Measures what rigctl costs on a simulated rig, each figure beside a peer's in
the same run, and says which promises are met. Takes about four minutes.
Needs tmux, a C compiler and the peers: pip install 'rigctl[bench]'."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "bench", help="what rigctl costs, beside its peers", description=DESCRIPTION
    )
    parser.add_argument("what", choices=["self"], help="self: rigctl's own cost")
    parser.add_argument(
        "--only", action="append", default=[], metavar="ROW", help="one row by its id; repeatable"
    )
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="how long CPU and output are counted (30)"
    )
    parser.add_argument("--json", action="store_true", help="the table as one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table: 0 when every bar is met, else 1."""
    from rigctl.bench import plan, report, suite

    known = [row.id for row in plan.ROWS]
    unknown = [name for name in args.only if name not in known]
    if unknown:
        from rigctl.cli.exits import USAGE, End

        raise End(USAGE, f"no row {', '.join(unknown)}; there are {', '.join(known)}.")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    results = suite.run(args.only, args.seconds, lambda say: print(say, file=sys.stderr))
    print(report.as_json(results, suite.machine()) if args.json else report.table(results))
    return OK if all(plan.judge(result).met for result in results) else FAILED


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Ended from outside: unwind, so that rigs, peers and terminals of the run end with it."""
    raise SystemExit(128 + number)
