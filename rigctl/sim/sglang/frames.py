"""What a dialect has to say of an answer; and the two that are OpenAI's, and SGLang's own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rigctl.sim.sglang import replies
from rigctl.sim.sglang.engine import Answer
from rigctl.sim.sglang.generation import CHAT, COMPLETIONS, Said, Wish
from rigctl.sim.sglang.refusals import RefusedError

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Run:
    """A wish and its requests in the engine, one a choice."""

    wish: Wish
    answers: tuple[Answer, ...]
    cache_report: bool
    speed: float

    def usage(self) -> replies.Json:
        """Token counts so far; an answer aborted before its first token counts nothing."""
        requests = [answer.request for answer in self.answers]
        prompt = self.wish.prompt.tokens if any(request.output for request in requests) else 0
        cached = max(request.cached for request in requests) if prompt else 0
        output = sum(request.output for request in requests)
        return replies.usage(
            prompt, output, cached if self.cache_report else None, self.thought(requests)
        )

    def thought(self, requests: Sequence[Any] | None = None) -> int:
        """Tokens thought so far."""
        own = requests or [answer.request for answer in self.answers]
        return sum(min(r.speech.thoughts if r.speech else 0, r.output) for r in own)

    def matched(self, said: Said) -> str | int | None:
        """What ended a choice that stopped."""
        return self.wish.choices[said.choice].matched if said.finish in _STOPS else None


_STOPS = ("stop", "tool_calls")


class Dialect(Protocol):
    """An answer's frames in their order, or the answer whole."""

    early: bool
    """Whether the status goes out before the engine has looked at the request."""

    def open(self) -> bytes: ...
    def said(self, piece: Said) -> bytes: ...
    def finished(self, piece: Said) -> bytes: ...
    def last(self) -> bytes: ...
    def done(self) -> bytes: ...
    def failure(self, wrong: RefusedError) -> bytes: ...
    def whole(self, pieces: Sequence[Said]) -> replies.Json: ...


def data(row: object) -> bytes:
    return b"data: " + replies.dump(row) + b"\n\n"


def together(pieces: Sequence[Said], choice: int) -> tuple[str, str, list[replies.Json], Said]:
    """One choice's text, thought and tool calls, and its last piece."""
    own = [piece for piece in pieces if piece.choice == choice]
    calls: list[replies.Json] = []
    for part in (part for piece in own for part in piece.calls):
        if part.name:
            function = {"name": part.name, "arguments": part.arguments}
            head = {"id": call_id(own[0], part.index), "index": part.index, "type": "function"}
            calls.append({**head, "function": function})
        else:
            calls[-1]["function"]["arguments"] += part.arguments
    text = "".join(piece.text for piece in own)
    return text, "".join(piece.thought for piece in own), calls, own[-1]


def call_id(said: Said, index: int) -> str:
    return f"call_{said.choice:08x}{index:016x}"


