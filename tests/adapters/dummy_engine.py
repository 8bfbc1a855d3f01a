"""A process tree in the shape of an engine's: a main process and forked schedulers.

Prints `ready CHILD…` once all stand. Every process of a tree has the same command line, as
forked ones do; two trees started alike cannot be told apart by name.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time


def on_term(how: str, seconds: float) -> None:
    """What SIGTERM does here: `die` at once, `ignore` it, or leave `slow`ly."""
    if how == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif how == "slow":

        def leave(*_: object) -> None:
            time.sleep(seconds)
            os._exit(0)

        signal.signal(signal.SIGTERM, leave)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--children", type=int, default=2)
    parser.add_argument("--own-session", action="store_true", help="each child calls setsid")
    parser.add_argument("--no-token", action="store_true", help="children drop the environment")
    parser.add_argument("--term", default="die")
    parser.add_argument("--child-term", default="die")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--say", type=int, default=0, help="bytes printed after ready, slowly")
    parser.add_argument("--exit", type=int, default=None, help="leave with this code once ready")
    parser.add_argument("--model-path", default="M")
    args = parser.parse_args()
    on_term(args.term, args.seconds)
    children = []
    for _ in range(args.children):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            if args.own_session:
                os.setsid()
            on_term(args.child_term, args.seconds)
            os.write(writing, b".")
            if args.no_token:
                os.execve("/bin/sleep", ["sglang::scheduler", "60"], {})
            while True:
                time.sleep(60)
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        children.append(child)
    print("ready", *children, flush=True)
    if args.say:
        for number in range(args.say // 100):
            print(f"{number:08d} ".ljust(99, "x"), flush=True)
            time.sleep(0.0003)
        print("said", flush=True)
    if args.exit is not None:
        sys.stdout.flush()
        os._exit(args.exit)
    while True:
        time.sleep(60)


main()
