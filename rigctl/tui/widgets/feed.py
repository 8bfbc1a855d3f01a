"""Below the cards: answers to keys, operations, notices, then what happened, newest first."""

from __future__ import annotations

from textual.reactive import var

from rigctl.core.snapshot import JournalEntry, Notice, OperationView
from rigctl.tui import words
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, fit, hanging, wrapped
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.lines import Lines

_LEVELS = {"error": 0, "warning": 1, "info": 2}


def operation_line(operation: OperationView, glyphs: Glyphs) -> Line:
    """How far a command is, or how it ended: sign, word, what it says."""
    sign, role = {
        "running": (glyphs.busy, "accent"),
        "done": (glyphs.done, "good"),
        "partly": (glyphs.warning, "warn"),
        "failed": (glyphs.failed, "bad"),
        "cancelled": (glyphs.open_ring, "dim"),
    }.get(operation.state, ("?", "text"))
    what = f"{operation.kind} {operation.group}".strip()
    word = "" if operation.state == "running" else f" {operation.state}"
    seconds = words.duration(round(operation.seconds, 1))
    # How it ended mostly names the time; once is enough.
    time = "" if operation.state != "running" and " s" in operation.say else f"  {seconds}"
    spans = ((f"{sign} {what}{word}", role), (time, "strong"), ("   ", "text"))
    return (*(span for span in spans if span[0]), (operation.say, "text"))


def notice_lines(
    notice: Notice, state: PanelState, cells: int, glyphs: Glyphs, most: int = 2
) -> list[Line]:
    """A notice in as many rows as it needs, up to `most`."""
    sign, role = {
        "error": (glyphs.failed, "bad"),
        "warning": (glyphs.warning, "warn"),
    }.get(notice.level, (glyphs.dot, "dim"))
    where = notice.group
    if notice.card and not where:
        cards = state.snapshot.cards if state.snapshot else ()
        where = next((f"card {one.index}" for one in cards if one.uuid == notice.card), "")
    text = f"{where}: {notice.say}" if where and where not in notice.say else notice.say
    rows = wrapped(text, max(8, cells - 2))
    if len(rows) > most:
        rows = [*rows[: most - 1], " ".join(rows[most - 1 :])]
    lines: list[Line] = []
    for place, row in enumerate(rows):
        lead = (f"{sign} ", role) if place == 0 else ("  ", "text")
        lines.append(fit((lead, (row, "text")), cells, glyphs))
    return lines


def event_line(entry: JournalEntry, names: int, glyphs: Glyphs) -> Line:
    """`19:02:11  long  freed in 7.9 s`."""
    loud = {"crashed", "failed", "card-lost", "hung", "broken", "overdue"}
    role = "warn" if entry.kind in loud else "text"
    mark = (f"{glyphs.warning} ", "warn") if entry.kind in loud else ("", "text")
    return (
        (f"{words.clock_seconds(entry.wall)}  ", "dim"),
        (f"{entry.group:<{names}}  ", "text"),
        mark,
        (entry.say, role if entry.kind in loud else "dim"),
    )


def running(state: PanelState) -> tuple[OperationView, ...]:
    """Operations worth a line now: those that run and those whose end is news."""
    operations = state.snapshot.operations if state.snapshot else ()
    return tuple(
        operation
        for operation in operations
        if operation.state == "running" or operation.id in state.ended
    )


def feed_lines(state: PanelState, cells: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The most pressing rows that fit; events get what is left, at least one row of four."""
    snapshot = state.snapshot
    said: list[Line] = []
    if state.said is not None:
        said.extend(((row, state.said.role),) for row in wrapped(state.said.text, cells)[:2])
    acts: list[Line] = [
        (
            (f"{glyphs.busy} asked: {asked.what} {asked.group}".rstrip(), "accent"),
            (f"   {asked.say}", "text"),
        )
        for asked in state.asked
    ]
    most = 2 if height >= 8 else 1
    for operation in reversed(running(state)):
        acts += hanging(operation_line(operation, glyphs), cells, most)
    notices: list[Line] = []
    if state.lost:
        gone = Notice("lost", "error", state.lost)
        notices += notice_lines(gone, state, cells, glyphs, 4)
    if snapshot is not None:
        if snapshot.nvml and snapshot.cards and not _said_already(snapshot.notices):
            text = f"NVML: {snapshot.nvml}"
            notices.append(((f"{glyphs.warning} ", "warn"), (text, "text")))
        # What an engine cannot do for clients stands under the sessions, for as long as it is so.
        standing = (one for one in snapshot.notices if one.id != "endpoint-off")
        for notice in sorted(standing, key=lambda one: _LEVELS.get(one.level, 3)):
            notices += notice_lines(notice, state, cells, glyphs)
    events: list[Line] = []
    if snapshot is not None:
        names = max((len(group.name) for group in snapshot.groups), default=0)
        for entry in reversed(snapshot.journal):
            events += hanging(event_line(entry, names, glyphs), cells, most)
    keep = 1 if height >= 3 and events else 0
    top = (said + acts)[: max(0, height - keep)]
    room = height - len(top) - keep
    if len(notices) > room > 0:
        more = len(notices) - room + 1
        notices = [
            *notices[: room - 1],
            ((f"  {more} more lines of notices: ", "dim"), ("J", "accent")),
        ]
    lines = top + notices[: max(0, room)]
    rule: Line = ((glyphs.rule * cells, "edge"),)
    if height >= 6:
        lines = [rule, *lines, rule] if lines else [rule]
    lines += events[: max(0, height - len(lines))]
    return [fit(line, cells, glyphs) for line in lines[:height]]


def _said_already(notices: tuple[Notice, ...]) -> bool:
    return any(notice.id.startswith("nvml") for notice in notices)


class Feed(Lines):
    """Takes the room that is left on the overview."""

    slice: var[PanelState] = var(PanelState())

    def watch_slice(self, new: PanelState) -> None:
        """Draw what changed."""
        self._redraw()

    def on_resize(self) -> None:
        """Other room, other rows."""
        self._redraw()

    def _redraw(self) -> None:
        size = self.size
        if size.width < 10 or size.height < 1:
            return
        inner = [
            ((" ", "text"), *line)
            for line in feed_lines(self.slice, size.width - 2, size.height, self.glyphs)
        ]
        self.show(inner)
