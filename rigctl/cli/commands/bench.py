"""`rigctl bench self` and `rigctl bench relay`: figures, each beside its peers' in the same run."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from rigctl.cli.exits import FAILED, OK, USAGE, End

if TYPE_CHECKING:
    from rigctl.bench.plan import Result, Row

DESCRIPTION = """\
Measures on a simulated rig, each figure beside its peers' in the same run, and
says which promises are met. A bar whose peer is not in the run is not met.

self: what rigctl costs. About four minutes; needs tmux, a C compiler and
  pip install 'rigctl[bench]'.
relay: what the endpoint adds to an answer, beside nginx, HAProxy, SGLang's own
  router and LiteLLM. About ten minutes, two with --quick, on a machine that
  does nothing else. It installs nothing: a missing peer is named with the
  command that brings it."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "bench",
        help="what rigctl costs, beside its peers",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        choices=["self", "relay"],
        help="self: rigctl's own cost; relay: the endpoint's",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="ROW", help="one row by its id; repeatable"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=30.0,
        help="self: how long CPU and output are counted (30)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="relay: fewer rounds, for finding problems"
    )
    parser.add_argument("--json", action="store_true", help="the table as one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table: 0 when every bar is met, else 1."""
    from rigctl.bench import plan, report

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    results, machine = _relay(args) if args.what == "relay" else _self(args)
    print(report.as_json(results, machine) if args.json else report.table(results, machine))
    kept = (plan.judge(result).met for result in results if result.row.bars)
    return OK if all(kept) else FAILED


def _self(args: argparse.Namespace) -> tuple[Sequence[Result], dict[str, str]]:
    from rigctl.bench import plan, suite

    if args.quick:
        raise End(USAGE, "--quick is for `bench relay`; `bench self` takes --seconds.")
    _known(args.only, plan.ROWS)
    return suite.run(args.only, args.seconds, _progress), suite.machine()


def _relay(args: argparse.Namespace) -> tuple[Sequence[Result], dict[str, str]]:
    from rigctl.bench import relay_plan, relay_suite

    _known(args.only, relay_plan.ROWS)
    effort = relay_plan.QUICK if args.quick else relay_plan.FULL
    machine = relay_suite.machine(effort)
    return relay_suite.run(effort, args.only, _progress), machine


def _known(wanted: Sequence[str], rows: Sequence[Row]) -> None:
    known = [row.id for row in rows]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise End(USAGE, f"no row {', '.join(unknown)}; there are {', '.join(known)}.")


def _progress(say: str) -> None:
    print(say, file=sys.stderr)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Ended from outside: unwind, so that rigs, peers and terminals of the run end with it."""
    raise SystemExit(128 + number)
