"""The daemon: puts the shell together around the loop, runs it, takes it apart again."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence

from rigctl.adapters.folders import own_folder
from rigctl.config.paths import find_home
from rigctl.config.schema import ConfigError
from rigctl.daemon.lock import AlreadyRunningError, take_lock
from rigctl.daemon.simulated import settle


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m rigctl.daemon.main`: run until asked to end. Engines go on."""
    parser = argparse.ArgumentParser(prog="rigctl daemon", description=__doc__)
    parser.add_argument("--home", help="folder of config, state, logs and socket")
    parser.add_argument("--simulated", metavar="CARDFILE", help="read the cards of a simulated rig")
    parser.add_argument("--lifeline", metavar="SOCKET", help="end when this socket's owner ends")
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level="INFO")
    home = find_home(args.home)
    try:
        for folder in (home.state, home.logs):
            own_folder(folder)
        take_lock(home.lock)
        asyncio.run(_run(args))
    except (AlreadyRunningError, ConfigError) as error:
        _say(str(error))
        return 1
    except OSError as error:
        _say(f"the daemon cannot run: {error.strerror or error}")
        return 1
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"rigctl: {text}\n")


async def _run(args: argparse.Namespace) -> None:
    # Imported late: the line above has to fail fast and cheap when a daemon runs already.
    from rigctl.daemon.shell import Shell

    home = find_home(args.home)
    simulated = settle(home, args.simulated, args.lifeline)
    if simulated is None:
        shell = Shell(home, None)
    else:
        shell = Shell(home, simulated.cardfile, simulated.lifeline)
    await shell.begin()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, shell.end)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # an SSH login that ends is no order
    if simulated is not None and simulated.lifeline:
        from rigctl.sim.lifeline import gone

        watcher = loop.create_task(gone(simulated.lifeline))
        watcher.add_done_callback(lambda _: shell.end())
    try:
        await shell.run()
    finally:
        await shell.close()


if __name__ == "__main__":
    sys.exit(main())
