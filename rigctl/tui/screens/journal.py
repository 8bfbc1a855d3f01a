"""Everything that happened, oldest first, from the daemon's journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.timer import Timer

from rigctl.core.snapshot import JournalEntry
from rigctl.ports import RigClient
from rigctl.tui import words
from rigctl.tui.actions import Keys
from rigctl.tui.link import FAULTS
from rigctl.tui.paint import Line
from rigctl.tui.screens.filtering import FilteringScreen
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.feed import event_line, notice_lines

FLUSH_SECONDS = 0.25
"""Entries that come in a burst are drawn together."""


class JournalScreen(FilteringScreen):
    """Reads the daemon's journal as a stream; what snapshots carry of it comes in as well."""

    own: ClassVar[tuple[str, ...]] = ("filter", "follow", "copy")
    follow = True
    wrap = True
    hang = True

    def __init__(self, keys: Keys, client: Callable[[], RigClient]) -> None:
        super().__init__(keys)
        self._client = client
        self._entries: dict[tuple[int, float], JournalEntry] = {}
        self._drawn = -1
        self._note = ""
        self._reading = False
        self._flush: Timer | None = None

    def on_mount(self) -> None:
        """Drawing is gathered."""
        super().on_mount()
        self._flush = self.set_interval(FLUSH_SECONDS, self._draw, pause=True)

    def update_middle(self, state: PanelState) -> None:
        """New entries at the end; a daemon that is back is read anew."""
        if state.snapshot is None:
            return
        if not self._reading and not state.lost:
            self._reading = True
            self._note = ""
            self.run_worker(self._load(), group="journal", exclusive=True)
        for entry in state.snapshot.journal:
            self._entries[entry.seq, entry.wall] = entry
        self._draw()

    def title_parts(self) -> tuple[Line, Line]:
        """What it is, and whether it stays at the end."""
        left: list[tuple[str, str]] = [("journal", "strong")]
        if self._note:
            left.append((f"   {self._note}", "warn"))
        flags = ["follow" if self.pager.follow else "held"]
        if self.pager.needle:
            flags.append(f"only: {self.pager.needle}")
        return tuple(left), (("  ".join(flags), "dim"),)

    def do_follow(self) -> None:
        """Stay at the newest entry, or stop there."""
        self.pager.set_follow(not self.pager.follow)
        self.retitle()

    async def _load(self) -> None:
        try:
            async for entry in self._client().journal(0):
                self._entries[entry.seq, entry.wall] = entry
                if self._flush is not None:
                    self._flush.resume()
        except OSError as error:
            self._note = f"journal ended: {error}"
            self._reading = False
        except FAULTS as error:
            self._note = f"journal cannot be read: {error}"
        self._draw()

    def _draw(self) -> None:
        if self._flush is not None:
            self._flush.pause()
        if len(self._entries) != self._drawn:
            self._drawn = len(self._entries)
            self.pager.replace(self._lines())
        self.retitle()

    def _lines(self) -> list[Line]:
        snapshot = self.state.snapshot
        glyphs = self.pager.glyphs
        names = max((len(entry.group) for entry in self._entries.values()), default=0)
        lines: list[Line] = []
        day = ""
        for entry in sorted(self._entries.values(), key=lambda one: (one.wall, one.seq)):
            date = words.day(entry.wall)
            if date != day:
                lines.append(((date, "strong"),))
                day = date
            lines.append((("  ", "text"), *event_line(entry, names, glyphs)))
        if snapshot is not None and snapshot.notices:
            lines.append((("notices now", "strong"),))
            for notice in snapshot.notices:
                rows = notice_lines(notice, self.state, self.size.width - 4, glyphs)
                lines += [(("  ", "text"), *row) for row in rows]
        return lines
