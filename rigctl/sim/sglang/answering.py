"""How an answer goes out: whole, or as a stream whose status line waits for the first token."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from rigctl.adapters.http1 import ClientGoneError, Exchange
from rigctl.sim.sglang import replies
from rigctl.sim.sglang.board import Board
from rigctl.sim.sglang.engine import Answer, Engine
from rigctl.sim.sglang.generation import Said, Wish, say, submit, watch_client
from rigctl.sim.sglang.settings import Settings

LOOK_SECONDS = 4.0
"""How often SGLang looks whether a client still waits for its first token."""
JSON = (b"content-type", b"application/json")
STREAM = (b"content-type", b"text/event-stream; charset=utf-8")

_KINDS = {
    "/v1/chat/completions": ("chat.completion.chunk", "chat.completion"),
    "/v1/completions": ("text_completion", "text_completion"),
}


class Answering:
    """Carries wishes to the engine and what it says back to the client."""

    def __init__(
        self, engine: Engine, board: Board, settings: Settings, cache_report: bool, thinking: bool
    ) -> None:
        self._engine = engine
        self._board = board
        self._settings = settings
        self._cache_report = cache_report
        self._thinking = thinking

    async def serve(self, exchange: Exchange, wish: Wish) -> None:
        """Run one wish to its end. ClientGoneError when nobody waits for it any more."""
        started = time.monotonic()
        answer = submit(self._engine, wish)
        look = self._settings.real(LOOK_SECONDS)
        watch = asyncio.get_running_loop().create_task(
            watch_client(exchange.gone, self._engine, answer, look)
        )
        try:
            if wish.stream:
                await self._stream(exchange, wish, answer)
            else:
                await self._whole(exchange, wish, answer)
        except ClientGoneError:
            self._engine.drop(answer.request)
            raise
        finally:
            watch.cancel()
            self._book(wish, answer, started)

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

    def _usage(self, wish: Wish, answer: Answer) -> replies.Json:
        request = answer.request
        cached = request.cached if self._cache_report else None
        thought = min(request.thoughts, request.output)
        return replies.usage(wish.prompt.tokens, request.output, cached, thought)

    async def _whole(self, exchange: Exchange, wish: Wish, answer: Answer) -> None:
        parts = [part async for part in say(answer)]
        text = "".join(part.text for part in parts).rstrip(" ")
        thought = "".join(part.thought for part in parts).rstrip(" ") or None
        finish = parts[-1].finish
        request = answer.request
        body: dict[str, Any]
        if wish.path == "/generate":
            body = {
                "text": text,
                "output_ids": list(range(request.output)),
                "meta_info": self._meta(wish, answer, finish),
            }
            await exchange.respond(200, replies.dump(body), [JSON])
            return
        choice: dict[str, Any] = {"index": 0}
        if wish.path == "/v1/completions":
            choice["text"] = text
        else:
            message = {"role": "assistant", "content": text or None, "reasoning_content": thought}
            choice["message"] = message
        choice |= {"logprobs": None, "finish_reason": finish, "matched_stop": None}
        body = {
            "id": wish.rid,
            "object": _KINDS[wish.path][1],
            "created": int(time.time()),
            "model": wish.model,
            "choices": [choice],
            "usage": self._usage(wish, answer),
            "metadata": replies.metadata(request.output),
        }
        await exchange.respond(200, replies.dump(body), [JSON])

    def _meta(self, wish: Wish, answer: Answer, finish: str) -> dict[str, Any]:
        request = answer.request
        return {
            "id": wish.rid,
            "finish_reason": {"type": finish, "length": request.output} if finish else None,
            "prompt_tokens": wish.prompt.tokens,
            "completion_tokens": request.output,
            "cached_tokens": request.cached,
            "cached_tokens_details": None,
            "reasoning_tokens": min(request.thoughts, request.output),
            "num_retractions": 0,
            "dp_rank": None,
            "e2e_latency": (time.monotonic() - request.arrived) * self._settings.speed,
            **replies.metadata(request.output),
        }

    async def _stream(self, exchange: Exchange, wish: Wish, answer: Answer) -> None:
        pieces = say(answer)
        first = await anext(pieces)
        await exchange.start(200, [STREAM])
        if wish.path == "/v1/chat/completions":
            delta = {"reasoning_content": None, "role": "assistant", "content": ""}
            await exchange.write(self._frame(wish, [_choice({"delta": delta}, None)]))
        whole: list[str] = []
        piece = first
        while True:
            await self._piece(exchange, wish, answer, piece, whole)
            if piece.finish:
                break
            piece = await anext(pieces)
        if wish.usage_asked and wish.path != "/generate":
            await exchange.write(self._frame(wish, [], usage=self._usage(wish, answer)))
        await exchange.write(b"data: [DONE]\n\n")
        await exchange.finish()

    async def _piece(
        self, exchange: Exchange, wish: Wish, answer: Answer, piece: Said, whole: list[str]
    ) -> None:
        whole.append(piece.thought + piece.text)
        if wish.path == "/generate":
            body = {"text": "".join(whole), "meta_info": self._meta(wish, answer, piece.finish)}
            await exchange.write(b"data: " + replies.dump(body) + b"\n\n")
            return
        chat = wish.path == "/v1/chat/completions"
        for key, text in (("reasoning_content", piece.thought), ("content", piece.text)):
            if not text:
                continue
            delta = {"reasoning_content": None, key: text}
            row: dict[str, Any] = {"delta": delta} if chat else {"text": text}
            await exchange.write(self._frame(wish, [_choice(row, None)]))
        if piece.finish:
            row = {"delta": {"reasoning_content": None}} if chat else {"text": ""}
            await exchange.write(self._frame(wish, [_choice(row, piece.finish)]))

    @staticmethod
    def _frame(wish: Wish, choices: list[replies.Json], **more: object) -> bytes:
        return replies.chunk(wish.rid, wish.model, _KINDS[wish.path][0], choices, **more)


def _choice(row: dict[str, Any], finish: str | None) -> replies.Json:
    tail = {"logprobs": None, "finish_reason": finish, "matched_stop": None}
    return {"index": 0, **row, **tail}
