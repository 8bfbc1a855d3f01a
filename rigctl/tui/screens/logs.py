"""An engine's log: followed, filtered, wrapped, of this run or the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual.timer import Timer

from rigctl.ports import RigClient
from rigctl.tui.actions import Keys
from rigctl.tui.link import FAULTS
from rigctl.tui.paint import Line
from rigctl.tui.screens.filtering import FilteringScreen
from rigctl.tui.state import PanelState

FIRST_LINES = 2000
FLUSH_SECONDS = 0.25
"""Lines that come in a burst are drawn together."""

_ROLES = (("error", "bad"), ("traceback", "bad"), ("fatal", "bad"), ("warning", "warn"))


def log_line(text: str) -> Line:
    """A line with the role its own words give it."""
    low = text.lower()
    role = next((role for word, role in _ROLES if word in low), "text")
    text = text.replace("\t", "    ")
    stamp, end, rest = text.partition("] ")
    if text.startswith("[") and end and len(stamp) < 40:
        return ((f"{stamp}] ", "dim"), (rest, role))
    return ((text, role),)


class LogsScreen(FilteringScreen):
    """Lines come from the daemon, secrets masked there."""

    own: ClassVar[tuple[str, ...]] = ("filter", "follow", "wrap", "run", "copy")
    follow = True

    def __init__(self, keys: Keys, client: Callable[[], RigClient]) -> None:
        super().__init__(keys)
        self._client = client
        self._group = ""
        self._previous = 0
        self._waiting: list[Line] = []
        self._note = ""
        self._broken = False
        """The stream ended with the daemon; it is read anew when that is back."""
        self._flush: Timer | None = None

    def on_mount(self) -> None:
        """Drawing is gathered."""
        super().on_mount()
        self._flush = self.set_interval(FLUSH_SECONDS, self._draw_waiting, pause=True)

    def update_middle(self, state: PanelState) -> None:
        """Another group or a daemon that is back: read anew."""
        if state.group and (state.group != self._group or (self._broken and not state.lost)):
            self._read(state.group)
        self.retitle()

    def title_parts(self) -> tuple[Line, Line]:
        """Group, run, and how it is shown."""
        run = "" if not self._previous else f"  run before ({self._previous})"
        left: list[tuple[str, str]] = [(f"log of {self._group}", "strong"), (run, "accent")]
        if self._note:
            left.append((f"   {self._note}", "warn"))
        flags = ["follow" if self.pager.follow else "held", "wrap" if self.pager.wrap else "cut"]
        if self.pager.needle:
            flags.append(f"only: {self.pager.needle}")
        return tuple(left), (("  ".join(flags), "dim"),)

    def do_follow(self) -> None:
        """Stay at the newest line, or stop there."""
        self.pager.set_follow(not self.pager.follow)
        self.retitle()

    def do_wrap(self) -> None:
        """Fold long lines, or cut them."""
        self.pager.set_wrap(not self.pager.wrap)
        self.retitle()

    def do_run(self) -> None:
        """This run, the one before, the one before that, and round."""
        self._previous = (self._previous + 1) % 3
        self._read(self._group)

    def _read(self, group: str) -> None:
        self._group = group
        self._note = ""
        self._broken = False
        self._waiting = []
        self.pager.replace(())
        self.run_worker(self._stream(group, self._previous), group="log", exclusive=True)
        self.retitle()

    async def _stream(self, group: str, previous: int) -> None:
        try:
            follow = previous == 0
            async for text in self._client().log(group, FIRST_LINES, follow, previous):
                self._waiting.append(log_line(text))
                if self._flush is not None:
                    self._flush.resume()
        except FAULTS as error:
            self._note = f"log ended: {error}"
            self._broken = isinstance(error, OSError)
        except asyncio.CancelledError:
            raise
        else:
            if not self._waiting and not self.pager.shown_text():
                self._note = "no such run" if previous else "the log is empty"
        self.retitle()

    def _draw_waiting(self) -> None:
        lines, self._waiting = self._waiting, []
        if lines:
            self.pager.append(lines)
            self.retitle()
        elif self._flush is not None:
            self._flush.pause()
