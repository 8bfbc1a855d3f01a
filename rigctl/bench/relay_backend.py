"""An engine that costs almost nothing: `python -m rigctl.bench.relay_backend PORT [PORT …]`.

It answers on several ports in one process, as several engines that share no core with the relay
would. What it streams is timed by the request (`relay_frames.Knobs`).
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from typing import cast

import httptools
import uvloop

from rigctl.bench import relay_frames as frames

WINDOW = 262_144
SLOTS = 64
BACKLOG = 512

_request = itertools.count(1)

_EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_MISSING = frames.answer({"detail": "Not Found"}, b"404 Not Found")
_SHORT = frames.short_answer()
_KNOWN = {
    "/v1/models": {
        "object": "list",
        "data": [
            {
                "id": frames.MODEL,
                "object": "model",
                "created": 1,
                "owned_by": "sglang",
                "root": frames.MODEL,
                "max_model_len": WINDOW,
            }
        ],
    },
    "/v1/loads": {
        "version": "0.5.23",
        "dp_size": 1,
        "loads": [
            {
                "dp_rank": 0,
                "num_running_reqs": 0,
                "num_waiting_reqs": 0,
                "num_used_tokens": 0,
                "max_total_num_tokens": 800_000,
                "max_running_requests": SLOTS,
                "token_usage": 0.0,
                "gen_throughput": 0.0,
            }
        ],
    },
    "/server_info": {
        "model_path": frames.MODEL,
        "tokenizer_path": frames.MODEL,
        "served_model_name": frames.MODEL,
        "is_generation": True,
        "version": "0.5.23",
        "max_total_num_tokens": 800_000,
        "tp_size": 1,
        "dp_size": 1,
        "disaggregation_mode": "null",
    },
    "/tokenize": {"tokens": [1, 2, 3], "count": 3, "max_model_len": WINDOW},
}
_ANSWERS = {
    **{path.encode(): frames.answer(body) for path, body in _KNOWN.items()},
    b"/get_server_info": frames.answer(_KNOWN["/server_info"]),
    b"/model_info": frames.answer(_KNOWN["/server_info"]),
    b"/get_model_info": frames.answer(_KNOWN["/server_info"]),
    b"/ready": _EMPTY,
    b"/health": _EMPTY,
    b"/ping": _EMPTY,
    b"/abort_request": _EMPTY,
    b"/close_session": _EMPTY,
    b"/metrics": _EMPTY,
}


class Engine(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._body: list[bytes] = []
        self._streaming: asyncio.Task[None] | None = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, problem: Exception | None) -> None:
        if self._streaming is not None:
            self._streaming.cancel()

    def on_message_begin(self) -> None:
        """A new request on this connection."""
        self._target = b""
        self._body.clear()

    def on_url(self, part: bytes) -> None:
        """The request's target, perhaps in several parts."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of the headers only one wants an answer at once."""
        if name.lower() == b"expect":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, part: bytes) -> None:
        """A piece of the body."""
        self._body.append(part)

    def on_message_complete(self) -> None:
        """The request is whole: answer it."""
        path = self._target.partition(b"?")[0]
        if path != b"/v1/chat/completions":
            self._transport.write(_ANSWERS.get(path, _MISSING))
            return
        wanted = frames.read_knobs(b"".join(self._body))
        self._body.clear()
        if wanted.stream:
            self._streaming = asyncio.get_running_loop().create_task(self._stream(wanted))
        else:
            self._transport.write(_SHORT)

    async def _stream(self, wanted: frames.Knobs) -> None:
        events = frames.Frames(next(_request))
        if wanted.ttft:
            await asyncio.sleep(wanted.ttft)
        write = self._transport.write
        write(frames.STREAM_HEAD + events.opening)
        due = time.monotonic()
        for number in range(wanted.tokens):
            write(events.token(time.monotonic_ns()))
            if wanted.gap:
                due += wanted.gap
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            elif number % 64 == 63:
                await asyncio.sleep(0)
            if self._transport.is_closing():
                return
        write(events.closing(wanted.tokens))


async def serve(ports: list[int]) -> None:
    """Answer on every port until the process is ended."""
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(Engine, "127.0.0.1", port, backlog=BACKLOG) for port in ports
    ]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(serve([int(word) for word in sys.argv[1:]]))
