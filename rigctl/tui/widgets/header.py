"""The first line: watts, energy, money, pool, and whether the figures are fresh."""

from __future__ import annotations

from textual.reactive import var

from rigctl.core.reading import Missing
from rigctl.tui import words
from rigctl.tui.glyphs import Glyphs
from rigctl.tui.paint import Line, fit, width
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.lines import Lines


def header_line(state: PanelState, cells: int, glyphs: Glyphs) -> Line:
    """Parts in order of worth; where room is short the last ones go, none is cut in half."""
    snapshot = state.snapshot
    name: Line = (("rigctl", "strong"),)
    if snapshot is None:
        why = "no daemon" if state.lost else "waiting for the daemon"
        return fit(((" ", "text"), *name, (f"   {why}", "warn")), cells, glyphs)
    name = (*name, (f" {glyphs.dot} {snapshot.rig}", "dim"))
    power = snapshot.power
    watts: Line = ((words.watts(power.watts), "strong"),)
    if power.limit.counted:
        watts = (*watts, (f" of {power.limit.value:.0f}", "dim"))
    about = "~" if power.estimated else ""
    energy: Line = ((f"{about}{words.number(power.kwh_today, 1)} kWh", "text"), (" today", "dim"))
    cost: Line = ()
    if not isinstance(power.cost_today, Missing) and snapshot.price_per_kwh:
        cost = ((words.money(power.cost_today, snapshot.currency, glyphs), "text"),)
    pool: Line = (
        ("pool ", "dim"),
        (words.tokens(snapshot.pool.used), "strong"),
        (f" / {words.tokens(snapshot.pool.total)}", "dim"),
    )
    clock: Line = ((words.clock(snapshot.wall), "dim"),)
    flags: list[Line] = []
    if state.lost:
        age = words.duration(round(state.lost_seconds))
        flags.append(((f"{glyphs.lost} no daemon, figures {age} old", "bad"),))
    if snapshot.read_only or state.read_only:
        flags.append((("read-only", "warn"),))
    if snapshot.simulated:
        flags.append((("simulated", "dim"),))
    # Worth: what is wrong, the watts, the pool, then the rest.
    ranked = [*[(part, 0) for part in flags[:1]], (watts, 1), (pool, 2), (name, 3), (clock, 4)]
    ranked += [(energy, 5), (cost, 6), *[(part, 7) for part in flags[1:]]]
    chosen: list[Line] = []
    room = cells - 2
    for part, _ in sorted((item for item in ranked if item[0]), key=lambda item: item[1]):
        size = width(part) + (3 if chosen else 0)
        if size <= room:
            chosen.append(part)
            room -= size
    order = [name, watts, energy, cost, *flags, pool, clock]
    shown = [part for part in order if part and any(part is one for one in chosen)]
    gaps = [3] * max(0, len(shown) - 1)
    # Spare room goes before the pool and the clock: figures keep their places.
    for place in range(len(gaps)):
        if shown[place + 1] is pool or shown[place + 1] is clock:
            share = room // 2 if shown[place + 1] is pool else room
            gaps[place] += share
            room -= share
    out: list[tuple[str, str]] = [(" ", "text")]
    for place, part in enumerate(shown):
        out.extend(part)
        if place < len(gaps):
            out.append((" " * gaps[place], "text"))
    return fit(tuple(out), cells, glyphs)


class Header(Lines):
    """One line of it."""

    slice: var[PanelState] = var(PanelState())

    def watch_slice(self, new: PanelState) -> None:
        """Draw what changed."""
        self._redraw()

    def on_resize(self) -> None:
        """Other width, other parts."""
        self._redraw()

    def _redraw(self) -> None:
        if self.size.width > 2:
            self.show([header_line(self.slice, self.size.width, self.glyphs)])
