"""A client that reads a streamed chat frame by frame in a thread, and holds it to be whole."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
import time
from typing import Any

from support_served import MODEL


class Stream(threading.Thread):
    """One streamed chat answer; starts at once. `body` is merged over the usual one."""

    def __init__(
        self,
        port: int,
        text: str = "say:short",
        tokens: int = 64,
        headers: dict[str, str] | None = None,
        **body: Any,
    ) -> None:
        super().__init__(daemon=True)
        self.status = 0
        self.headers: dict[str, str] = {}
        self.raw = b""
        """Every byte of the body, as received."""
        self.pieces: list[str] = []
        self.comments = 0
        self.usage: dict[str, Any] = {}
        self.finish = ""
        self.done = False
        self.failure = ""
        """An error event, or how the connection broke."""
        self.began = time.monotonic()
        self._body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        } | body
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.start()

    def run(self) -> None:
        """Receive until the end; a broken answer is kept as `failure`."""
        try:
            data = json.dumps(self._body)
            self._line.request("POST", "/v1/chat/completions", data, self._headers)
            answer = self._line.getresponse()
            self.headers = {name.lower(): value for name, value in answer.getheaders()}
            self.status = answer.status
            while line := answer.readline():
                self.raw += line
                self._take(line)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as problem:
            self.failure = self.failure or repr(problem)
        finally:
            self._line.close()

    def _take(self, line: bytes) -> None:
        self.comments += line.startswith(b":")
        if not line.startswith(b"data: "):
            return
        data = line[6:].strip()
        if data == b"[DONE]":
            self.done = True
            return
        chunk = json.loads(data)
        if "error" in chunk:
            self.failure = json.dumps(chunk["error"])
            return
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk["choices"]:
            self.finish = choice.get("finish_reason") or self.finish
            piece = choice["delta"].get("content")
            if piece:
                self.pieces.append(piece)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def await_pieces(self, count: int, seconds: float = 30.0) -> None:
        """Until so many pieces of text have come."""
        deadline = time.monotonic() + seconds
        while len(self.pieces) < count:
            assert time.monotonic() < deadline, f"{len(self.pieces)} pieces; {self.failure}"
            assert self.is_alive() or len(self.pieces) >= count, (self.failure, self.raw[-300:])
            time.sleep(0.01)

    def leave(self, how: str = "fin") -> None:
        """Go away in the middle: `fin` closes, `rst` resets, `half` only stops sending."""
        sock = self._line.sock
        assert sock is not None
        if how == "half":
            sock.shutdown(socket.SHUT_WR)
            return
        if how == "rst":
            # The reader wakes and closes, and the close is a reset.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.shutdown(socket.SHUT_RD)
            return
        # A close alone would wait for the thread that reads.
        sock.shutdown(socket.SHUT_RDWR)

    def whole(self, seconds: float = 120.0) -> Stream:
        """Wait for the end and hold the answer to be whole."""
        self.join(seconds)
        assert not self.is_alive(), f"still streaming after {seconds:.0f} s"
        assert self.status == 200, (self.status, self.raw)
        assert not self.failure, self.failure
        assert self.done, f"no end mark: {self.raw[-300:]!r}"
        assert self.finish in ("stop", "length", "tool_calls")
        assert self.raw.count(b"data: [DONE]") == 1
        return self
