"""A scheduler or detokenizer process: it holds a card, burns or sleeps, answers steps, and dies.

Run by its path with `python -S`, so it imports nothing but the standard library: six of these
to an engine have to be cheap. Arguments: title, fd, spin share, own world's socket,
orphan seconds, `leftover` or `plain`.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PERIOD = 0.1
"""Seconds between two bursts of burning."""


def take_title(title: str) -> None:
    """Show `title` as name and command line, as setproctitle does: overwrite argv in place."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NAME, title.encode()[:15], 0, 0, 0)
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        start, end = int(fields[45]), int(fields[46])
        ctypes.memmove(start, title.encode().ljust(end - start, b"\0")[: end - start], end - start)
    except (OSError, ValueError, IndexError):
        pass  # a kernel without these fields: the name alone must do


def lifeline(path: str) -> socket.socket | None:
    """A connection to the world that closes when the world is gone."""
    if not path:
        return None
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(path)
        line.sendall(b'{"do":"hold"}\n')
    except OSError:
        line.close()
        return None
    return line


def burn(seconds: float) -> None:
    """Use the processor."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def escape() -> None:
    """Leave the session and outlive the parent: the leftover that real servers sometimes leave."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def main() -> None:
    title, fd, spin, world, orphan, kind = sys.argv[1:7]
    talk = socket.socket(fileno=int(fd))
    line = lifeline(world)
    if world and line is None:
        os._exit(0)  # the world ended while this process began: nobody would end it later
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    share = float(spin)
    stays = kind == "leftover"
    orphaned = 0.0
    poller = select.poll()
    poller.register(talk, select.POLLIN)
    if line is not None:
        poller.register(line, select.POLLIN)
    while True:
        # With sleep-on-idle the real scheduler blocks in poll(1000); without it, it spins.
        ready = dict(poller.poll(PERIOD * 1000 * (1 - share) if share else 1000))
        if line is not None and line.fileno() in ready:
            os._exit(0)
        if talk.fileno() in ready and not orphaned:
            message = talk.recv(16)
            if message == b"step":
                talk.send(b"done")
            elif message == b"named":
                take_title(title)
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if stays:
                    escape()
            elif message == b"escape":
                stays = True
                escape()
            elif message == b"quit" and not stays:
                os._exit(0)
            elif message == b"":
                orphaned = time.monotonic()
                poller.unregister(talk)
        if orphaned and time.monotonic() - orphaned > float(orphan):
            os._exit(0)
        if share and not orphaned:
            burn(PERIOD * share)


main()
