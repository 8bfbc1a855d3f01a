"""The client that times every token: `python -m rigctl.bench.relay_client LOAD PORT [PORT …]`.

`LOAD` is a `relay_loads.Load` as JSON; the outcome is printed as one line of JSON. A process of
its own, so that what it costs is not the bench's and not the relay's.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import cast

import httptools
import uvloop

from rigctl.bench.relay_frames import STAMP
from rigctl.bench.relay_loads import Load, Outcome, requests

HOST = "127.0.0.1"

_KEPT = 300
"""Bytes kept from one read to the next, so that a stamp cut in two is found."""


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self.latencies: list[int] = []
        """Nanoseconds."""
        self.firsts: list[int] = []
        self.failed = 0
        self.fault = ""
        self._transport: asyncio.Transport | None = None
        self._finished: asyncio.Future[None] | None = None
        self._rest = b""
        self._said = b""

    @property
    def open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    async def ask(self, request: bytes) -> None:
        """Send one request and take its whole answer."""
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._finished = asyncio.get_running_loop().create_future()
        self._rest, self._said, self._first = b"", b"", 0
        self._before = len(self.latencies)
        self._began = time.monotonic_ns()
        self._transport.write(request)
        await self._finished

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self._first:
            self._first = now
        text, last = self._rest + data, 0
        for match in STAMP.finditer(text):
            self.latencies.append(now - int(match[1]))
            last = match.end()
        self._rest = text[last:][-4 * _KEPT :]
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            self._fail(f"not HTTP: {problem}")

    def on_body(self, part: bytes) -> None:
        """Keeps how an answer begins, to tell why it is not the one wanted."""
        if len(self._said) < _KEPT:
            self._said += part[:_KEPT]

    def on_message_complete(self) -> None:
        """The answer is whole: is it the one that was asked for?"""
        status = self._parser.get_status_code()
        arrived = len(self.latencies) - self._before
        if status != 200 or (self._load.stream and arrived != self._load.tokens):
            self._fail(f"{status}, {arrived} tokens: {self._said[:_KEPT]!r}")
            return
        self.firsts.append(self._first - self._began)
        self._end()

    def connection_lost(self, problem: Exception | None) -> None:
        if self._finished is not None and not self._finished.done():
            self._fail(f"connection lost: {problem}")

    def _fail(self, fault: str) -> None:
        self.failed += 1
        self.fault = self.fault or fault
        self._end()

    def _end(self) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


async def _work(load: Load, number: int, port: int) -> list[Connection]:
    loop = asyncio.get_running_loop()
    used: list[Connection] = []
    end = time.monotonic() + load.seconds
    for request in requests(load, number):
        if not used or not used[-1].open:
            _, connection = await loop.create_connection(partial(Connection, load), HOST, port)
            used.append(connection)
        await used[-1].ask(request)
        if load.seconds and time.monotonic() > end:
            break
    for connection in used:
        connection.close()
    return used


def _at(sorted_values: Sequence[int], share: float) -> float | None:
    if not sorted_values:
        return None
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))] / 1e6


async def measure(load: Load, ports: Sequence[int]) -> Outcome:
    """Run a load; connections are dealt to the ports in turn. TimeoutError past its limit."""
    began = time.monotonic()
    async with asyncio.timeout(load.limit):
        groups = await asyncio.gather(
            *(_work(load, number, ports[number % len(ports)]) for number in range(load.connections))
        )
    seconds = time.monotonic() - began
    connections = [each for group in groups for each in group]
    latencies = sorted(value for each in connections for value in each.latencies)
    firsts = sorted(value for each in connections for value in each.firsts)
    return Outcome(
        chunks=len(latencies),
        failed=sum(each.failed for each in connections),
        finished=len(firsts),
        seconds=seconds,
        chunk_p50=_at(latencies, 0.5),
        chunk_p99=_at(latencies, 0.99),
        first_p50=_at(firsts, 0.5),
        first_p99=_at(firsts, 0.99),
        fault=next((each.fault for each in connections if each.fault), ""),
    )


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    load = Load(**json.loads(arguments[0]))
    outcome = uvloop.run(measure(load, [int(word) for word in arguments[1:]]))
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main(sys.argv[1:])
