"""One group in full: engine, start phases, command line, operations."""

from __future__ import annotations

from collections.abc import Sequence

from rigctl.core.flow import ClusterRow
from rigctl.core.reading import Missing, Reading
from rigctl.core.snapshot import GroupView
from rigctl.tui import words
from rigctl.tui.endpoint import client_of, cluster
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, fit, hanging
from rigctl.tui.screens.reading import ReadingScreen
from rigctl.tui.state import PanelState
from rigctl.tui.widgets import group_rows
from rigctl.tui.widgets.feed import operation_line
from rigctl.tui.widgets.flow_rows import flow_rows

COLUMN = 18
SIDE_BY_SIDE = 100
"""Cells from which a detail screen has two columns."""
GUTTER = 3


def left_column(cells: int) -> int:
    """Cells of the left column: a card's UUID fits where both columns can have it so."""
    return cells if cells < SIDE_BY_SIDE else max((cells - GUTTER) // 2, min(60, cells - 55))


def side_by_side(
    left: Sequence[list[Line]], right: Sequence[list[Line]], cells: int, glyphs: Glyphs
) -> list[Line]:
    """Sections in two columns with a blank row between; one under the other where it is narrow."""
    if cells < SIDE_BY_SIDE:
        return _stacked([*left, *right])
    half = left_column(cells)
    one = _folded(_stacked(left), half)
    two = _folded(_stacked(right), cells - GUTTER - half)
    gap: Line = ((" " * GUTTER, "text"),)
    rows: list[Line] = []
    for place in range(max(len(one), len(two))):
        first = one[place] if place < len(one) else ()
        rows.append((*fit(first, half, glyphs), *gap, *(two[place] if place < len(two) else ())))
    return rows


def _stacked(sections: Sequence[list[Line]]) -> list[Line]:
    lines: list[Line] = []
    for section in sections:
        lines += [(), *section] if lines else section
    return lines


def _folded(lines: list[Line], cells: int) -> list[Line]:
    return [row for line in lines for row in hanging(line, cells)]


def heading(text: str) -> Line:
    """A section's name."""
    return ((text, "strong"),)


def field(name: str, text: str, role: str = "text") -> Line:
    """`name   text`."""
    return ((f"  {name:<{COLUMN}}", "dim"), (text, role))


def reading(name: str, value: Reading, text: str) -> Line:
    """A figure, or why it is absent."""
    role = "dim" if isinstance(value, Missing) else "text"
    return field(name, words.explained(value, text), role)


def detail(state: PanelState, view: GroupView, cells: int, glyphs: Glyphs) -> list[Line]:
    """Everything the snapshot says of one group."""
    now = state.snapshot.wall if state.snapshot else 0.0
    glyph, word, role = group_rows.sign(view, glyphs)
    state_part: list[Line] = [heading("State")]
    since = words.duration(round(view.seconds))
    state_part.append(
        ((f"  {glyph} {word}", role), (f"  for {since}", "text"), (f"   {view.say}", "dim"))
    )
    if view.advice:
        state_part.append(field("next", view.advice, "accent"))
    state_part += _lease(view, now, glyphs)
    start: list[Line] = [heading("Start phases")] if view.phases else []
    start += [(("  ", "text"), *group_rows.phase_row(phase, glyphs)) for phase in view.phases]
    start.append(_estimate(view.start_estimate))
    row = cluster(state.endpoint, view.name)
    culprit = client_of(state.endpoint, row.culprit) if row is not None and row.culprit else ""
    loud = flow_rows(view, left_column(cells) - 4, glyphs, row, culprit)
    left = [state_part, start, _work(view, [line for _, line in loud])]
    right = [_pools(view), _process(view), _power(view)]
    if row is not None:
        left.append(_at_endpoint(row))
    lines = side_by_side(left, right, cells, glyphs)
    lines += [(), *_command(view)]
    operations = state.operations_of(view.name)
    if view.log:
        lines += [(), heading("Log"), ((f"  {view.log}", "text"),)]
    lines += [(), heading("Operations")]
    if not operations:
        lines.append((("  none since the daemon started", "dim"),))
    for operation in reversed(operations):
        lines.append((("  ", "text"), *operation_line(operation, glyphs)))
        if operation.figures:
            figures = "  ".join(
                f"{name.replace('_', ' ')} {value:.1f}" for name, value in operation.figures.items()
            )
            lines.append(((f"      {figures}", "dim"),))
    return lines


def _estimate(seconds: Reading) -> Line:
    """Under the phases' own figures."""
    if isinstance(seconds, Missing):
        return reading("a start takes", seconds, "")
    return (("  a start takes", "dim"), (f"{words.whole_seconds(seconds):>6}", "text"))


def _lease(view: GroupView, now: float, glyphs: Glyphs) -> list[Line]:
    lease = view.lease
    if lease is None:
        return []
    until = "open end" if lease.until is None else words.day_clock(lease.until, now)
    over = "  OVERDUE" if lease.overdue else ""
    since = words.day_clock(lease.since, now)
    held = words.at_least(lease.held_bytes, f"{words.gib(lease.held_bytes.value)} GiB", "cards")
    lines = [
        field("lent to", lease.holder, "strong"),
        field("lease", f"since {since}, until {until}{over}", "warn" if over else "text"),
        field("held now", held),
    ]
    if lease.pid is not None:
        lines.append(field("runs there", f"pid {lease.pid} {lease.command}"))
    return lines


def _work(view: GroupView, loud: list[Line]) -> list[Line]:
    """Figures of its work, under what stands in its way."""
    slots, rates, flow = view.slots, view.rates, view.flow
    lines: list[Line] = [heading("Work")]
    lines += [(("  ", "text"), *line) for line in loud]
    if not loud:
        since = words.duration(round(flow.since))
        lines.append(field("flow", f"{flow.state} for {since}   {flow.say}"))
    lines += [
        reading(
            "running",
            slots.running,
            f"{words.number(slots.running)} of {words.number(slots.effective)}",
        ),
        reading("queued", slots.queued, words.number(slots.queued)),
        reading("open requests", slots.active, words.number(slots.active)),
        reading("in flight", view.in_flight, words.number(view.in_flight)),
    ]
    if slots.note:
        lines.append(field("slots", slots.note))
    lines += [
        reading("decode", rates.decode, f"{words.number(rates.decode)} tok/s"),
        reading("prefill", rates.prefill, f"{words.number(rates.prefill)} tok/s"),
        reading("accept length", rates.accept_length, words.number(rates.accept_length, 2)),
        reading("cache hits", rates.hit, words.share(rates.hit)),
        reading("figures moved", flow.fresh, f"{words.whole_seconds(flow.fresh)} ago"),
        reading("last poll", view.sample_age, f"{words.whole_seconds(view.sample_age)} ago"),
    ]
    return lines


def _at_endpoint(row: ClusterRow) -> list[Line]:
    """How the endpoint counts and judges it, since its start."""
    say = f"   {row.say}" if row.say else ""
    role = "text" if row.standing in {"up", "busy"} else "warn"
    lines: list[Line] = [
        heading("At the endpoint"),
        field("standing", f"{row.standing} for {words.age(row.seconds)}{say}", role),
        field("gate", row.gate),
        field("in flight", f"{row.in_flight} of {row.slots}, {row.waiting} queued for it"),
        field("sessions at home", str(row.homes)),
        field("sent", f"{row.sent}, of which overflow {row.overflow}"),
        field("failed", str(row.failed), "warn" if row.failed else "text"),
        field("sent anew", f"{row.resent} that it lost before a byte"),
    ]
    if row.culprit:
        behind = " ".join(row.waiting_behind) or "nobody"
        lines.append(field("is read", f"{row.culprit}; waiting for it: {behind}"))
    return lines


def _pools(view: GroupView) -> list[Line]:
    lines: list[Line] = [heading("Pools")]
    for name, pool in (("tokens", view.kv), ("state slots", view.mamba)):
        if (
            name == "state slots"
            and isinstance(pool.usage, Missing)
            and isinstance(pool.total, Missing)
        ):
            lines.append(reading(name, pool.usage, ""))
            continue
        lines += [
            reading(f"{name} total", pool.total, words.tokens(pool.total)),
            reading("  used", pool.used, words.tokens(pool.used)),
            reading("  cached", pool.cached, words.tokens(pool.cached)),
            reading("  free", pool.free, words.tokens(pool.free)),
            reading("  engine's gauge", pool.usage, words.share(pool.usage)),
        ]
    share = view.window_share
    lines.append(reading("full window takes", share, f"{words.share(share)} of the pool"))
    return lines


def _process(view: GroupView) -> list[Line]:
    pid = "none" if view.pid is None else str(view.pid)
    origin = "adopted by this daemon" if view.adopted else "started by this daemon"
    if view.watched:
        origin = "found running: watched, never signalled, taken over at its next restart"
    lines: list[Line] = [heading("Engine")]
    lines += [
        field(
            "pid",
            pid
            if view.pid is None
            else f"{pid}, {words.plural(view.process_count, 'process', 'processes')}",
        ),
        field("origin", origin if view.pid is not None else "nothing runs"),
        field("address", view.url),
        field("model", view.model),
        field("window", f"{view.window}{'  ' + view.stretched if view.stretched else ''}"),
        field("SGLang", view.engine_version or "not told yet"),
        reading("up", view.up_seconds, words.whole_seconds(view.up_seconds)),
        reading("CPU", view.cpu, f"{words.number(view.cpu, 1)} cores"),
        reading("scheduler", view.scheduler_cpu, f"{words.share(view.scheduler_cpu)} of a core"),
        reading("memory", view.memory, f"{words.gib(view.memory)} GiB"),
        field("crashes", str(view.crashes)),
    ]
    if view.last_exit:
        lines.append(field("last exit", view.last_exit))
    if view.leftovers:
        pids = " ".join(str(pid) for pid in view.leftovers)
        lines.append(field("leftovers", f"{pids}   X ends them", "warn"))
    return lines


def _power(view: GroupView) -> list[Line]:
    power = view.power
    return [
        heading("Power"),
        field("watts", words.watts(power.watts, "cards")),
        field("limit", words.watts(power.limit, "cards")),
        reading("today", power.kwh_today, f"{words.number(power.kwh_today, 2)} kWh"),
        field("sleep-on-idle", view.sleep.say or ("on" if view.sleep.wanted else "off")),
    ]


def _command(view: GroupView) -> list[Line]:
    lines: list[Line] = [heading("Command line")]
    row = ""
    for part in view.command:
        if part.startswith("--") and row:
            lines.append(((f"  {row}", "text"),))
            row = f"  {part}"
        else:
            row = f"{row} {part}".strip() if not row.startswith("  ") else f"{row} {part}"
    if row:
        lines.append(((f"  {row}", "text"),))
    if not view.command:
        lines.append((("  not known yet", "dim"),))
    if view.differs:
        lines.append((("  the running one differs:", "warn"),))
        lines += [((f"    {row}", "text"),) for row in view.differs]
    return lines


class GroupScreen(ReadingScreen):
    """The marked group, kept true while it is looked at."""

    wrap = True
    hang = True

    def update_middle(self, state: PanelState) -> None:
        """The text anew; only rows that changed are repainted."""
        view = state.view
        if view is not None:
            glyphs = self.pager.glyphs
            self.pager.replace(detail(state, view, self.size.width - 2, glyphs))
        self.retitle()

    def title_parts(self) -> tuple[Line, Line]:
        """The group's name and state."""
        view, snapshot = self.state.view, self.state.snapshot
        if view is None or snapshot is None:
            return (("no group", "dim"),), ()
        glyphs = self.pager.glyphs
        return (
            group_rows.title(view, False, glyphs),
            group_rows.state_line(view, snapshot.wall, glyphs),
        )

    def copy_text(self) -> tuple[str, str]:
        """The command line."""
        view = self.state.view
        return (" ".join(view.command), f"{view.name}'s command line") if view else ("", "")
