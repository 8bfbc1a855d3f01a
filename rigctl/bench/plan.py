"""What is measured, against which peer, and what the bars are."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number with the unit a person reads."""

    name: str
    value: float
    unit: str
    """`ms`, `s`, `%` of one core, `MB` (10^6 bytes), `kB/s`."""

    def __str__(self) -> str:
        digits = 0 if self.value >= 100 else 1 if self.value >= 10 else 2
        return f"{self.name} {self.value:.{digits}f} {self.unit}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise: a figure of ours at most `limit`, in the figure's unit or as a ratio to a peer."""

    figure: str
    """Name of our figure."""
    limit: float
    peer: str = ""
    """Name of the peer's figure that it is divided by; empty compares the figure itself."""
    below: bool = False
    """Strictly under the limit rather than at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table before it is measured."""

    id: str
    what: str
    """As a person reads it."""
    bar: str
    """The promise in words."""
    bars: tuple[Bar, ...]
    peer: str
    """Who must have been measured in the same run for the row to count."""


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
    """A row is met when every bar is kept and its peer was measured in the same run."""
    if result.missing:
        return Verdict(False, (), result.missing)
    ours = {figure.name: figure for figure in result.ours}
    peers = {figure.name: figure for figure in result.peers}
    if not any(name.startswith(result.row.peer) for name in peers):
        return Verdict(False, (), f"no peer in this run: {result.row.peer}")
    ratios: list[str] = []
    missed: list[str] = []
    for bar in result.row.bars:
        figure = ours.get(bar.figure)
        if figure is None:
            missed.append(f"{bar.figure} was not measured")
            continue
        value = figure.value
        if bar.peer:
            other = peers.get(bar.peer)
            if other is None or other.value <= 0:
                missed.append(f"{bar.peer} was not measured")
                continue
            value = figure.value / other.value
            ratios.append(f"{value:.2f} × {bar.peer}")
        if value > bar.limit or (bar.below and value >= bar.limit):
            over = f"{value:.2f} × {bar.peer}" if bar.peer else str(figure)
            missed.append(f"{over} is over {bar.limit:g}")
    return Verdict(not missed, tuple(ratios), "; ".join(missed))
