"""The phases of a start, told by the log: where it is, how long, and whether it still moves.

Ready is a real answer, not a clock: a start is given up for lack of progress only (C62). What
counts as progress differs: a scheduler that waits for its peers in NCCL spins at full CPU (C61).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rigctl.core.log_facts import Capacity, LogFact, Milestone, Step
from rigctl.core.reading import NOT_YET, Missing, Reading
from rigctl.core.snapshot import Phase

INIT, NCCL, WEIGHTS, POOL, GRAPHS, WARM_UP = PHASES = (
    "init",
    "NCCL init",
    "weights",
    "kv pool",
    "graphs",
    "warm-up",
)

_AFTER: Mapping[Step, int] = {
    Step.ARGUMENTS: 0,
    Step.NCCL_BEGUN: 1,
    Step.NCCL_ENDED: 2,
    Step.WEIGHTS_BEGUN: 2,
    Step.WEIGHTS_ENDED: 3,
    Step.POOL_MADE: 4,
    Step.GRAPHS_BEGUN: 4,
    Step.GRAPHS_ENDED: 4,
    Step.SCHEDULER_UP: 5,
    Step.LISTENING: 5,
    Step.FIRED_UP: 6,
}
"""The phase that a start is in once a rank has passed that milestone."""
_OF_ALL = (
    Step.GRAPHS_BEGUN,
    Step.GRAPHS_ENDED,
    Step.SCHEDULER_UP,
    Step.LISTENING,
    Step.FIRED_UP,
)
"""Milestones that one rank or the main process tells for all."""


@dataclass(frozen=True, slots=True)
class PhasePolicy:
    """Patience with a start; all times in seconds."""

    quiet: float = 600.0
    """A phase without progress for so long is stuck."""
    nccl_quiet: float = 300.0
    """The same for NCCL init, where a busy CPU is no progress."""
    cpu_share: float = 0.2
    """So many cores used, on average since the last look, are work being done."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start as far as it has come."""

    began: float
    ranks: int
    """Tensor-parallel ranks that must arrive."""
    usual: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each phase at the last good start."""
    reached: tuple[Step | None, ...] = ()
    """The furthest milestone of each rank."""
    entered: tuple[float, ...] = ()
    """When each phase began, as far as it has begun; one more entry once ready."""
    progress_at: float = 0.0
    log_bytes: float = 0.0
    cpu_seconds: Reading = NOT_YET
    looked_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Stuck:
    """A start that no longer moves."""

    phase: str
    seconds: float
    """In this phase."""
    quiet: float
    """Since anything moved."""
    say: str
    """`NCCL init 10:04 (usual 0:08), TP2 has not arrived; …`"""


def begin(now: float, ranks: int, usual: Mapping[str, float] | None = None) -> Start:
    """A process was spawned; `usual` is `durations()` of the last good start."""
    return Start(
        began=now,
        ranks=max(1, ranks),
        usual=dict(usual or {}),
        reached=(None,) * max(1, ranks),
        entered=(now,),
        progress_at=now,
        looked_at=now,
    )


def observe(start: Start, fact: LogFact, now: float) -> Start:
    """Take in one log line. Milestones never lead back: a draft model loads after the graphs."""
    match fact:
        case Milestone(step, rank):
            pass
        case Capacity():
            step, rank = Step.SCHEDULER_UP, None
        case _:
            return start
    everyone = step in _OF_ALL or (rank is None and start.ranks == 1)
    reached = tuple(
        _later(old, step) if everyone or index == rank else old
        for index, old in enumerate(start.reached)
    )
    if reached == start.reached:
        return start
    start = replace(start, reached=reached, progress_at=now)
    entered = start.entered
    while len(entered) <= _index(start):
        entered = (*entered, now)
    return replace(start, entered=entered)


def progressed(
    start: Start, log_bytes: float, cpu_seconds: Reading, now: float, policy: PhasePolicy
) -> Start:
    """The log's length and the CPU time of the engine's processes, both counted from its start.

    Progress bars, compilers and loaders print no milestone for half an hour, but they print or
    compute.
    """
    moved = log_bytes > start.log_bytes
    elapsed = now - start.looked_at
    if (
        phase(start) != NCCL
        and not isinstance(cpu_seconds, Missing)
        and not isinstance(start.cpu_seconds, Missing)
        and elapsed > 0
    ):
        moved = moved or (cpu_seconds - start.cpu_seconds) / elapsed >= policy.cpu_share
    return replace(
        start,
        log_bytes=max(log_bytes, start.log_bytes),
        cpu_seconds=start.cpu_seconds if isinstance(cpu_seconds, Missing) else cpu_seconds,
        looked_at=now,
        progress_at=now if moved else start.progress_at,
    )


def ready(start: Start) -> bool:
    """Whether the engine has said that it is ready."""
    return _index(start) >= len(PHASES)


def phase(start: Start) -> str:
    """The phase it is in; the last one once ready."""
    return PHASES[min(_index(start), len(PHASES) - 1)]


def phases(start: Start, now: float) -> tuple[Phase, ...]:
    """All phases for the panel: the past with their length, the present so far, the rest at 0."""
    return tuple(
        Phase(
            name,
            _seconds(start, index, now),
            start.usual.get(name, NOT_YET),
            done=index < _index(start),
        )
        for index, name in enumerate(PHASES)
    )


def durations(start: Start) -> dict[str, float]:
    """Seconds of each finished phase, to be kept as `usual` once this start was good."""
    return {
        name: later - begun
        for name, begun, later in zip(PHASES, start.entered, start.entered[1:], strict=False)
    }


def estimate(start: Start, now: float) -> Reading:
    """Seconds until ready, by the last good start; an overrun adds nothing for itself."""
    if not start.usual or set(start.usual) != set(PHASES):
        return NOT_YET
    index = _index(start)
    if index >= len(PHASES):
        return 0.0
    here = max(0.0, start.usual[PHASES[index]] - _seconds(start, index, now))
    return here + sum(start.usual[name] for name in PHASES[index + 1 :])


def missing_ranks(start: Start) -> tuple[int, ...]:
    """Ranks that are behind the others in the phase at hand: the ones that are waited for."""
    index = _index(start)
    behind = tuple(rank for rank, step in enumerate(start.reached) if _after(step) <= index)
    return behind if len(behind) < start.ranks else ()


def stuck(start: Start, now: float, policy: PhasePolicy) -> Stuck | None:
    """The start's own end of patience, or None while it moves or is ready."""
    if ready(start):
        return None
    name = phase(start)
    quiet = now - start.progress_at
    if quiet <= (policy.nccl_quiet if name == NCCL else policy.quiet):
        return None
    return Stuck(name, _seconds(start, _index(start), now), quiet, say(start, now))


