"""The loads run through every relay in turn, round after round."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from rigctl.bench.plan import Figure
from rigctl.bench.relay_loads import Load, Outcome
from rigctl.bench.relay_peers import Relay
from rigctl.bench.relay_plan import DIRECT, Effort

WARM = Load(connections=2, requests=4, tokens=50, seed="warm")


class LoadFailedError(Exception):
    """A relay lost a request, a token or an end: its figures would be about something else."""


def run_load(load: Load, relay: Relay) -> Outcome:
    """The client in a process of its own; LoadFailedError when anything is missing."""
    argv = [
        *(sys.executable, "-P", "-m", "rigctl.bench.relay_client"),
        *(json.dumps(asdict(load)), *map(str, relay.ports)),
    ]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise LoadFailedError(f"{relay.name}: the client ended with {''.join(last) or 'nothing'}")
    outcome = Outcome(**json.loads(done.stdout))
    if outcome.failed:
        raise LoadFailedError(
            f"{relay.name}: {outcome.failed} of {outcome.failed + outcome.finished} requests "
            f"failed: {outcome.fault}"
        )
    return outcome


@dataclass(slots=True)
class Taken:
    """One relay's raw figures, one value a round: absolute, direct's share still in them."""

    first: list[float] = field(default_factory=list)
    """Milliseconds, median of one stream."""
    chunk: list[float] = field(default_factory=list)
    """Milliseconds, p99 of twelve streams."""
    body: list[float] = field(default_factory=list)
    """Milliseconds, median."""
    cpu: list[float] = field(default_factory=list)
    """Milliseconds for a thousand chunks."""
    short: list[float] = field(default_factory=list)
    """Answers a second."""
    fault: str = ""
    """Why its rounds ended."""

    def round(self, relay: Relay, effort: Effort, number: int) -> None:
        """Every load once."""
        seed = f"{number}"
        stream = run_load(_seeded(effort.stream, seed), relay)
        before = relay.cpu()
        twelve = run_load(_seeded(effort.twelve, seed), relay)
        used = relay.cpu() - before
        body = run_load(_seeded(effort.body, seed), relay)
        short = run_load(_seeded(effort.short, seed), relay)
        self.first.append(_there(stream.first_p50))
        self.chunk.append(_there(twelve.chunk_p99))
        self.body.append(_there(body.first_p50))
        self.cpu.append(used / twelve.chunks * 1e6)
        self.short.append(short.finished / short.seconds)


def _seeded(load: Load, seed: str) -> Load:
    return replace(load, seed=f"{load.seed}{seed}")


def _there(value: float | None) -> float:
    if value is None:
        raise LoadFailedError("nothing arrived")
    return value


def take(
    effort: Effort, relays: Sequence[Relay], progress: Callable[[str], None]
) -> dict[str, Taken]:
    """All rounds. A relay that fails is not asked again, and says why."""
    taken = {relay.name: Taken() for relay in relays}
    for number in range(effort.rounds):
        for relay in relays:
            if taken[relay.name].fault:
                continue
            progress(f"round {number + 1} of {effort.rounds}: {relay.name} …")
            try:
                if number == 0:
                    run_load(WARM, relay)
                taken[relay.name].round(relay, effort, number)
            except (LoadFailedError, OSError) as problem:
                taken[relay.name].fault = str(problem)
    return taken


def figures(taken: Mapping[str, Taken], what: str, unit: str, added: bool) -> dict[str, Figure]:
    """One raw figure of every relay that lasted, with direct's taken off where it is `added`."""
    lasted = {name: getattr(each, what) for name, each in taken.items() if not each.fault}
    direct = lasted.get(DIRECT)
    found: dict[str, Figure] = {}
    for name, rounds in lasted.items():
        if name == DIRECT:
            if what != "cpu":
                found[name] = Figure.of("direct (whole)" if added else name, rounds, unit)
        elif not added:
            found[name] = Figure.of(name, rounds, unit)
        elif direct is not None:
            rest = [each - base for each, base in zip(rounds, direct, strict=True)]
            found[name] = Figure.of(name, rest, unit)
    return found
