"""`rigctl doctor`: gathers facts about this machine and prints what is wrong with them."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from rigctl.cli.gather import gather
from rigctl.cli.paint import Paint, colours_on, width
from rigctl.cli.render import wrap
from rigctl.cli.words import plain, speaks_utf8
from rigctl.core.doctor import examine, exit_code
from rigctl.core.doctor_finding import FAILURE, OK, SKIPPED, WARNING, Finding
from rigctl.core.probe import probe

SIGNS = {OK: "ok", SKIPPED: "--", WARNING: "! ", FAILURE: "!!"}
TONES = {OK: "good", SKIPPED: "dim", WARNING: "warning", FAILURE: "bad"}


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "doctor",
        help="look for what commonly goes wrong",
        description="Looks for what commonly goes wrong on such a machine and says how to mend "
        "it. Changes nothing, starts nothing.",
        epilog="exit code 0 clean, 1 warnings, 2 failures",
    )
    parser.add_argument("--json", action="store_true", help="findings with stable ids")
    parser.add_argument(
        "--probe",
        action="store_true",
        help="also ask the running engines about drafting, state slots, memory, think budget",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the findings; 0, 1 or 2."""
    findings = examine(gather(args.home))
    if args.probe:
        from rigctl.cli.probe_engines import engines

        for engine in engines(args.home):
            findings += probe(engine)
    if args.json:
        print(
            json.dumps(
                {
                    "schema": 1,
                    "kind": "doctor",
                    "findings": [asdict(finding) for finding in findings],
                }
            )
        )
    else:
        _print(findings)
    return exit_code(findings)


def _print(findings: tuple[Finding, ...]) -> None:
    paint, columns, utf8 = Paint(colours_on()), width(), speaks_utf8(sys.stdout)
    for finding in findings:
        sign = paint(SIGNS[finding.severity], TONES[finding.severity])
        lines = wrap(finding.say, max(20, columns - 22))
        if finding.fix:
            lines += wrap(f"fix: {finding.fix}", max(20, columns - 22), "     ")
        for place, line in enumerate(lines):
            head = f"{sign} {finding.id:<18}" if place == 0 else " " * 21
            print(plain(f"{head} {line}", utf8))
