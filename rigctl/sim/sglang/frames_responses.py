"""`/v1/responses`: OpenAI's newer events, as SGLang writes them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from rigctl.sim.sglang import replies
from rigctl.sim.sglang.frames import Run, call_id
from rigctl.sim.sglang.generation import Said
from rigctl.sim.sglang.refusals import RefusedError

_TOOL = dict.fromkeys(("description", "tools", "defer_loading", "format")) | {"strict": False}
"""What an echoed tool has beside what was sent."""
_ENDS = {"length": ("incomplete", "max_output_tokens"), "abort": ("failed", "")}


class Responses:
    """Its status goes out at once: a refusal for length comes as `response.failed`."""

    early = True

    def __init__(self, run: Run) -> None:
        self._run = run
        self._created = int(time.time())
        self._number = -1
        self._items: list[replies.Json] = []
        self._kind = ""
        self._text = ""
        self._status, self._why = "in_progress", ""

    def _event(self, kind: str, **row: object) -> bytes:
        self._number += 1
        body = {**row, "sequence_number": self._number, "type": kind}
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), replies.dump(body))

    @property
    def _over(self) -> bool:
        return self._status != "in_progress"

    def _response(self, error: replies.Json | None = None) -> replies.Json:
        body = self._run.wish.body
        reasoning = body.get("reasoning") or {}
        return {
            "id": self._run.wish.rid,
            "object": "response",
            "created_at": self._created,
            "model": self._run.wish.model,
            "output": self._items,
            "status": self._status,
            "usage": self._usage() if self._run.answers and self._over else None,
            "parallel_tool_calls": True,
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": [_TOOL | tool for tool in body.get("tools") or ()],
            "error": error,
            "incomplete_details": {"reason": self._why} if self._why else None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "previous_response_id": body.get("previous_response_id"),
            "reasoning": {"effort": reasoning.get("effort"), "summary": None},
            "store": body.get("store", True),
            "temperature": body.get("temperature"),
            "text": None,
            "top_p": body.get("top_p"),
            "truncation": "disabled",
            "user": None,
            "metadata": {},
        }

    def _usage(self) -> replies.Json:
        found = self._run.usage()
        details = found["prompt_tokens_details"] or {}
        cached = details.get("cached_tokens", 0)
        return {
            "input_tokens": found["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": found["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": found["reasoning_tokens"]},
            "total_tokens": found["total_tokens"],
        }

    def open(self) -> bytes:
        out = self._event("response.created", response=self._response())
        return out + self._event("response.in_progress", response=self._response())

    def _at(self) -> replies.Json:
        return {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1}

    def _in(self, kind: str) -> bytes:
        """Inside a reasoning or a message item, beginning it where needed."""
        if self._kind == kind:
            return b""
        out = self._close()
        self._kind, self._text = kind, ""
        item: replies.Json
        part: replies.Json
        if kind == "reasoning":
            item = {"id": f"rs_{uuid.uuid4().hex}", "summary": [], "type": kind, "content": []}
            item["encrypted_content"] = None
            part = {"text": "", "type": "reasoning_text"}
        else:
            item = {"id": f"msg_{uuid.uuid4().hex}", "content": [], "role": "assistant"}
            item |= {
                "type": "message",
                "phase": "commentary" if self._run.wish.tools else "final_answer",
            }
            part = {"annotations": [], "text": "", "type": "output_text", "logprobs": None}
        self._items.append({**item, "status": "in_progress"})
        at = {"output_index": len(self._items) - 1}
        out += self._event("response.output_item.added", item=self._items[-1], **at)
        return out + self._event(
            "response.content_part.added", content_index=0, part=part, **self._at()
        )

    def _close(self) -> bytes:
        if not self._kind:
            return b""
        item, at, out = self._items[-1], self._at(), b""
        if self._kind == "call":
            row = {"arguments": item["arguments"], "name": item["name"]}
            out = self._event("response.function_call_arguments.done", **row, **at)
        else:
            name = "reasoning_text" if self._kind == "reasoning" else "output_text"
            part: replies.Json = {"text": self._text, "type": name}
            if name == "output_text":
                part |= {"annotations": [], "logprobs": None}
            logs: replies.Json = {"logprobs": []} if name == "output_text" else {}
            at_text = {"content_index": 0, "text": self._text, **logs}
            out = self._event(f"response.{name}.done", **at_text, **at)
            out += self._event("response.content_part.done", content_index=0, part=part, **at)
            item["content"] = [part]
        item["status"] = "completed"
        self._kind = ""
        at = {"output_index": at["output_index"]}
        return out + self._event("response.output_item.done", item=item, **at)

    def said(self, piece: Said) -> bytes:
        out = b""
        for kind, text in (("reasoning", piece.thought), ("message", piece.text)):
            if text:
                out += self._in(kind)
                name = "reasoning_text" if kind == "reasoning" else "output_text"
                self._text += text
                row: replies.Json = {"content_index": 0, "delta": text}
                row |= {"logprobs": []} if kind == "message" else {}
                out += self._event(f"response.{name}.delta", **row, **self._at())
        for part in piece.calls:
            if part.name:
                out += self._close()
                self._kind = "call"
                head = {"arguments": "", "call_id": call_id(piece, part.index), "name": part.name}
                item = {**head, "type": "function_call", "id": f"fc_{uuid.uuid4().hex[:8]}"}
                self._items.append({**item, "status": "in_progress"})
                at = {"output_index": len(self._items) - 1}
                out += self._event("response.output_item.added", item=self._items[-1], **at)
            if part.arguments:
                self._items[-1]["arguments"] += part.arguments
                name = "response.function_call_arguments.delta"
                out += self._event(name, delta=part.arguments, **self._at())
        return out

    def finished(self, piece: Said) -> bytes:
        out = self._close()
        self._status, self._why = _ENDS.get(piece.finish, ("completed", ""))
        return out

    def last(self) -> bytes:
        return b""

    def done(self) -> bytes:
        error = {"code": "server_error", "message": "Aborted"} if self._status == "failed" else None
        return self._event(f"response.{self._status}", response=self._response(error))

    def failure(self, wrong: RefusedError) -> bytes:
        out = self._close()
        self._status = "failed"
        error = {"code": "server_error", "message": str(wrong)}
        return out + self._event("response.failed", response=self._response(error))

    def whole(self, pieces: Sequence[Said]) -> replies.Json:
        for piece in pieces:
            self.said(piece)
        self.finished(pieces[-1])
        return self._response()
