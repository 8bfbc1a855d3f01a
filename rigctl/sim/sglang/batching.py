"""SGLang's scheduler as pure decisions: prefill first, in chunks; decode only otherwise."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rigctl.sim.sglang.pool import KvPool, Node
from rigctl.sim.sglang.prompts import Piece, Prompt
from rigctl.sim.sglang.speech import Speech

NEW_TOKEN_RATIO = 0.7
"""Share of its wanted output that a request must find room for before it is let in."""
CLIP_OUTPUT = 4096
"""No more than this much output is reserved for anyone."""


@dataclass(eq=False, slots=True)
class Request:
    """One request from its arrival to its last token."""

    rid: str
    prompt: Prompt
    limit: int
    """Most tokens it may answer with."""
    natural: int
    """Where the answer ends by itself."""
    arrived: float
    speech: Speech | None = None
    """What it will say; nothing for a probe."""
    path: list[Node] = field(default_factory=list)
    """The locked prefix."""
    cached: int = 0
    """Prompt tokens that came from the cache."""
    computed: int = 0
    """Prompt tokens done, cached ones included."""
    own: int = 0
    """Slots it holds beside the locked prefix."""
    redo: int = 0
    """Output tokens thrown back by a retraction: prefilled again behind the prompt."""
    output: int = 0
    credit: float = 0.0
    """Fraction of a token gained and not handed out yet."""
    finish: str = ""
    """`stop`, `length` or `abort` once it is over."""
    verifies: int = 0
    """Decode iterations it took part in."""

    @property
    def length(self) -> int:
        """Tokens of context now."""
        return self.computed + self.output - self.redo

    @property
    def to_compute(self) -> int:
        """Tokens a prefill has to work through in all."""
        return self.prompt.tokens + self.redo

    @property
    def wanted(self) -> int:
        """Output it is still reserved for."""
        return int(NEW_TOKEN_RATIO * min(self.limit - self.output, CLIP_OUTPUT))


@dataclass(frozen=True, slots=True)
class Part:
    """One request's share of a prefill batch."""

    request: Request
    start: int
    count: int
    last: bool
    first: bool


@dataclass(frozen=True, slots=True)
class Prefill:
    parts: tuple[Part, ...]

    @property
    def tokens(self) -> int:
        return sum(part.count for part in self.parts)

    @property
    def cached(self) -> int:
        """Radix hits, counted on a request's first chunk only."""
        return sum(part.request.cached for part in self.parts if part.first)


@dataclass(frozen=True, slots=True)
class Decode:
    requests: tuple[Request, ...]

    @property
    def context(self) -> int:
        return sum(request.length for request in self.requests)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    running: int
    """Most requests at once, after every cap."""
    chunk: int
    prefill_requests: int
    """Most requests in one prefill batch; 0 is no limit."""
    decode_interval: int
    """Decode rounds after each prefill batch."""
    mamba_total: int = 0
    mamba_each: int = 0
    """State slots a running request holds; 0 on a model without recurrent state."""


