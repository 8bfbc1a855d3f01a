"""Keep-alive comments: a stream that is silent for good reasons must not look dead."""

from __future__ import annotations

from rigctl.adapters.http1 import ClientGoneError
from rigctl.core.ids import Mono
from rigctl.core.link_words import TablePolicy
from rigctl.proxy.answers import STREAM, UNBUFFERED, decision_fields
from rigctl.proxy.attempt import COMMENT
from rigctl.proxy.live import Request


def probe(request: Request, now: Mono) -> None:
    """Its client has closed its sending side: only something written tells whether it reads."""
    attempt = request.attempt
    if attempt is not None and attempt.begun:
        attempt.comment(now)
    elif request.commented and not request.exchange.finished:
        request.exchange.push(COMMENT)


def comment(request: Request, policy: TablePolicy, now: Mono) -> None:
    """A keep-alive where a stream has been silent; the first one fixes the status at 200."""
    if not request.ask.stream or request.gone or request.exchange.finished:
        return
    attempt = request.attempt
    if attempt is not None and attempt.begun:
        if now - attempt.written >= policy.keep_alive:
            attempt.comment(now)
        return
    if request.commented:
        if now - request.last_comment >= policy.keep_alive:
            request.last_comment = now
            request.exchange.push(COMMENT)
        return
    # An engine that has it checks its length first: until then a 400 is still possible.
    patience = policy.keep_alive if request.sent is None else policy.first_keep_alive
    since = request.arrived if request.sent is None else request.sent
    if now - since < max(patience, policy.first_keep_alive):
        return
    fields = decision_fields(request, now - request.arrived)
    try:
        request.exchange.begin(200, (STREAM, *UNBUFFERED, *fields))
    except ClientGoneError:
        return
    request.commented = True
    request.status = 200
    request.last_comment = now
    request.exchange.push(COMMENT)
