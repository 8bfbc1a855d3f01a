"""Everything that happened, oldest first, from the daemon's journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rigctl.core.snapshot import JournalEntry
from rigctl.ports import RigClient
from rigctl.tui import words
from rigctl.tui.actions import Keys
from rigctl.tui.paint import Line
from rigctl.tui.screens.filtering import FilteringScreen
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.feed import event_line, notice_lines


class JournalScreen(FilteringScreen):
    """Read once, then kept up by the entries that snapshots carry."""

    own: ClassVar[tuple[str, ...]] = ("filter", "follow", "copy")
    follow = True
    wrap = True

    def __init__(self, keys: Keys, client: Callable[[], RigClient]) -> None:
        super().__init__(keys)
        self._client = client
        self._entries: dict[int, JournalEntry] = {}
        self._note = ""
        self._loaded = False

    def update_middle(self, state: PanelState) -> None:
        """New entries at the end."""
        if not self._loaded and state.snapshot is not None:
            self._loaded = True
            self.run_worker(self._load(), group="journal", exclusive=True)
        if state.snapshot is not None:
            known = len(self._entries)
            self._entries.update({entry.seq: entry for entry in state.snapshot.journal})
            if len(self._entries) != known or not self.pager.shown_text():
                self._draw()
        self.retitle()

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
                self._entries[entry.seq] = entry
        except OSError as error:
            self._note = f"journal cannot be read: {error or type(error).__name__}"
        self._draw()
        self.retitle()

    def _draw(self) -> None:
        snapshot = self.state.snapshot
        glyphs = self.pager.glyphs
        names = max((len(entry.group) for entry in self._entries.values()), default=0)
        lines: list[Line] = []
        day = ""
        for seq in sorted(self._entries):
            entry = self._entries[seq]
            date = words.day(entry.wall)
            if date != day:
                lines.append(((date, "accent"),))
                day = date
            lines.append((("  ", "text"), *event_line(entry, names, glyphs)))
        if snapshot is not None and snapshot.notices:
            lines.append((("notices now", "accent"),))
            for notice in snapshot.notices:
                rows = notice_lines(notice, self.size.width - 4, glyphs)
                lines += [(("  ", "text"), *row) for row in rows]
        self.pager.replace(lines)