def say(start: Start, now: float) -> str:
    """The phase in one line, with what it waits for and a hint where it takes unusually long."""
    name = phase(start)
    seconds = _seconds(start, min(_index(start), len(PHASES) - 1), now)
    usual = start.usual.get(name)
    line = f"{name} {_clock(seconds)}"
    if usual is not None:
        line += f" (usual {_clock(usual)})"
    if name != NCCL or seconds < max(30.0, 3 * (usual or 0.0)):
        return line
    waited_for = missing_ranks(start)
    if waited_for:
        names = ", ".join(f"TP{rank}" for rank in waited_for)
        line += f", {names} {'has' if len(waited_for) == 1 else 'have'} not arrived"
    return line + "; NCCL_P2P_DISABLE=1 set? ACS or IOMMU on?"


def _index(start: Start) -> int:
    """The phase of the rank that is furthest behind."""
    return min(_after(step) for step in start.reached)


def _after(step: Step | None) -> int:
    return 0 if step is None else _AFTER[step]


def _later(old: Step | None, new: Step) -> Step:
    return new if old is None or new.value > old.value else old


def _seconds(start: Start, index: int, now: float) -> float:
    if index >= len(start.entered):
        return 0.0
    end = start.entered[index + 1] if index + 1 < len(start.entered) else now
    return max(0.0, end - start.entered[index])


def _clock(seconds: float) -> str:
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
