"""Opens the panel on this terminal and gives the terminal back whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping

from rigctl.ports import RigClient

LEAVE_SECONDS = 3.0
"""How long a polite end may take once a signal asked for it."""

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run_panel(
    client_factory: Callable[[], RigClient],
    *,
    read_only: bool = False,
    theme: str | None = None,
    no_mouse: bool = False,
    keys: Mapping[str, str] | None = None,
    revive: Callable[[], str] | None = None,
) -> int:
    """Run until a person leaves: 0, or 1 after a crash, or 128 and the signal's number.

    The caller has asked `terminal.plain_reason` first. `client_factory` is called again after a
    loss of the daemon, and `revive` (see `link.Revive`) starts one that died.
    """
    _prepare(os.environ)
    from rigctl.tui import glyphs
    from rigctl.tui.app import Panel

    panel = Panel(
        client_factory,
        read_only=read_only,
        theme=theme,
        glyphs=glyphs.choose(os.environ),
        keys=keys,
        revive=revive,
    )
    return asyncio.run(_run(panel, mouse=not no_mouse))


def _prepare(environ: dict[str, str] | os._Environ[str]) -> None:
    """What Textual reads from the environment when it is imported."""
    if environ.get("NO_COLOR") == "":
        del environ["NO_COLOR"]  # Empty means not set, by the standard; Textual only looks for it.
    for name in ("COLUMNS", "LINES"):
        # Exported by some shells and by readline: taken for the window's size, for ever (C96).
        environ.pop(name, None)
    environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    environ.setdefault("TEXTUAL_FPS", "20")


async def _run(panel: object, mouse: bool) -> int:
    from rigctl.tui.app import Panel

    assert isinstance(panel, Panel)
    loop = asyncio.get_running_loop()
    ended_by: list[int] = []

    def leave(number: int) -> None:
        ended_by.append(number)
        if number == signal.SIGHUP:
            _no_terminal()
        # Textual's writer dies with its terminal, and then its queue blocks the way out: the
        # panel holds nothing that the kernel does not give back, so leave without it (C95).
        last = threading.Timer(LEAVE_SECONDS, os._exit, (128 + number,))
        last.daemon = True
        last.start()
        panel.exit(128 + number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, leave, number)
    try:
        code = await panel.run_async(mouse=mouse)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    if ended_by:
        return 128 + ended_by[0]
    if panel.return_code:
        return panel.return_code
    return code or 0


def _no_terminal() -> None:
    """The terminal is gone: whatever is still written goes nowhere instead of failing."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(null, stream.fileno())
    os.close(null)
