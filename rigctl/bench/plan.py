"""What is measured, against which peer, and what the bars are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

HELD = 0.75
"""Share of the rounds in which a bar must hold: less is a coin's toss, and is said so."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number with the unit a person reads."""

    name: str
    value: float
    unit: str
    """`ms`, `s`, `%` of one core, `MB` (10^6 bytes), `kB/s`; empty for a count."""
    rounds: tuple[float, ...] = ()
    """What each round of the run gave, in order; `value` is their median. Empty: one round."""

    @classmethod
    def of(cls, name: str, rounds: Sequence[float], unit: str) -> Figure:
        """The median of several rounds."""
        return cls(name, statistics.median(rounds), unit, tuple(rounds))

    def __str__(self) -> str:
        spread = ""
        if len(self.rounds) > 1:
            spread = f" [{_short(min(self.rounds))} to {_short(max(self.rounds))}]"
        return f"{self.name} {_short(self.value)} {self.unit}".rstrip() + spread


def _short(value: float) -> str:
    size = abs(value)
    return f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3}f}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise: a figure of ours at most `limit`, in the figure's unit or as a ratio to a peer.

    Where both were taken in the same rounds, each round is held against the peer's own of that
    round: what disturbed one disturbed the other.
    """

    figure: str
    """Name of our figure."""
    limit: float
    peer: str = ""
    """Name of the peer's figure that it is divided by; empty compares the figure itself."""
    below: bool = False
    """Strictly under the limit rather than at most."""
    plus: float = 0.0
    """Added to the peer's share, in the figure's unit."""
    exact: bool = False
    """The limit and nothing else: a count."""

    def margin(self, ours: float, peer: float) -> float:
        """How far under the limit; negative: over it."""
        if self.exact:
            return -abs(ours - self.limit)
        return (self.limit * peer + self.plus if self.peer else self.limit) - ours


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table before it is measured."""

    id: str
    what: str
    """As a person reads it."""
    bar: str
    """The promise in words."""
    bars: tuple[Bar, ...]
    peer: str = ""
    """Who must have been measured in the same run for the row to count; empty: whom the bars
    name."""
    beside: str = ""
    """A peer whose ratio is shown whatever the bars say."""
    how: str = ""
    """How the figures are taken."""


@dataclass(frozen=True, slots=True)
class Result:
    """A row with its figures; `missing` says why there are none, or no peer's."""

    row: Row
    ours: tuple[Figure, ...] = ()
    peers: tuple[Figure, ...] = ()
    missing: str = ""
    note: str = ""
    details: dict[str, float] = field(default_factory=dict)
    """Further numbers for the JSON output, by name with unit: `runs`, `seconds`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a row's promise was kept, and the ratios that decided it."""

    met: bool
    ratios: tuple[str, ...]
    why: str
    """Empty when met; else the bar that was missed, or what was not measured."""
    absent: bool = False
    """A peer that a bar needs is not in this run; the row counts as not met."""

    @property
    def word(self) -> str:
        """For the table."""
        return "met" if self.met else "peer not in this run" if self.absent else "not met"


ROWS: tuple[Row, ...] = (
    Row(
        "status",
        "rigctl status --json",
        "at most 4 × bare Python, and below supervisorctl",
        (
            Bar("rigctl status", 4.0, "python3 -c pass"),
            Bar("rigctl status", 1.0, "supervisorctl status", below=True),
        ),
        "supervisorctl",
    ),
    Row(
        "daemon",
        "daemon with a client, 8 cards, 2 sleeping engines, 1 Hz",
        "at most 1 % of a core and 60 MB, worker included",
        (Bar("daemon cpu", 1.0), Bar("daemon memory", 60.0)),
        "supervisord",
    ),
    Row(
        "panel-busy",
        "panel, everything changing at 1 Hz, in tmux",
        "at most 4 % of a core, 12 kB/s, 3 × nvitop",
        (
            Bar("panel cpu", 4.0),
            Bar("panel output", 12.0),
            Bar("panel cpu", 3.0, "nvitop cpu"),
        ),
        "nvitop",
    ),
    Row(
        "panel-idle",
        "panel, nothing changing",
        "at most 0.5 % of a core",
        (Bar("panel cpu", 0.5),),
        "nvitop",
    ),
    Row(
        "first-frame",
        "first frame of the panel",
        "at most 1.2 s",
        (Bar("panel", 1.2),),
        "nvitop",
    ),
    Row(
        "free",
        'key to "four cards free", simulated engine',
        "rigctl's own share at most 0.5 s",
        (Bar("own share", 0.5),),
        "supervisorctl stop",
    ),
    Row(
        "free-real",
        'key to "four cards free", real SGLang',
        "rigctl's own share at most 0.5 s",
        (Bar("own share", 0.5),),
        "supervisorctl stop",
    ),
    Row(
        "memory",
        "two hours of data at 60 times the speed",
        "final memory at most 5 MB above that after ten minutes",
        (Bar("daemon growth", 5.0), Bar("panel growth", 5.0)),
        "nvitop",
    ),
)


