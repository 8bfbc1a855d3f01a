"""A small model of prefill-first scheduling, as SGLang's counters would show it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rigctl.core.engine_sample import EngineSample
from rigctl.core.ids import GroupName, Mono
from rigctl.core.reading import NOT_YET, Reading


@dataclass
class Ask:
    """A request as the model's scheduler has it."""

    prompt: float
    cached: float
    answer: float
    read: float = 0.0


@dataclass
class Model:
    """Prefill first, in chunks that grow dearer along the prompt; decode only when none waits."""

    chunk: float
    base: float
    """Seconds a prompt token costs at the head of a prompt."""
    slope: float
    """Further seconds a token, for each token of position."""
    rounds: int = 0
    """Decode rounds between two chunks (`--prefill-decode-interval`)."""
    now: float = 0.0
    waiting: deque[Ask] = field(default_factory=deque)
    running: list[Ask] = field(default_factory=list)
    busy_until: float = 0.0
    step: str = ""
    owed: int = 0
    decoded: float = 0.0
    prefilled: float = 0.0
    cached: float = 0.0
    idle: float = 0.0
    busy: float = 0.0

    def advance(self, to: float) -> None:
        """Run until that time; effects of a step show at its end, as in the real one."""
        while True:
            if not self.step:
                self._begin(to)
                if not self.step:
                    return
            if self.busy_until > to:
                self.now = to
                return
            self.now = self.busy_until
            self._end()

    def _begin(self, to: float) -> None:
        if self.waiting and not (self.running and self.owed > 0):
            ask = self.waiting[0]
            tokens = min(self.chunk, ask.prompt - ask.cached - ask.read)
            middle = ask.cached + ask.read + tokens / 2
            self.step = "prefill"
            self.busy_until = self.now + tokens * (self.base + self.slope * middle)
        elif self.running:
            self.step = "decode"
            self.busy_until = self.now + 0.03
        else:
            self.idle += to - self.now
            self.now = to

    def _end(self) -> None:
        if self.step == "prefill":
            ask = self.waiting[0]
            if ask.read == 0:
                self.cached += ask.cached
            tokens = min(self.chunk, ask.prompt - ask.cached - ask.read)
            middle = ask.cached + ask.read + tokens / 2
            self.busy += tokens * (self.base + self.slope * middle)
            ask.read += tokens
            self.prefilled += tokens
            self.owed = self.rounds
            if ask.cached + ask.read >= ask.prompt:
                self.running.append(self.waiting.popleft())
        else:
            self.owed = max(0, self.owed - 1)
            self.decoded += 4 * len(self.running)
            for ask in self.running:
                ask.answer -= 4
            self.running = [ask for ask in self.running if ask.answer > 0]
        self.step = ""

    def look(self, all_counters: bool = True) -> EngineSample:
        """What a poll sees now, of a new version or an old one. The one in prefill is neither
        running nor queued."""
        idle: Reading = self.idle if all_counters else NOT_YET
        busy: Reading = self.busy if all_counters else NOT_YET
        left = sum(ask.prompt - ask.cached - ask.read for ask in self.waiting)
        return EngineSample(
            group=GroupName("g"),
            at=Mono(self.now),
            running=float(len(self.running)),
            queued=float(max(0, len(self.waiting) - 1)),
            active=float(len(self.running) + len(self.waiting)),
            decode_tokens=self.decoded,
            prefill_tokens=self.prefilled,
            cached_tokens=self.cached,
            waiting_tokens=left,
            chunk_tokens=self.chunk,
            context_length=400_000.0,
            scheduler_idle_seconds=idle,
            prefill_busy_seconds=busy,
        )
