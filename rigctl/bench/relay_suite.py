"""`rigctl bench relay`: our proxy and its peers measured in one run."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rigctl.bench import relay_memory, relay_ten
from rigctl.bench.peers import PeerMissingError
from rigctl.bench.plan import Figure, Result
from rigctl.bench.relay_ours import ours
from rigctl.bench.relay_peers import COMMANDS, NGINX, Relay, free_port, peer, running
from rigctl.bench.relay_plan import DIRECT, METHOD, OURS, ROWS, Effort, row
from rigctl.bench.relay_rounds import LoadFailedError, Taken, figures, take
from rigctl.bench.rig import RigError

_FAULTS = (RigError, PeerMissingError, LoadFailedError, OSError)
"""What keeps one row from being measured and not the others; the row says it and is not met."""

_FIGURES = {
    "first-byte": ("first", "ms", True),
    "chunk": ("chunk", "ms", True),
    "body": ("body", "ms", True),
    "cpu": ("cpu", "ms", False),
    "short": ("short", "/s", False),
}
"""Row: raw figure, unit, whether direct's is taken off."""


class Course:
    """The engines and every relay in front of them, started once and left running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.relays: list[Relay] = []
        self.absent: dict[str, str] = {}
        """Relays that are not in this run, and why."""

    def start(self, progress: Callable[[str], None]) -> None:
        """Engines first, then ours, then every peer that is there."""
        engines = (free_port(), free_port())
        place = self._folder / "engines"
        place.mkdir()
        argv = [sys.executable, "-P", "-m", "rigctl.bench.relay_backend", *map(str, engines)]
        self._stack.enter_context(running(argv, place, os.environ))
        self.relays.append(Relay(DIRECT, engines))
        for name in (OURS, *COMMANDS):
            progress(f"starting {name} …")
            place = self._folder / name
            begun = ours(place, engines) if name == OURS else peer(name, place, engines)
            try:
                self.relays.append(self._stack.enter_context(begun))
            except (PeerMissingError, OSError) as problem:
                self.absent[name] = str(problem)

    def relay(self, name: str) -> Relay:
        """One of them; PeerMissingError says why it is not there."""
        for each in self.relays:
            if each.name == name:
                return each
        raise PeerMissingError(self.absent.get(name, f"no {name}"))

    def close(self) -> None:
        """End everything that was started."""
        self._stack.close()


def run(effort: Effort, only: Sequence[str], progress: Callable[[str], None]) -> list[Result]:
    """Measure the named rows, all of them when none is named; in the order of the plan."""
    wanted = [each.id for each in ROWS if not only or each.id in only]
    # A short folder, because socket paths end at 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="rigctl-relay-"))
    found: dict[str, Result] = {}
    try:
        # The simulated rig alone, before the peers: none is measured beside another's start.
        if "ten" in wanted:
            progress(f"{row('ten').what} …")
            found["ten"] = _or_missing("ten", lambda: relay_ten.measure(folder / "ten"))
        if set(wanted) - {"ten"}:
            found |= _on_course(folder, effort, wanted, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [found[name] for name in wanted]


def _on_course(
    folder: Path, effort: Effort, wanted: Sequence[str], progress: Callable[[str], None]
) -> dict[str, Result]:
    course = Course(folder)
    found: dict[str, Result] = {}
    with contextlib.closing(course):
        course.start(progress)
        rounds = [name for name in wanted if name in _FIGURES]
        if rounds:
            taken = take(effort, course.relays, progress)
            found |= {name: _of_rounds(name, taken, course.absent) for name in rounds}
        if "bodies" in wanted:
            progress(f"{row('bodies').what} …")
            found["bodies"] = _or_missing("bodies", lambda: _bodies(course))
        if "day" in wanted:
            found["day"] = _or_missing("day", lambda: _day(course, effort, progress))
    return found


def _or_missing(name: str, measurer: Callable[[], Result]) -> Result:
    try:
        return measurer()
    except _FAULTS as fault:
        return Result(row(name), missing=f"not measured: {fault}")


def _of_rounds(name: str, taken: Mapping[str, Taken], absent: Mapping[str, str]) -> Result:
    """A row out of the rounds; relays that are missing or failed are named with the reason."""
    found = figures(taken, *_FIGURES[name])
    faults = dict(absent) | {each: one.fault for each, one in taken.items() if one.fault}
    mine, peers = found.pop(OURS, None), tuple(found.values())
    if mine is None:
        why = faults.pop(OURS, "") or faults.get(DIRECT, "")
        say = f"not measured: {why}"
        return Result(row(name), peers=peers, missing=say, note="; ".join(faults.values()))
    details = {"rounds": float(len(mine.rounds))}
    return Result(row(name), (mine,), peers, note="; ".join(faults.values()), details=details)


def _bodies(course: Course) -> Result:
    mine = relay_memory.large_bodies(course.relay(OURS))
    result = Result(
        row("bodies"),
        (Figure("rigctl peak", mine.peak, "MB"), Figure("rigctl kept", mine.kept, "MB")),
    )
    try:
        theirs = relay_memory.large_bodies(course.relay(NGINX))
    except _FAULTS as fault:
        return replace(result, note=str(fault))
    peers = (Figure("nginx peak", theirs.peak, "MB"), Figure("nginx kept", theirs.kept, "MB"))
    return replace(result, peers=peers)


def _day(course: Course, effort: Effort, progress: Callable[[str], None]) -> Result:
    growth, requests = relay_memory.day(course.relay(OURS), effort, progress)
    memory = course.relay(OURS).memory()
    figures_of_ours = (Figure("rigctl growth", growth, "MB"), Figure("rigctl", memory, "MB"))
    said = f"{requests} requests in {requests // effort.day.conversation} conversations counted"
    result = Result(row("day"), figures_of_ours, note=said, details={"requests": float(requests)})
    try:
        theirs, _ = relay_memory.day(course.relay(NGINX), effort, progress)
    except _FAULTS as fault:
        return replace(result, note=f"{said}; {fault}")
    peers = (
        Figure("nginx growth", theirs, "MB"),
        Figure("nginx", course.relay(NGINX).memory(), "MB"),
    )
    return replace(result, peers=peers)


def machine(effort: Effort) -> dict[str, str]:
    """What the figures were measured on, and how busy it was."""
    busy, cores = os.getloadavg()[0], os.cpu_count() or 1
    return {
        # Which build of Python it is shows in our figures.
        "python": f"{platform.python_version()} of {sys.base_prefix}",
        "kernel": platform.release(),
        "cores": str(cores),
        "load": f"{busy:.1f}",
        "run": effort.words,
        "method": METHOD,
    }