def row(identity: str) -> Row:
    """The row of that id; KeyError where there is none."""
    for candidate in ROWS:
        if candidate.id == identity:
            return candidate
    raise KeyError(identity)


def judge(result: Result) -> Verdict:
    """A row is met when every bar is kept and its peers were measured in the same run."""
    if result.missing:
        return Verdict(False, (), result.missing)
    ours = {figure.name: figure for figure in result.ours}
    peers = {figure.name: figure for figure in result.peers}
    needed = result.row.peer
    if needed and not any(name.startswith(needed) for name in peers):
        return Verdict(False, (), f"peer not in this run: {needed}", absent=True)
    ratios: dict[str, None] = {}
    missed: list[str] = []
    absent = False
    for bar in result.row.bars:
        figure, other = ours.get(bar.figure), peers.get(bar.peer)
        if figure is None:
            missed.append(f"{bar.figure} was not measured")
        elif bar.peer and other is None:
            absent = True
            missed.append(f"peer not in this run: {bar.peer}")
        else:
            if other is not None:
                ratios[_ratio(figure, other)] = None
            missed += _missed(bar, figure, other)
    ratios |= dict.fromkeys(_beside(result.row, ours, peers))
    return Verdict(not missed, tuple(ratios), "; ".join(missed), absent)


def _beside(row: Row, ours: Mapping[str, Figure], peers: Mapping[str, Figure]) -> list[str]:
    """The ratio to the row's companion, for each figure that has one of the same unit."""
    other = peers.get(row.beside)
    if other is None:
        return []
    first = next(iter(ours.values()), None)
    return [] if first is None or first.unit != other.unit else [_ratio(first, other)]


def _ratio(ours: Figure, peer: Figure) -> str:
    lowest = min(peer.rounds, default=peer.value)
    if lowest <= 0:
        return f"no ratio to {peer.name}: its figure is not apart from 0"
    return f"{ours.value / peer.value:.2f} × {peer.name}"


def _missed(bar: Bar, figure: Figure, other: Figure | None) -> list[str]:
    """What is to be said against a bar; nothing when it is kept."""
    mine = figure.rounds or (figure.value,)
    theirs = (other.rounds or (other.value,)) if other is not None else (0.0,) * len(mine)
    if len(theirs) != len(mine):
        mine, theirs = (figure.value,), (other.value if other is not None else 0.0,)
    margins = [bar.margin(a, b) for a, b in zip(mine, theirs, strict=True)]
    held = sum(margin > 0 or (margin == 0 and not bar.below) for margin in margins)
    middle = statistics.median(margins)
    if middle < 0 or (bar.below and middle == 0):
        return [_over(bar, figure, other)]
    if held < math.ceil(HELD * len(margins)):
        say = f"too close to call: {_limit(bar)} held in {held} of {len(margins)} rounds"
        return [say]
    return []


def _over(bar: Bar, figure: Figure, other: Figure | None) -> str:
    if bar.exact:
        return f"{figure} is not {bar.limit:g}"
    if other is not None and not bar.plus:
        return f"{figure.value / other.value:.2f} × {other.name} is over {bar.limit:g}"
    return f"{figure} is over {_limit(bar)}"


def _limit(bar: Bar) -> str:
    if not bar.peer:
        return f"{bar.limit:g}"
    return f"{bar.limit:.3g} × {bar.peer}" + (f" + {bar.plus:g}" if bar.plus else "")
