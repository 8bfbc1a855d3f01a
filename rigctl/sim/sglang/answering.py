"""How an answer goes out: whole, or as a stream; and what goes wrong with it on demand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from rigctl.adapters.http1 import ClientGoneError, Exchange
from rigctl.sim.sglang import replies
from rigctl.sim.sglang.board import Board
from rigctl.sim.sglang.engine import Answer, Engine
from rigctl.sim.sglang.frames import PLAIN, Dialect, Native, OpenAi, Run
from rigctl.sim.sglang.frames_messages import Messages
from rigctl.sim.sglang.frames_responses import Responses
from rigctl.sim.sglang.generation import Said, Wish, say, submit, watch_client
from rigctl.sim.sglang.refusals import MESSAGES, RESPONSES, RefusedError, body_of
from rigctl.sim.sglang.settings import Settings

LOOK_SECONDS = 4.0
"""How often SGLang looks whether a client still waits for its first token or its only answer."""
JSON = (b"content-type", b"application/json")
STREAM = (b"content-type", b"text/event-stream; charset=utf-8")
SPLIT_SECONDS = 0.002
"""Between the two writes of a frame that is split."""


def dialect(run: Run) -> Dialect:
    """Who speaks for this path."""
    if run.wish.path in PLAIN:
        return OpenAi(run)
    if run.wish.path == MESSAGES:
        return Messages(run)
    return Responses(run) if run.wish.path == RESPONSES else Native(run)


class Answering:
    """Carries wishes to the engine and what it says back to the client."""

    def __init__(
        self,
        engine: Engine,
        board: Board,
        settings: Settings,
        cache_report: bool,
        crash: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._board = board
        self._settings = settings
        self._cache_report = cache_report
        self._crash = crash

    async def serve(self, exchange: Exchange, wish: Wish) -> replies.Json | None:
        """Run one wish to its end; a whole answer's body. RefusedError, ClientGoneError."""
        if wish.fault.kind == "refuse":
            raise RefusedError("refused on demand", wish.fault.after or 500, "InternalServerError")
        if wish.late is not None:
            await self._too_late(exchange, wish, wish.late)
            return None
        started = time.monotonic()
        answers = submit(self._engine, wish)
        run = Run(wish, tuple(answers), self._cache_report, self._settings.speed)
        speaks = dialect(run)

        def look() -> float:
            waits = not wish.stream or not (speaks.early or answers[0].began)
            return self._settings.real(LOOK_SECONDS) if waits else 0.0

        watch = asyncio.get_running_loop().create_task(
            watch_client(exchange.gone, self._engine, answers, look)
        )
        body: replies.Json | None = None
        try:
            if wish.stream:
                await self._stream(exchange, wish, speaks, say(answers))
            else:
                body = speaks.whole([part async for part in say(answers)])
                await exchange.respond(200, replies.dump(body), [JSON])
        except ClientGoneError:
            for answer in answers:
                self._engine.drop(answer.request)
            raise
        finally:
            watch.cancel()
            for answer in answers:
                self._book(wish, answer, started)
        return body

    def _book(self, wish: Wish, answer: Answer, started: float) -> None:
        """What moves only at a request's end."""
        board, request = self._board, answer.request
        kind = "true" if wish.stream else "false"
        speed = self._settings.speed
        if request.finish == "abort":
            board.add("num_aborted_requests_total")
            return
        board.add("prompt_tokens_total", wish.prompt.tokens, is_streaming=kind)
        board.add("generation_tokens_total", request.output, is_streaming=kind)
        board.add("num_requests_total", is_streaming=kind)
        if request.cached:
            board.add("cached_tokens_total", request.cached, cache_source="device")
        if request.verifies and request.output > request.verifies + 1:
            board.add("spec_verify_calls_total", request.verifies)
        now = time.monotonic()
        took = (now - started) * speed
        first = (answer.began - started) * speed if answer.began else took
        board.observe("time_to_first_token_seconds", first, is_streaming=kind)
        board.observe("e2e_request_latency_seconds", took, is_streaming=kind)
        if request.output > 1:
            each = (took - first) / (request.output - 1)
            board.observe("request_time_per_output_token_seconds", each, is_streaming=kind)
        board.observe("prompt_tokens_histogram", wish.prompt.tokens)
        board.observe("uncached_prompt_tokens_histogram", wish.prompt.tokens - request.cached)
        board.observe("generation_tokens_histogram", request.output)

    @staticmethod
    async def _begin(exchange: Exchange, wish: Wish) -> None:
        more = [(b"cache-control", b"no-cache")] if wish.path == RESPONSES else []
        await exchange.start(200, [*more, STREAM])

    async def _too_late(self, exchange: Exchange, wish: Wish, wrong: RefusedError) -> None:
        """The refusal of an endpoint that has said 200 already."""
        speaks = dialect(Run(wish, (), self._cache_report, self._settings.speed))
        await self._begin(exchange, wish)
        end = speaks.done() if wish.path == MESSAGES else b""
        await exchange.write(speaks.open() + speaks.failure(wrong) + end)
        await exchange.finish()

    async def _stream(
        self, exchange: Exchange, wish: Wish, speaks: Dialect, pieces: AsyncIterator[Said]
    ) -> None:
        fault = wish.fault
        if speaks.early:
            await self._begin(exchange, wish)
            if opening := speaks.open():
                await exchange.write(opening)
        first = await anext(pieces)
        if not speaks.early:
            await self._begin(exchange, wish)
        left = len(wish.choices)
        piece, silent = first, False
        while True:
            if fault.kind == "silence" and not silent and piece.output > fault.after:
                silent = True
                await asyncio.sleep(fault.seconds)
            if await self._goes_wrong(exchange, wish, speaks, piece):
                return
            frames = speaks.said(piece)
            if piece.finish:
                left -= 1
                if fault.kind == "no-finish" and not left:
                    await self._write(exchange, frames, wish)
                    await exchange.finish()
                    return
                frames += speaks.finished(piece)
            await self._write(exchange, frames, wish)
            if not left:
                break
            piece = await anext(pieces)
        await exchange.write(speaks.last() + (b"" if fault.kind == "no-done" else speaks.done()))
        await exchange.finish()

    async def _goes_wrong(
        self, exchange: Exchange, wish: Wish, speaks: Dialect, piece: Said
    ) -> bool:
        """Whether the stream ended here because of its fault."""
        fault = wish.fault
        if fault.kind not in ("die", "cut", "error") or piece.output < fault.after:
            return False
        if fault.kind == "die":
            self._crash()
            await exchange.gone.wait()
            return True
        for answer in [self._engine.answers.get(wish.rid)]:
            if answer is not None:
                self._engine.drop(answer.request)
        if fault.kind == "cut":
            exchange.abort()
            return True
        say = "Scheduler hit an exception on demand"
        wrong = RefusedError(say, 500, "InternalServerError")
        end = b"" if wish.path == RESPONSES else speaks.done()
        await exchange.write(speaks.failure(wrong) + end)
        await exchange.finish()
        return True

    @staticmethod
    async def _write(exchange: Exchange, frames: bytes, wish: Wish) -> None:
        if not frames:
            return
        cut = next((at for at, byte in enumerate(frames) if byte & 0xC0 == 0x80), 0)
        if wish.fault.kind == "split" and cut:
            await exchange.write(frames[:cut])
            await asyncio.sleep(SPLIT_SECONDS)
            frames = frames[cut:]
        await exchange.write(frames)


def refusal(path: str, wrong: RefusedError) -> bytes:
    """The body of a refusal at this path."""
    return replies.dump(body_of(path, wrong))
