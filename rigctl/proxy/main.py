"""`python -m rigctl.proxy.main`: the endpoint's own process. The daemon starts it, and may die."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Sequence

from rigctl.config.paths import find_home
from rigctl.proxy.app import Proxy
from rigctl.proxy.link import listening
from rigctl.proxy.memory import settle_memory


def main(argv: Sequence[str] | None = None) -> int:
    """Serve on the sockets that were handed over, until asked to end."""
    parser = argparse.ArgumentParser(prog="rigctl proxy", description=__doc__)
    parser.add_argument("--home", help="folder of config, state and logs")
    parser.add_argument(
        "--listen-fd", type=int, action="append", required=True, help="a listening socket's number"
    )
    parser.add_argument("--lifeline", metavar="SOCKET", help="end when this socket's owner ends")
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level="INFO")
    logging.raiseExceptions = False  # a full disk costs log lines, never an answer (C68)
    try:
        sockets = listening(args.listen_fd)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"rigctl: the endpoint cannot run: {error}\n")
        return 2
    settle_memory()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_run(args.home, sockets, args.lifeline or ""))
    return 0


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return factory


async def _run(home: str | None, sockets: tuple[socket.socket, ...], lifeline: str) -> None:
    proxy = Proxy(find_home(home), sockets)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, proxy.leave, signal.Signals(number).name)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # an SSH login that ends is no order
    watcher = None
    if lifeline:
        from rigctl.sim.lifeline import hold

        watcher = loop.create_task(hold(lifeline))
        watcher.add_done_callback(lambda _: proxy.end())
    await proxy.run()


if __name__ == "__main__":
    sys.exit(main())
