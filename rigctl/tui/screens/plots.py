"""One plot at a time: watts, tokens a second or pool, over a quarter hour, an hour or a day."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from rigctl.ports import RigClient
from rigctl.tui import words
from rigctl.tui.actions import Keys
from rigctl.tui.link import FAULTS
from rigctl.tui.paint import Line, spread
from rigctl.tui.screens.base import RigScreen
from rigctl.tui.state import PanelState
from rigctl.tui.widgets.lines import Lines

METRICS = ("watts", "decode tok/s", "prefill tok/s", "pool tokens")
SPANS = ((900, "15 min"), (3600, "1 h"), (86400, "24 h"))
REDRAW_SECONDS = {900: 5.0, 3600: 20.0, 86400: 120.0}
"""A long plot hardly moves: it is drawn anew when a column could have changed."""

Curve = tuple[str, list[float]]


def curves(metric: str, history: Mapping[str, Any]) -> list[Curve]:
    """The lines of one metric, NaN where there was no value."""
    series: Mapping[str, Sequence[float | None]] = history.get("series", {})
    if metric == "watts":
        wanted = [(name, name.removesuffix(".watts")) for name in series if name == "rig.watts"]
    else:
        ending = {"decode tok/s": ".decode", "prefill tok/s": ".prefill"}.get(metric, ".pool_used")
        wanted = [
            (name, name.removeprefix("group.").removesuffix(ending))
            for name in series
            if name.endswith(ending)
        ]
    return [
        (label, [math.nan if value is None else float(value) for value in series[name]])
        for name, label in wanted
    ]


def reduced(values: list[float], columns: int) -> list[float]:
    """At most that many values: the highest of each stretch, so that no peak is lost."""
    if len(values) <= columns or columns < 1:
        return values
    out: list[float] = []
    for place in range(columns):
        start, end = place * len(values) // columns, (place + 1) * len(values) // columns
        stretch = [value for value in values[start:end] if not math.isnan(value)]
        out.append(max(stretch) if stretch else math.nan)
    return out


def stretches(values: list[float]) -> list[tuple[int, list[float]]]:
    """Runs of values with the place of their first: a gap in the data is a gap in the line."""
    out: list[tuple[int, list[float]]] = []
    for at, value in enumerate(values):
        if math.isnan(value):
            continue
        if out and out[-1][0] + len(out[-1][1]) == at:
            out[-1][1].append(value)
        else:
            out.append((at, [value]))
    return out


def draw(
    lines: list[Curve],
    seconds: float,
    end: float,
    size: tuple[int, int],
    colours: Sequence[tuple[int, int, int]],
    ascii_only: bool,
) -> str:
    """The plot as text with colour codes; imported here, so that only this screen pays for it."""
    import importlib

    plotext: Any = importlib.import_module("plotext")

    span = recorded(lines, seconds)
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    # The four stretches between the ticks of the left axis are equally high.
    plotext.plotsize(size[0], size[1] - (size[1] - 3) % 4)
    wide = max(8, size[0] - 10)
    marker = "*" if ascii_only else "braille"
    top = 0.0
    for place, (label, values) in enumerate(lines):
        values = reduced(values, wide * 2)
        if not values:
            continue
        named = False
        for first, stretch in stretches(values):
            top = max(top, *stretch)
            step = seconds / len(values)
            plotext.plot(
                [end - seconds + (first + at + 1) * step for at in range(len(stretch))],
                stretch,
                marker=marker,
                color=colours[place % len(colours)],
                label=label if len(lines) > 1 and not named else None,
            )
            named = True
    plotext.xlim(end - span, end)
    top = _round_up(top)
    plotext.ylim(0, top)
    ticks = [end - span * (1 - place / 4) for place in range(5)]
    clock = words.clock if span >= 600 else words.clock_seconds
    plotext.xticks(ticks, [clock(at) for at in ticks])
    heights = [top * place / 4 for place in range(5)]
    plotext.yticks(heights, [_height(value, top) for value in heights])
    plotext.axes_color("default")
    plotext.ticks_color(colours[-1])
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    return str(plotext.build())


def recorded(lines: list[Curve], seconds: float) -> float:
    """Seconds that the axis shows: all, or less where recording began only lately."""
    first = 1.0
    for _, values in lines:
        known = next((at for at, value in enumerate(values) if not math.isnan(value)), None)
        if known is not None:
            first = min(first, known / len(values))
    return max(60.0, seconds * (1 - first)) if lines else seconds


def _height(value: float, top: float) -> str:
    return f"{value:.0f}" if top <= 9999 else words.tokens(value)


def _round_up(value: float) -> float:
    """The next round number: an axis that stays when a value wiggles."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 1.5, 2, 3, 4, 6, 8, 10) if power * step >= value)


