"""`rigctl demo`: a simulated rig with its own daemon, and the panel on it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from types import FrameType
from typing import Any

from rigctl.cli.exits import FAILED, OK, USAGE, End
from rigctl.cli.words import say, show


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "demo",
        help="a simulated rig",
        description="Makes a rig of eight simulated cards and two simulated engines, puts a load "
        "on it and opens the panel. Leaving it ends all of it. With RIGCTL_HOME or --home set the "
        "rig lies there, so that a second terminal can look in.",
    )
    parser.add_argument("--no-panel", action="store_true", help="only run it, until ctrl+c")
    parser.add_argument(
        "--speed", type=_speed, default=1.0, metavar="N", help="how many times as fast as real"
    )
    parser.add_argument("--scene", default="team", metavar="NAME", help="`list` says what there is")
    parser.add_argument("--theme", metavar="NAME", help="one of themes/, or a file")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the demo until it is left; its exit code."""
    from rigctl.sim.demo import DemoError, DemoRig
    from rigctl.sim.scenes import SCENES

    if args.scene not in SCENES:
        text = "\n".join(f"{scene.name:<10} {scene.say}" for scene in SCENES.values())
        if args.scene == "list":
            show(text)
            return OK
        raise End(USAGE, f"there is no scene `{args.scene}`. There are:\n{text}")
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave)
    try:
        with DemoRig(speed=args.speed, home=args.home) as rig:
            return _inside(args, rig)
    except DemoError as error:
        raise End(FAILED, str(error)) from None


def _inside(args: argparse.Namespace, rig: Any) -> int:
    from rigctl.control.start import DaemonStartError, ensure_daemon
    from rigctl.tui.terminal import plain_reason

    home = rig.paths.home
    rig.start_world()
    try:
        ensure_daemon(rig.paths.places, lambda _: None, command=rig.daemon_command())
    except DaemonStartError as error:
        raise End(FAILED, error.say) from None
    rig.start_load(args.scene)
    reason = plain_reason(os.environ, sys.stdin.isatty(), sys.stdout.isatty())
    if args.no_panel or reason:
        say(f"a simulated rig runs in {home}; ctrl+c ends it. In another terminal:")
        say(f"  rigctl --home {home}")
        say(f"  rigctl --home {home} status")
        return _wait()
    from rigctl.cli.revive import reviver
    from rigctl.control.client import SocketClient
    from rigctl.tui.main import run_panel

    return run_panel(
        lambda: SocketClient(rig.paths.places.socket),
        theme=args.theme,
        no_mouse=args.no_mouse,
        revive=reviver(rig.paths.places, rig.daemon_command()),
    )


def _wait() -> int:
    """Until a person or a supervisor ends it, which is how a demo is meant to end."""
    try:
        while True:
            signal.pause()
    except KeyboardInterrupt:
        return OK


def _leave(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt


def _speed(text: str) -> float:
    speed = float(text)
    if not 0.1 <= speed <= 1000:
        raise argparse.ArgumentTypeError(f"{text}: a speed is between 0.1 and 1000")
    return speed
