"""Our reading of HTTP/1.1 bytes beside h11's, and where the two may differ.

Used by the hypothesis tests and by the atheris harness (`atheris_http.py`). What must never differ
is what both accept: two readings of one message are how requests are smuggled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import h11

from rigctl.adapters.http1 import (
    BrokenAnswerError,
    Limits,
    RequestError,
    RequestHead,
    ResponseHead,
)
from rigctl.adapters.http1.parsing import End, RequestParser, ResponseParser

LIMITS = Limits(head=1 << 20, target=1 << 20, header_count=10_000, body=1 << 40)
"""Limits of size are ours, and no matter of opinion."""


@dataclass
class Reading:
    """What was made of some bytes: the messages begun, the last one perhaps not ended."""

    messages: list[tuple[bytes | int, bytes]] = field(default_factory=list)
    """Target or status, and the body so far."""
    ended: int = 0
    refusal: str = ""
    """Why the rest was refused; empty where it was not."""

    def begin(self, name: bytes | int) -> None:
        self.messages.append((name, b""))

    def add(self, data: bytes) -> None:
        name, body = self.messages[-1]
        self.messages[-1] = (name, body + data)

    @property
    def whole(self) -> list[tuple[bytes | int, bytes]]:
        return self.messages[: self.ended]


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The data cut at these places."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges) if stop > start]


def ours(parts: Iterable[bytes], *, answers: bool = False) -> Reading:
    """What our parsers make of it, fed piece by piece."""
    reading = Reading()
    parser = ResponseParser(LIMITS) if answers else RequestParser(LIMITS)
    for part in parts:
        try:
            events = parser.feed(part)
        except (RequestError, BrokenAnswerError) as refusal:
            events = parser.events
            reading.refusal = str(refusal)
        for event in events:
            if isinstance(event, RequestHead):
                reading.begin(event.target)
            elif isinstance(event, ResponseHead):
                reading.begin(event.status)
            elif isinstance(event, End):
                reading.ended += 1
            else:
                reading.add(event)
        if reading.refusal:
            break
    return reading


def of_h11(data: bytes, *, answers: bool = False) -> Reading:
    """What h11 makes of it. For answers it is told that each question was a plain GET."""
    reading = Reading()
    us = h11.CLIENT if answers else h11.SERVER
    connection = h11.Connection(us, max_incomplete_event_size=1 << 30)
    try:
        if answers:
            _ask(connection)
        connection.receive_data(data)
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                reading.begin(event.target)
                if connection.they_are_waiting_for_100_continue:
                    connection.send(h11.InformationalResponse(status_code=100, headers=[]))
            elif isinstance(event, h11.Response):
                reading.begin(event.status_code)
            elif isinstance(event, h11.Data):
                reading.add(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                reading.ended += 1
                if not answers:
                    connection.send(
                        h11.Response(status_code=404, headers=[("content-length", "0")])
                    )
                    connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    break
                connection.start_next_cycle()
                if answers:
                    _ask(connection)
            elif not isinstance(event, h11.InformationalResponse):
                break
    except h11.RemoteProtocolError as refusal:
        reading.refusal = str(refusal)
    return reading


def _ask(connection: h11.Connection) -> None:
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    connection.send(h11.EndOfMessage())


def smuggled(mine: Reading, theirs: Reading) -> str:
    """What both read to its end and read differently; empty where there is nothing."""
    for number, (one, other) in enumerate(zip(mine.whole, theirs.whole, strict=False)):
        if one != other:
            return f"message {number}: {one!r} here, {other!r} with h11"
    return ""