class PlotsScreen(RigScreen):
    """Asks for the history when opened, when the choice changes, and seldom after that."""

    own: ClassVar[tuple[str, ...]] = ("metric", "longer", "shorter")

    def __init__(self, keys: Keys, client: Callable[[], RigClient]) -> None:
        super().__init__(keys)
        self._client = client
        self._metric = 0
        self._span = 0
        self._history: Mapping[str, Any] = {}
        self._note = "asking the daemon …"
        self._timer: Timer | None = None

    def middle(self) -> list[Widget]:
        """A title line and the plot."""
        return [Lines("title"), Static(id="plot")]

    def on_mount(self) -> None:
        """Ask at once."""
        super().on_mount()
        self._ask()

    def on_resize(self, event: events.Resize) -> None:
        """Other room, the same figures."""
        self._paint()

    def do_metric(self) -> None:
        """The next metric."""
        self._metric = (self._metric + 1) % len(METRICS)
        self._paint()

    def do_longer(self) -> None:
        """A longer span."""
        self._choose(min(len(SPANS) - 1, self._span + 1))

    def do_shorter(self) -> None:
        """A shorter span."""
        self._choose(max(0, self._span - 1))

    def _choose(self, span: int) -> None:
        if span != self._span:
            self._span = span
            self._ask()

    def _ask(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(REDRAW_SECONDS[SPANS[self._span][0]], self._ask)
        self.run_worker(self._load(SPANS[self._span][0]), group="history", exclusive=True)

    async def _load(self, seconds: int) -> None:
        try:
            self._history = await self._client().history(float(seconds))
            self._note = ""
        except FAULTS as error:
            self._note = f"no history: {error}; trying again"
        self._paint()

    def _paint(self) -> None:
        if not self.drawn:
            return
        metric = METRICS[self._metric]
        seconds, span = SPANS[self._span]
        lines = curves(metric, self._history)
        title = self.query_one("#title", Lines)
        left: list[tuple[str, str]] = [(metric, "strong"), (f"   {span}", "text")]
        if self._note:
            left.append((f"   {self._note}", "warn"))
        title.show(
            [spread(tuple(left), self._last(metric, lines), self.size.width - 2, title.glyphs)]
        )
        plot = self.query_one("#plot", Static)
        wide, high = self.size.width - 2, self.size.height - 4
        values = [value for _, curve in lines for value in curve if not math.isnan(value)]
        if wide < 20 or high < 5 or not values:
            text = "" if self._note else f"no {metric} was recorded in the last {span}"
            plot.update(Text(text))
            return
        end = float(self._history.get("end", 0) or 0)
        drawn = draw(lines, seconds, end, (wide, high), self._colours(), title.glyphs.ascii)
        plot.update(Text.from_ansi(drawn, no_wrap=True))

    def _last(self, metric: str, lines: list[Curve]) -> Line:
        spans: list[tuple[str, str]] = []
        for label, values in lines:
            known = [value for value in values if not math.isnan(value)]
            if not known:
                continue
            now = f"{known[-1]:.0f} W" if metric == "watts" else words.tokens(known[-1])
            name = "now " if len(lines) == 1 else f"{label} "
            spans += [(name, "dim"), (now, "strong"), ("   ", "text")]
        if metric == "watts" and lines:
            known = [value for value in lines[0][1] if not math.isnan(value)]
            if known:
                mean = sum(known) / len(known)
                spans += [("mean ", "dim"), (f"{mean:.0f} W", "text"), ("   ", "text")]
                spans += [("most ", "dim"), (f"{max(known):.0f} W", "text")]
        return tuple(spans)

    def _colours(self) -> list[tuple[int, int, int]]:
        from textual.color import Color

        variables = self.app.theme_variables
        names = ("rig-used", "accent", "success", "rig-dim")
        return [Color.parse(variables[name]).rgb for name in names]

    def update_middle(self, state: PanelState) -> None:
        """Plots follow their own slow clock, not the snapshots."""
