"""`rigctl nvml release [DURATION]`: let go of the cards, so that one can be reset (C89)."""

from __future__ import annotations

import argparse
from typing import Any

from rigctl.cli import act
from rigctl.cli.words import span

USUAL = 300.0
"""Seconds: a reset takes a few, finding the command takes the rest."""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "nvml",
        help="`nvml release`: let go of the cards for a reset",
        description="Closes every handle that rigctl holds on the cards for a while, so that "
        "`sudo nvidia-smi --gpu-reset -i CARD` is not refused because of us. Engines on that card "
        "have to be stopped too.",
    )
    parser.add_argument("what", choices=("release",))
    parser.add_argument(
        "duration",
        type=act.seconds,
        nargs="?",
        default=USUAL,
        metavar="TIME",
        help="for how long (default 5m)",
    )
    act.add_options(parser, wait=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask for the release; the exit code."""
    path, snap = act.rig(args, start=False)
    busy = [group["name"] for group in snap["groups"] if group["pid"]]
    costs = [f"No figures of the cards for {span(args.duration)}; nothing is started meanwhile."]
    if busy:
        costs.append(f"{', '.join(busy)} still uses its cards: stop it before a reset.")
    wish = act.Wish(
        "nvml-release",
        {"seconds": args.duration},
        f"Let go of the cards for {span(args.duration)}?",
        costs=costs,
        meanwhile="`sudo nvidia-smi --gpu-reset -i CARD`, then `rigctl status`.",
    )
    return act.carry_out(args, path, wish)