class Batcher:
    """Who runs next. Told what was done, it never sleeps or looks at a clock."""

    def __init__(self, limits: BatchLimits, pool: KvPool) -> None:
        self.limits = limits
        self.pool = pool
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.chunked: Request | None = None
        self.retracted = 0
        self._mamba_kept = 0
        self._rounds_owed = 0

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running and self.chunked is None

    @property
    def mamba_used(self) -> int:
        held = len(self.running) + (self.chunked is not None)
        return held * self.limits.mamba_each

    @property
    def mamba_cached(self) -> int:
        """States kept for a next turn; running requests take them when they need the room."""
        return min(self._mamba_kept, self.limits.mamba_total - self.mamba_used)

    @property
    def waiting_tokens(self) -> int:
        """Uncached prompt tokens still to compute: the rest of the chunked one and the queue's."""
        rest = self.chunked.to_compute - self.chunked.computed if self.chunked else 0
        queue = (
            r.to_compute - sum(n.piece.tokens for n in self.pool.match(r.prompt.pieces))
            for r in self.waiting
        )
        return rest + sum(queue)

    def add(self, request: Request) -> None:
        self.waiting.append(request)

    def next(self) -> Prefill | Decode | None:
        """The next batch: a prefill whenever one can be built, else a decode, else nothing."""
        if self._rounds_owed and self.running:
            self._rounds_owed -= 1
            return self._decode()
        parts = self._prefill_parts()
        if parts:
            self._rounds_owed = self.limits.decode_interval
            return Prefill(parts)
        return self._decode() if self.running else None

    def _decode(self) -> Decode:
        return Decode(tuple(self.running))

    def _prefill_parts(self) -> tuple[Part, ...]:
        parts: list[Part] = []
        budget = self.limits.chunk if self.limits.chunk > 0 else 1 << 40
        if self.chunked is not None:
            part = self._part(self.chunked, budget, first=False)
            if part is None:
                return ()
            parts.append(part)
            budget -= part.count
        most = self.limits.prefill_requests or 1 << 30
        while self.waiting and budget > 0 and len(parts) < most:
            if len(self.running) + len(parts) >= self.limits.running:
                break
            request = self.waiting[0]
            if not self._admit(request):
                break
            part = self._part(request, budget, first=True)
            if part is None:
                self._release(request)
                break
            self.waiting.popleft()
            parts.append(part)
            budget -= part.count
        return tuple(parts)

    def _admit(self, request: Request) -> bool:
        """Lock its prefix if prompt and likely output fit beside what runs."""
        path = self.pool.match(request.prompt.pieces)
        self.pool.lock(path)
        hit = sum(node.piece.tokens for node in path)
        promised = sum(other.wanted for other in self.running)
        if self.chunked is not None:
            promised += self.chunked.to_compute - self.chunked.computed + self.chunked.wanted
        need = request.to_compute - hit + request.wanted
        alone = not self.running and self.chunked is None
        if need + promised > self.pool.free + self.pool.cached and not alone:
            self.pool.unlock(path)
            return False
        request.path = path
        request.cached = hit
        request.computed = hit
        return True

    def _part(self, request: Request, budget: int, *, first: bool) -> Part | None:
        count = min(budget, request.to_compute - request.computed)
        if not self.pool.take(count):
            return None
        request.own += count
        last = request.computed + count >= request.to_compute
        return Part(request, request.computed, count, last, first)

    def prefilled(self, batch: Prefill) -> list[Request]:
        """A prefill batch is done: those whose prompt is complete give their first token."""
        begun: list[Request] = []
        self.chunked = None
        for part in batch.parts:
            request = part.request
            request.computed += part.count
            if request.finish:
                self.running.append(request)  # `over` takes it out and tells it
            elif not part.last:
                self.chunked = request
            else:
                request.output += 1
                self.running.append(request)
                begun.append(request)
        return begun

    def decoded(self, batch: Decode, tokens: float) -> list[tuple[Request, int]]:
        """One iteration is done: what each answer gained. The pool may throw answers back."""
        gains: list[tuple[Request, int]] = []
        for request in batch.requests:
            if request not in self.running or request.finish:
                continue
            request.credit += tokens
            gain = min(int(request.credit + 1e-9), self._left(request))
            request.credit -= int(request.credit + 1e-9)
            if not self._make_room(request, gain):
                request.finish = "length"
                continue
            request.own += gain
            request.output += gain
            request.verifies += 1
            gains.append((request, gain))
        return gains

    @staticmethod
    def _left(request: Request) -> int:
        return max(0, min(request.limit, request.natural) - request.output)

    def _make_room(self, request: Request, gain: int) -> bool:
        """Pin slots for new tokens, other answers thrown back where there are too few."""
        while not self.pool.take(gain):
            if not self._retract(request):
                return False
        return True

    def _retract(self, starved: Request) -> bool:
        """The newest other answer gives its slots up and starts again later."""
        others = [request for request in self.running if request is not starved]
        if not others:
            return False
        victim = others[-1]
        self.running.remove(victim)
        self._release(victim)
        victim.redo, victim.computed = victim.output, 0
        self.waiting.appendleft(victim)
        self.retracted += 1
        return True

    def over(self) -> list[Request]:
        """Take out what has ended: answers at their limit and aborted requests."""
        ended: list[Request] = []
        for request in list(self.running):
            if not request.finish and self._left(request) == 0:
                request.finish = "length" if request.output >= request.limit else "stop"
            if request.finish:
                self.running.remove(request)
                ended.append(request)
        for request in list(self.waiting):
            if request.finish:
                self.waiting.remove(request)
                ended.append(request)
        if self.chunked is not None and self.chunked.finish:
            ended.append(self.chunked)
            self.chunked = None
        for request in ended:
            self._release(request)
        return ended

    def _release(self, request: Request) -> None:
        """Return every slot it holds, its prefix evictable."""
        self.pool.unlock(request.path)
        self.pool.give(request.own)
        request.path = []
        request.own = 0

    def remember(self, request: Request, answer: list[Piece]) -> None:
        """Cache an ended request's prompt and answer for the session's next turn."""
        pieces = request.prompt.pieces[:-1] if request.prompt.chat else request.prompt.pieces
        self.pool.keep([*pieces, *answer])
        if self.limits.mamba_each:
            spare = self.limits.mamba_total - self.mamba_used
            self._mamba_kept = min(self._mamba_kept + 1, max(0, spare))
