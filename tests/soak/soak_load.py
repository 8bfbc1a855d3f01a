"""Clients that ask without pause, and hold every answer against the one that is known for it."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

from support_served import Endpoint
from support_served_stream import Stream

PROMPTS = 16
TOKENS = 80


@dataclass(frozen=True, slots=True)
class Kill:
    """A process that was ended, and when: the streams it carried may be cut."""

    what: str
    """`proxy`, or a cluster's name."""
    at: float


@dataclass
class Load:
    """Workers on one endpoint; what went wrong is kept as text."""

    rig: Endpoint
    expected: dict[str, str]
    """Text of the answer by prompt."""
    kills: list[Kill] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    whole: int = 0
    cut: int = 0
    refused: int = 0
    full: bool = False
    """A full queue is part of the plan now: 503 is a proper answer."""
    _enough: threading.Event = field(default_factory=threading.Event)
    _workers: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, workers: int) -> None:
        """Begin to ask."""
        for number in range(workers):
            worker = threading.Thread(target=self._work, args=(number,), daemon=True)
            self._workers.append(worker)
            worker.start()

    def stop(self) -> None:
        """Ask no more, and wait for what runs."""
        self._enough.set()
        for worker in self._workers:
            worker.join(120)
            assert not worker.is_alive(), "an answer never ended"

    def _work(self, number: int) -> None:
        chance = random.Random(number)
        while not self._enough.is_set():
            text = chance.choice(list(self.expected))
            maybe_full = self.full
            stream = Stream(self.rig.port, text, TOKENS, ignore_eos=True)
            stream.join(120)
            with self._lock:
                self.judge(stream, text, maybe_full or self.full)

    def judge(self, stream: Stream, text: str, maybe_full: bool) -> None:
        """Whole and equal, or cut by a kill and equal up to there."""
        wanted = self.expected[text]
        if not wanted.startswith(stream.text):
            self.faults.append(f"other bytes: {stream.text[-80:]!r} for {text}")
        elif stream.is_alive():
            self.faults.append("a stream hangs")
        elif stream.status == 503 and maybe_full:
            self.refused += 1
        elif stream.done and not stream.failure:
            self.whole += 1
            if stream.text != wanted or stream.raw.count(b"[DONE]") != 1:
                self.faults.append(f"shorter than it says: {len(stream.text)} of {len(wanted)}")
        elif self._excused(stream):
            self.cut += 1
        else:
            said = stream.failure or stream.raw[-200:]
            self.faults.append(f"lost without a reason: {stream.status} {said!r}")

    def _excused(self, stream: Stream) -> bool:
        cluster = stream.headers.get("x-rig-cluster", "")
        now = time.monotonic()
        return any(
            stream.began <= kill.at <= now and kill.what in ("proxy", cluster)
            for kill in self.kills
        )
