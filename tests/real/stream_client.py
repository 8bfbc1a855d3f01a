"""A client that streams one long answer from a real server and times every piece of it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any


class Stream(threading.Thread):
    """One streamed chat answer of exactly `tokens` tokens; starts at once."""

    def __init__(self, port: int, model: str, tokens: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.tokens = tokens
        self.arrivals: list[float] = []
        self.raw = b""
        """Every byte of the body, as received."""
        self.usage: dict[str, Any] = {}
        self.done = False
        self.finish = ""
        self.error = ""
        self._body = {
            "model": model,
            "messages": [{"role": "user", "content": "count"}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        self.start()

    def run(self) -> None:
        """Receive until the server closes; an interrupted answer is kept as `error`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(
                *("POST", "/v1/chat/completions", json.dumps(self._body)),
                {"Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            while line := answer.readline():
                self.raw += line
                if line.startswith(b"data: "):
                    self._take(line[6:].strip())
        except (OSError, http.client.HTTPException) as problem:
            self.error = repr(problem)
        finally:
            connection.close()

    def _take(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.done = True
            return
        chunk = json.loads(data)
        if chunk.get("usage"):
            self.usage = chunk["usage"]
        if chunk["choices"]:
            self.arrivals.append(time.monotonic())
            self.finish = chunk["choices"][0].get("finish_reason") or self.finish

    def await_pieces(self, count: int, seconds: float = 30.0) -> None:
        """Wait until that many pieces have come."""
        deadline = time.monotonic() + seconds
        while len(self.arrivals) < count:
            assert time.monotonic() < deadline, f"{len(self.arrivals)} pieces; {self.error}"
            assert self.is_alive() or len(self.arrivals) >= count, self.error
            time.sleep(0.01)

    def complete(self, seconds: float = 300.0) -> None:
        """Wait for the end and hold the answer to be whole: every token, the end mark, no error."""
        self.join(seconds)
        assert not self.is_alive(), f"still streaming after {seconds:.0f} s"
        assert not self.error, self.error
        assert self.done, f"no end mark; the last bytes are {self.raw[-200:]!r}"
        assert self.usage["completion_tokens"] == self.tokens
        assert self.finish == "length"

    @property
    def longest_gap(self) -> float:
        """The longest silence between two pieces, in seconds."""
        return max(b - a for a, b in zip(self.arrivals, self.arrivals[1:], strict=False))


class Asker(threading.Thread):
    """A client that asks one long answer after the other until it is told to stop."""

    def __init__(self, port: int, model: str, tokens: int) -> None:
        super().__init__(daemon=True)
        self.answers: list[Stream] = []
        self._ask = (port, model, tokens)
        self._enough = threading.Event()
        self.start()

    def run(self) -> None:
        """One answer after the other; the last one is let to its end."""
        while not self._enough.is_set():
            self.answers.append(Stream(*self._ask))
            self.answers[-1].join(300)

    def await_pieces(self, count: int) -> None:
        """Wait until the first answer has come so far."""
        while not self.answers:
            time.sleep(0.01)
        self.answers[0].await_pieces(count)

    def complete(self) -> float:
        """Stop asking, hold every answer to be whole; the longest silence inside one, seconds."""
        self._enough.set()
        self.join(300)
        for answer in self.answers:
            answer.complete()
        return max(answer.longest_gap for answer in self.answers)
