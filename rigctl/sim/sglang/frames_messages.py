"""`/v1/messages`: Anthropic's events, as SGLang writes them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

from rigctl.sim.sglang import replies
from rigctl.sim.sglang.frames import Run, call_id, together
from rigctl.sim.sglang.generation import Said
from rigctl.sim.sglang.refusals import RefusedError

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def _event(row: replies.Json) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (row["type"].encode(), replies.dump(row))


class Messages:
    """Its status goes out at once: a refusal for length comes as an event."""

    early = True

    def __init__(self, run: Run) -> None:
        self._run = run
        self._id = f"msg_{uuid.uuid4().hex}"
        self._started = False
        self._block = -1
        self._kind = ""

    def open(self) -> bytes:
        return b""

    def _start(self, empty: bool = False) -> bytes:
        if self._started:
            return b""
        self._started = True
        row = {"id": self._id, "type": "message", "role": "assistant", "content": []}
        told = {"input_tokens": 0, "output_tokens": 0} if empty else {**self._usage(0)}
        body = {**row, "model": self._run.wish.model, "usage": told}
        return _event({"type": "message_start", "message": body})

    def _usage(self, output: int | None = None) -> replies.Json:
        found = self._run.usage()
        details = found["prompt_tokens_details"] or {}
        cached = details.get("cached_tokens", 0)
        out = found["completion_tokens"] if output is None else output
        row = {"input_tokens": found["prompt_tokens"] - cached, "output_tokens": out}
        return {**row, "cache_read_input_tokens": cached} if cached else row

    def _close(self) -> bytes:
        if not self._kind:
            return b""
        self._kind = ""
        return _event({"type": "content_block_stop", "index": self._block})

    def _in(self, kind: str, block: replies.Json, anew: bool = False) -> bytes:
        if self._kind == kind and not anew:
            return b""
        out = self._close()
        self._kind = kind
        self._block += 1
        row = {"type": "content_block_start", "index": self._block}
        return out + _event({**row, "content_block": {"type": kind, **block}})

    def _delta(self, kind: str, name: str, text: str) -> bytes:
        row = {"type": "content_block_delta", "index": self._block}
        return _event({**row, "delta": {"type": kind, name: text}})

    def said(self, piece: Said) -> bytes:
        out = b""
        if piece.thought or piece.text or piece.calls:
            out = self._start()
        if piece.thought:
            out += self._in("thinking", {"thinking": ""})
            out += self._delta("thinking_delta", "thinking", piece.thought)
        if piece.text:
            out += self._in("text", {"text": ""})
            out += self._delta("text_delta", "text", piece.text)
        for part in piece.calls:
            if part.name:
                block = {"id": call_id(piece, part.index), "name": part.name, "input": {}}
                out += self._in("tool_use", block, anew=True)
            if part.arguments:
                out += self._delta("input_json_delta", "partial_json", part.arguments)
        return out

    def finished(self, piece: Said) -> bytes:
        reason = _REASONS.get(piece.finish, "end_turn")
        delta = {"type": "message_delta", "delta": {"stop_reason": reason}}
        output = {"output_tokens": self._run.answers[0].request.output}
        return self._start() + self._close() + _event({**delta, "usage": output})

    def last(self) -> bytes:
        return b""

    def done(self) -> bytes:
        return _event({"type": "message_stop"})

    def failure(self, wrong: RefusedError) -> bytes:
        kind = "invalid_request_error" if wrong.status < 500 else "api_error"
        out = self._start(empty=True) + self._close()
        return out + _event({"type": "error", "error": {"type": kind, "message": str(wrong)}})

    def whole(self, pieces: Sequence[Said]) -> replies.Json:
        text, thought, calls, last = together(pieces, 0)
        blocks: list[replies.Json] = []
        if thought:
            blocks.append({"type": "thinking", "thinking": thought})
        if text or not (thought or calls):
            blocks.append({"type": "text", "text": text})
        for call in calls:
            function = call["function"]
            head = {"type": "tool_use", "id": call["id"], "name": function["name"]}
            blocks.append({**head, "input": _object(function["arguments"])})
        row = {"id": self._id, "type": "message", "role": "assistant", "content": blocks}
        reason = _REASONS.get(last.finish, "end_turn")
        model = self._run.wish.model
        return {**row, "model": model, "stop_reason": reason, "usage": self._usage()}


def _object(arguments: str) -> replies.Json:
    try:
        found = json.loads(arguments)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
