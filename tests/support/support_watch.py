"""An engine played by hand, for the tests of the watch: set its counters, look, read the facts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rigctl.core.engine_sample import EngineSample
from rigctl.core.ids import GroupName, Mono
from rigctl.core.reading import Reading
from rigctl.core.watch import (
    Watch,
    WatchFact,
    begin,
    flow,
    observe,
)
from rigctl.core.watch_facts import WatchPolicy

CHUNK = 1000.0
PATIENT = 3 * WatchPolicy().chunk_prior
"""Three chunks of the prior: the longest silence before anything was measured."""


@dataclass
class Rig:
    """An engine played by hand: set what its counters show, let a second pass, look."""

    watch: Watch = field(default_factory=lambda: begin(0.0))
    now: float = 0.0
    facts: list[WatchFact] = field(default_factory=list)
    sample: EngineSample = EngineSample(
        group=GroupName("g"),
        at=Mono(0.0),
        running=0.0,
        queued=0.0,
        active=0.0,
        decode_tokens=0.0,
        prefill_tokens=0.0,
        cached_tokens=0.0,
        waiting_tokens=0.0,
        chunk_tokens=CHUNK,
        context_length=100_000.0,
        accept_length=3.9,
    )

    def look(self, seconds: float = 1.0, **changes: Reading) -> list[WatchFact]:
        """Time passes, the engine is polled once; the facts this poll brought."""
        self.now += seconds
        self.sample = replace(self.sample, at=Mono(self.now), **changes)  # type: ignore[arg-type]
        self.watch, facts = observe(self.watch, self.sample, self.now)
        self.facts += facts
        return list(facts)

    def number(self, name: str) -> float:
        value = getattr(self.sample, name)
        assert isinstance(value, float)
        return value

    def decode(self, seconds: float, per_second: float = 100.0) -> None:
        """Decode for a while."""
        for _ in range(int(seconds)):
            self.look(decode_tokens=self.number("decode_tokens") + per_second)

    def chunk(self, seconds: float, decoded: float = 0.0) -> list[WatchFact]:
        """One chunk is read; its end is seen at a poll, decoding is seen one second before."""
        facts: list[WatchFact] = []
        for _ in range(int(seconds) - 2):
            facts += self.look()
        facts += self.look(decode_tokens=self.number("decode_tokens") + decoded)
        facts += self.look(
            prefill_tokens=self.number("prefill_tokens") + CHUNK,
            waiting_tokens=max(0.0, self.number("waiting_tokens") - CHUNK),
        )
        return facts

    def chunk_of_old(self, seconds: float = 4.0) -> None:
        """One chunk of a version that does not tell what waits."""
        self.look(seconds - 1)
        self.look(prefill_tokens=self.number("prefill_tokens") + CHUNK)

    @property
    def state(self) -> str:
        return flow(self.watch, self.now).state


def measured(rig: Rig, chunk_seconds: float = 4.0) -> Rig:
    """Let the engine read one prompt first, so that its chunks are known."""
    rig.look(active=1.0, waiting_tokens=8 * CHUNK)
    for _ in range(8):
        rig.chunk(chunk_seconds)
    rig.look(active=0.0)
    assert rig.watch.costs.count >= rig.watch.policy.measured_after
    rig.facts.clear()
    return rig


def with_answers(count: float = 3.0, seconds: float = 20.0) -> Rig:
    """A measured engine with some answers under way."""
    rig = measured(Rig())
    rig.look(active=count, running=count)
    rig.decode(seconds)
    rig.facts.clear()
    return rig


def slow_chunks(rig: Rig, count: int, per_chunk: float) -> None:
    for _ in range(count):
        rig.chunk(4, decoded=per_chunk)