class OpenAi:
    """`/v1/chat/completions` and `/v1/completions`."""

    early = False

    def __init__(self, run: Run) -> None:
        self._run = run
        self._wish = run.wish
        self._chat = run.wish.path == CHAT
        self._begun: set[int] = set()
        self._ended: list[Said] = []
        self._spoke = 0
        """The choice that said something last."""

    def open(self) -> bytes:
        return b""

    def _frame(self, choices: list[replies.Json], rid: str, **more: object) -> bytes:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        body = {"id": rid, "object": kind, "created": int(time.time()), "model": self._wish.model}
        return data({**body, "choices": choices, **more})

    def _choice(self, piece: Said, row: replies.Json, usage: bool, **more: object) -> bytes:
        tail = {"logprobs": None, "finish_reason": None, "matched_stop": None, **more}
        told: replies.Json = {}
        if usage and self._wish.usage_each:
            told = {"usage": self._run.usage()}
        elif not self._chat or row["delta"].get("role", "") is None:
            told = {"usage": None}
        rid = self._run.answers[self._spoke if piece.finish else piece.choice].request.rid
        return self._frame([{"index": piece.choice, **row, **tail}], rid, **told)

    def _role(self, piece: Said) -> bytes:
        if not self._chat or piece.choice in self._begun:
            return b""
        self._begun.add(piece.choice)
        piece = replace(piece, finish="")
        delta = {"reasoning_content": None, "role": "assistant", "content": ""}
        return self._choice(piece, {"delta": delta}, False)

    def said(self, piece: Said) -> bytes:
        out = self._role(piece)
        piece = replace(piece, finish="")
        if piece.tokens or piece.calls:
            self._spoke = piece.choice
        if not self._chat:
            return out + (self._choice(piece, {"text": piece.text}, True) if piece.text else b"")
        base: replies.Json = {"reasoning_content": None}
        if piece.thought:
            delta = {**base, "reasoning_content": piece.thought}
            out += self._choice(piece, {"delta": delta}, True, logprobs=self._logprobs(piece))
        if piece.text:
            delta = {**base, "content": piece.text}
            delta = {"role": None, **delta} if self._wish.tools else delta
            out += self._choice(piece, {"delta": delta}, True, logprobs=self._logprobs(piece))
        for part in piece.calls:
            function = {"name": part.name or None, "arguments": "" if part.name else part.arguments}
            head: replies.Json = {"id": None, "index": part.index}
            head |= {"id": call_id(piece, part.index)} if part.name else {}
            call = {**head, "type": "function", "function": function}
            delta = {"role": None, "content": None, **base, "tool_calls": [call]}
            out += self._choice(piece, {"delta": delta}, True)
            if part.name and part.arguments:
                rest: replies.Json = {"id": None, "index": part.index, "type": "function"}
                rest = {**rest, "function": {"name": None, "arguments": part.arguments}}
                delta = {"role": None, "content": None, **base, "tool_calls": [rest]}
                out += self._choice(piece, {"delta": delta}, True)
        return out

    def _logprobs(self, piece: Said) -> replies.Json | None:
        top = self._wish.logprobs
        if top is None:
            return None
        rows = []
        for text in piece.tokens:
            row = {"token": text, "bytes": list(text.encode()), "logprob": -0.25}
            rows.append({**row, "top_logprobs": [row] * top})
        return {"content": rows}

    def finished(self, piece: Said) -> bytes:
        """Every choice's finish at once, when all are done: under the last speaker's id."""
        out = self._role(piece)
        self._ended.append(piece)
        if len(self._ended) < len(self._wish.choices):
            return out
        row = {"delta": {"reasoning_content": None}} if self._chat else {"text": ""}
        for ended in self._ended:
            more = {"finish_reason": ended.finish, "matched_stop": self._run.matched(ended)}
            out += self._choice(ended, row, False, **more)
        return out

    def last(self) -> bytes:
        if not self._wish.usage_asked:
            return b""
        usage = self._run.usage()
        if not self._chat:
            del usage["completion_tokens_details"]
        return self._frame([], self._run.answers[self._spoke].request.rid, usage=usage)

    def done(self) -> bytes:
        return DONE

    def failure(self, wrong: RefusedError) -> bytes:
        row = {"object": "error", "message": str(wrong), "type": wrong.kind, "param": None}
        return data({"error": {**row, "code": wrong.status}})

    def whole(self, pieces: Sequence[Said]) -> replies.Json:
        choices = [self._whole(pieces, at) for at in range(len(self._wish.choices))]
        several = len(choices) > 1
        request = self._run.answers[0].request
        return {
            "id": self._wish.rid if not several else request.rid,
            "object": "chat.completion" if self._chat else "text_completion",
            "created": int(time.time()),
            "model": self._wish.model,
            "choices": choices,
            "usage": self._run.usage(),
            "metadata": replies.metadata(request.output),
        }

    def _whole(self, pieces: Sequence[Said], at: int) -> replies.Json:
        text, thought, calls, last = together(pieces, at)
        row: replies.Json = {"index": at}
        if self._chat:
            message: replies.Json = {"role": "assistant", "content": text}
            message["reasoning_content"] = thought or None
            if calls:
                message["tool_calls"] = calls
            row["message"] = message
        else:
            row["text"] = text
        every = Said(at, "", "", (), 0, "", tuple(t for p in pieces for t in p.tokens))
        row["logprobs"] = self._logprobs(every) if self._chat else None
        matched = self._run.matched(last) if last.finish == "stop" else None
        return {**row, "finish_reason": last.finish, "matched_stop": matched}


class Native:
    """`/generate`."""

    early = False

    def __init__(self, run: Run) -> None:
        self._run = run
        self._text = ""

    def open(self) -> bytes:
        return b""

    def _row(self, finish: str) -> replies.Json:
        request = self._run.answers[0].request
        found: replies.Json | None = None
        if finish:
            found = {"type": finish, "length": request.output}
        meta = {
            "id": self._run.wish.rid,
            "finish_reason": found,
            "prompt_tokens": self._run.wish.prompt.tokens,
            "completion_tokens": request.output,
            "cached_tokens": request.cached,
            "cached_tokens_details": None,
            "reasoning_tokens": self._run.thought(),
            "num_retractions": 0,
            "dp_rank": None,
            "e2e_latency": (time.monotonic() - request.arrived) * self._run.speed,
            **replies.metadata(request.output),
        }
        ids = list(range(request.output))
        return {"text": self._text, "output_ids": ids, "meta_info": meta}

    def said(self, piece: Said) -> bytes:
        self._text += piece.thought + piece.text
        return b"" if piece.finish else data(self._row(""))

    def finished(self, piece: Said) -> bytes:
        return data(self._row(piece.finish))

    def last(self) -> bytes:
        return b""

    def done(self) -> bytes:
        return DONE

    def failure(self, wrong: RefusedError) -> bytes:
        return data({"error": {"message": str(wrong)}})

    def whole(self, pieces: Sequence[Said]) -> replies.Json:
        self._text = "".join(piece.thought + piece.text for piece in pieces)
        return self._row(pieces[-1].finish)


PLAIN = (CHAT, COMPLETIONS)
"""Paths that `OpenAi` speaks for."""
