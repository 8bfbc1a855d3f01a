"""The running engine: batches take their time, answers get their tokens, figures move."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rigctl.sim.sglang.batching import Batcher, Decode, Prefill, Request
from rigctl.sim.sglang.board import Board
from rigctl.sim.sglang.figures import Figures
from rigctl.sim.sglang.logs import Log
from rigctl.sim.sglang.prompts import Piece, chat_pieces
from rigctl.sim.sglang.settings import Settings
from rigctl.sim.world import Duty, EngineSpeed

SHORTEST_SLEEP = 0.015
"""Real seconds: at high speed several decode iterations share one wake-up."""


@dataclass(frozen=True, slots=True)
class Delta:
    """News for one answer: how many tokens it has in all, and how it ended once it did."""

    output: int
    finish: str
    """`stop`, `length`, `abort`, or empty while it goes on."""


class Answer:
    """One request's side towards its HTTP handler."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.news: asyncio.Queue[Delta] = asyncio.Queue()
        self.began = 0.0
        """Monotonic time of the first token, 0 before."""
        self.last = 0.0


class Engine:
    """Runs batches until told to stop. `step` is asked before each: it is the scheduler process."""

    def __init__(
        self,
        batcher: Batcher,
        speed: EngineSpeed,
        settings: Settings,
        board: Board,
        log: Log,
        step: Callable[[], Awaitable[None]],
        duty: Callable[[Duty], None],
        sleeps: bool,
        graph_word: str,
        speculates: bool,
    ) -> None:
        self.batcher = batcher
        self.board = board
        self.answers: dict[str, Answer] = {}
        self.last_result = 0.0
        """Monotonic time of the last batch result: what `/health` waits for."""
        self.paused = False
        self.figures = Figures(batcher, board, log, settings, graph_word, speculates)
        self._speed = speed
        self._settings = settings
        self._log = log
        self._step = step
        self._duty = duty
        self._idle_duty = Duty.SLEEPING if sleeps else Duty.POLLING
        self._work = asyncio.Event()
        self._due = 0.0
        self._result = asyncio.Event()

    def submit(self, request: Request) -> Answer:
        """Take a request in; its news come on the answer's queue."""
        answer = Answer(request)
        self.answers[request.rid] = answer
        self.batcher.add(request)
        self.figures.arrived()
        self._work.set()
        return answer

    def abort(self, rid: str, *, everything: bool = False) -> None:
        """Abort between batches. An id that is not known does nothing; a known one takes along
        every id that begins with it, as in SGLang."""
        for key, answer in self.answers.items():
            if everything or (rid in self.answers and key.startswith(rid)):
                self.drop(answer.request)

    def drop(self, request: Request) -> None:
        """Abort exactly this one."""
        request.finish = request.finish or "abort"
        self._work.set()

    def pause(self, on: bool) -> None:
        """Stop building batches, or go on."""
        self.paused = on
        self._work.set()

    async def between_batches(self) -> None:
        """Wait as control calls do: the scheduler answers them between two batches."""
        if not self.batcher.idle and not self.paused:
            await self._result.wait()

    async def run(self) -> None:
        """The scheduler's loop."""
        loop = asyncio.get_running_loop()
        self._duty(self._idle_duty)
        while True:
            self._end(self.batcher.over())
            batch = None if self.paused else self.batcher.next()
            if batch is None:
                await self._rest()
                continue
            await self._step()
            self._due = max(self._due, loop.time())
            if isinstance(batch, Prefill):
                await self._prefill(batch)
            else:
                await self._decode(batch)

    async def _rest(self) -> None:
        self._duty(self._idle_duty)
        self.figures.idle()
        self._work.clear()
        try:
            await asyncio.wait_for(self._work.wait(), 1.0)
        except TimeoutError:
            await self._step()

    async def _take(self, seconds: float) -> None:
        """Let simulated seconds pass, without drift."""
        self._due += self._settings.real(seconds)
        loop = asyncio.get_running_loop()
        wait = self._due - loop.time()
        if wait < -1.0:
            self._due = loop.time()
        await asyncio.sleep(max(0.0, wait))

    async def _prefill(self, batch: Prefill) -> None:
        self._duty(Duty.PREFILLING)
        seconds = sum(self._speed.prefill_seconds(part.start, part.count) for part in batch.parts)
        self.figures.prefilling(batch)
        await self._take(seconds)
        self._came()
        begun = self.batcher.prefilled(batch)
        self.figures.prefilled(batch, seconds)
        for request in begun:
            self._tell(request, first=True)
        self._end(self.batcher.over())

    async def _decode(self, batch: Decode) -> None:
        self._duty(Duty.DECODING)
        seconds = self._speed.decode_seconds(len(batch.requests), batch.context)
        most = max(1, int(SHORTEST_SLEEP / max(self._settings.real(seconds), 1e-6)))
        left = min(min(r.limit, r.natural) - r.output for r in batch.requests)
        rounds = max(1, min(most, int(left / self._speed.accept)))
        await self._take(seconds * rounds)
        self._came()
        for _ in range(rounds):
            gains = self.batcher.decoded(batch, self._speed.accept)
            self.figures.decoded(batch, sum(gain for _, gain in gains), seconds)
        for request, _ in gains:
            self._tell(request, first=False)
        self._end(self.batcher.over())

    def _came(self) -> None:
        """A batch result: whoever waited for one goes on."""
        self.last_result = time.monotonic()
        self._result.set()
        self._result = asyncio.Event()

    def _tell(self, request: Request, *, first: bool) -> None:
        answer = self.answers.get(request.rid)
        if answer is None:
            return
        now = time.monotonic()
        if answer.began:
            self.figures.token_gap(now - answer.last)
        else:
            answer.began = now
        answer.last = now
        if not first or request.output < min(request.limit, request.natural):
            answer.news.put_nowait(Delta(request.output, ""))

    def _end(self, ended: list[Request]) -> None:
        for request in ended:
            answer = self.answers.pop(request.rid, None)
            if answer is None:
                continue
            if request.finish != "abort":
                self.batcher.remember(request, spoken(request))
            answer.news.put_nowait(Delta(request.output, request.finish))
        if ended:
            self.figures.changed()


def spoken(request: Request) -> list[Piece]:
    """An ended chat answer as the next turn's prompt will carry it: without its thought."""
    speech = request.speech
    if not request.prompt.chat or speech is None:
        return []
    tokens = (speech.token(number) for number in range(speech.thoughts, request.output))
    return chat_pieces("assistant", "".join(token.text for token in tokens if token.shown))
