"""`rigctl reset-terminal`: undo what a panel ended by kill -9 left switched on (C95)."""

from __future__ import annotations

import argparse
import os
import termios
from typing import Any

from rigctl.cli.exits import FAILED, OK, End
from rigctl.tui.terminal import reset_sequence


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the verb."""
    parser = subparsers.add_parser(
        "reset-terminal",
        help="mend a terminal that a killed panel left behind",
        description="Switches off mouse reports, alternate screen and raw mode, shows the cursor.",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Mend our own terminal; the exit code."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        raise End(FAILED, "there is no terminal here to mend.") from None
    try:
        # Then whatever the mouse has printed on this line.
        os.write(terminal, (reset_sequence() + "\r\x1b[J").encode())
        termios.tcsetattr(terminal, termios.TCSANOW, _sane(termios.tcgetattr(terminal)))
        termios.tcflush(terminal, termios.TCIFLUSH)
    finally:
        os.close(terminal)
    return OK


def _sane(attributes: list[Any]) -> list[Any]:
    """What `stty sane` sets, as far as a raw mode changes it."""
    into, out, control, local, *rest = attributes
    into |= termios.BRKINT | termios.ICRNL | termios.IXON
    into &= ~(termios.IGNBRK | termios.INLCR | termios.IGNCR | termios.IXOFF)
    out |= termios.OPOST | termios.ONLCR
    control |= termios.CREAD
    local |= termios.ISIG | termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK
    local |= termios.IEXTEN
    local &= ~(termios.ECHONL | termios.NOFLSH | termios.TOSTOP)
    return [into, out, control, local, *rest]
