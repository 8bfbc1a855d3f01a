"""What the endpoint itself says to a client: errors in its dialect, in time or in-band."""

from __future__ import annotations

from collections.abc import Iterable

from rigctl.adapters.http1 import ClientGoneError, Exchange
from rigctl.core.ask import Dialect
from rigctl.core.clusters import Refuse, Why
from rigctl.core.dialect import error_body, error_event
from rigctl.core.harmless import one_line
from rigctl.proxy.live import Request
from rigctl.proxy.paths import dialect_of

Field = tuple[bytes, bytes]

STREAM: Field = (b"content-type", b"text/event-stream; charset=utf-8")
UNBUFFERED: tuple[Field, ...] = (
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_LONGEST = 300


def decision_fields(request: Request, waited: float) -> tuple[Field, ...]:
    """The decision in headers, and the request's own id."""
    fields = [
        (b"x-request-id", (request.client_id or request.id).encode()),
        (b"x-rig-request", request.id.encode()),
    ]
    if request.cluster is not None:
        fields.append((b"x-rig-cluster", request.cluster.encode()))
    why = request.why
    if why is not None:
        fields += _explained(why)
    if request.label:
        fields.append((b"x-rig-session", request.label.encode()))
    fields.append((b"x-rig-wait-ms", b"%d" % round(waited * 1000)))
    return tuple(fields)


def _explained(why: Why) -> Iterable[Field]:
    yield b"x-rig-rule", why.rule.encode()
    yield b"x-rig-why", one_line(why.say)[:_LONGEST].encode("ascii", "replace")
    yield b"x-rig-session-source", (why.source or "new").encode("ascii", "replace")
    if why.tokens:
        yield b"x-rig-tokens", b"%d" % why.tokens


async def say_error(
    exchange: Exchange,
    dialect: Dialect,
    status: int,
    code: str,
    say: str,
    fields: Iterable[Field] = (),
    retry_after: int | None = None,
) -> int:
    """An error as the whole answer; the status that was sent, 499 where nobody was there."""
    sent, body, more = error_body(dialect, status, code, say, retry_after=retry_after)
    try:
        await exchange.respond(sent, body, [*more, *fields])
    except ClientGoneError:
        return 499
    return sent


def refusal_words(status: int, say: str, target: bytes) -> tuple[bytes, bytes]:
    """Content type and body of what the HTTP layer itself refuses."""
    dialect = dialect_of(target.decode("latin-1"), None)
    _, body, fields = error_body(dialect, status, "bad_request", say)
    return dict(fields)[b"content-type"], body


async def refuse(request: Request, refusal: Refuse, waited: float) -> int:
    """The rules' own no, in-band where the status is out already."""
    say = refusal.why.say
    if request.commented:
        end_in_band(request, say, refusal.code, refusal.status)
        return 200
    fields = decision_fields(request, waited)
    if refusal.retry_after is None and refusal.status >= 500:
        fields += ((b"x-should-retry", b"false"),)
    return await say_error(
        request.exchange,
        request.ask.dialect,
        refusal.status,
        refusal.code,
        say,
        fields,
        refusal.retry_after,
    )


def close_event(request: Request) -> None:
    """Where the engine's stream stands inside an event, end it: what we add begins its own."""
    reader = None if request.attempt is None else request.attempt.reader
    if reader is not None and not reader.at_boundary:
        request.exchange.push(b"\n\n")


def end_in_band(request: Request, say: str, code: str, status: int) -> None:
    """An error inside a stream whose status is 200, and the stream's proper end.

    `status`: the one that it would have had; the dialect's kind of error follows from it.
    """
    ask = request.ask
    request.exchange.push(error_event(ask.dialect, ask.endpoint, say, code, status))
    request.exchange.complete()
