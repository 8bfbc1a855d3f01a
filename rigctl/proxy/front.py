"""The door: finds out what a request is, whose it is, and lets it in."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping

from rigctl.adapters.decoding import decode_body
from rigctl.adapters.http1 import ClientGoneError, Exchange, RequestError
from rigctl.core.ask import Dialect
from rigctl.core.ids import Mono
from rigctl.core.link_words import Table, TableClient
from rigctl.proxy import own_pages
from rigctl.proxy.answers import say_error
from rigctl.proxy.clients import client_of, hashes
from rigctl.proxy.live import Live, Request
from rigctl.proxy.metrics import Metrics
from rigctl.proxy.paths import Kind, NoPlace, Place, find_place
from rigctl.proxy.reading import Reading

log = logging.getLogger(__name__)

_OPEN = (Kind.LIVE, Kind.READY, Kind.METRICS, Kind.ROOT)
"""Pages that need no key."""
_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
BUSY_RETRY = 5
LARGE = 128 * 1024
"""Bytes of a compressed body that are not decompressed between two chunks of other streams."""
SMALL = 1024 * 1024
"""Bytes of a body that is let in while larger ones are still on their way."""
_CODES = {413: "request_too_large", 408: "timeout", 415: "unsupported_encoding"}


class Front:
    """Handles each exchange of the server."""

    def __init__(
        self,
        live: Live,
        metrics: Metrics,
        now: Callable[[], Mono],
        table: Callable[[], Table],
        serve: Callable[[Request], Awaitable[None]],
        ready: Callable[[], str],
        local: bool,
    ) -> None:
        """`local`: only this machine reaches it, by the sockets it listens on."""
        self._live = live
        self._metrics = metrics
        self._relayed = metrics.relayed.labels("in")
        self._now = now
        self._table = table
        self._serve = serve
        self._ready = ready
        self._local = local
        self._known: tuple[Table | None, Mapping[str, TableClient]] = (None, {})
        self._reserved = 0
        self._reading = Reading()

    async def __call__(self, exchange: Exchange) -> None:
        """One request, from its head to the last byte of its answer. ClientGoneError."""
        head = exchange.head
        place = find_place(head.method, head.target, head.header(b"anthropic-version"))
        if isinstance(place, NoPlace):
            fields = ((b"allow", place.allow.encode()),) if place.allow else ()
            code = "not_found" if place.status == 404 else "method_not_allowed"
            self._metrics.refused.labels(code).inc()
            await say_error(exchange, place.dialect, place.status, code, place.say, fields)
            return
        client = client_of(head, self._clients(), self._local)
        if client is None and place.kind not in _OPEN:
            say = "no valid key: send `Authorization: Bearer KEY`; `rigctl keys add NAME` makes one"
            self._metrics.refused.labels("invalid_api_key").inc()
            log.info("a request without a valid key from %s", exchange.peer)
            await say_error(exchange, place.dialect, 401, "invalid_api_key", say)
            return
        if place.kind is not Kind.FORWARD:
            await own_pages.answer(exchange, place, self._table(), self._metrics, self._ready())
            return
        assert client is not None
        await self._forward(exchange, place, client)

    def _clients(self) -> Mapping[str, TableClient]:
        table = self._table()
        if self._known[0] is not table:
            self._known = (table, hashes(table))
        return self._known[1]

    async def _forward(self, exchange: Exchange, place: Place, client: TableClient) -> None:
        arrived = self._now()
        policy = self._table().policy
        # A chunked body says nothing of its length: it may grow up to the limit.
        announced = policy.body_limit if exchange.head.chunked else exchange.head.length or 0
        # Uploads that rest keep no room from what is small: most requests go on beside them.
        reserved = self._reserved if announced > SMALL else 0
        if self._live.bodies + reserved + announced > policy.memory_limit:
            await self._no_memory(exchange, place.dialect, policy.memory_limit)
            return
        self._reserved += announced
        try:
            body = await self._body(exchange, place)
        finally:
            self._reserved -= announced
        if body is None:
            return
        assert place.endpoint is not None
        opened = self._reading.open(body, policy)
        ask = self._reading.ask(place.endpoint, exchange.head.headers, opened, policy)
        request = Request(self._live.new_id(), client.name, exchange, ask, arrived)
        request.body = body
        request.opened = opened
        request.query = place.query
        given = exchange.head.header(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            request.client_id = given.decode("ascii")
        self._live.add(request)
        self._live.bodies += len(body)
        try:
            await self._serve(request)
        finally:
            self._relayed.inc(len(body))
            self._live.bodies -= len(body)
            request.body = b""
            self._live.remove(request)
        if not exchange.status:
            raise ClientGoneError("the client left before its answer")

    async def _no_memory(self, exchange: Exchange, dialect: Dialect, limit: int) -> None:
        say = f"request bodies of {limit} bytes are held already, as many as may; try again soon"
        self._metrics.refused.labels("bodies_full").inc()
        await say_error(exchange, dialect, 503, "bodies_full", say, (), BUSY_RETRY)

    async def _body(self, exchange: Exchange, place: Place) -> bytes | None:
        """The plain body; None where an error was said instead, or nobody is there."""
        dialect = place.dialect
        policy = self._table().policy
        try:
            raw = await exchange.body()
            coding = exchange.head.header(b"content-encoding")
            if coding is None and raw[:1] == b"{" and len(raw) <= policy.body_limit:
                body = raw  # plain JSON, as almost always
            elif coding is not None and len(raw) > LARGE:
                # Decompressors let other threads work: no stream waits for a large body.
                body = await asyncio.to_thread(decode_body, coding, raw, policy.body_limit)
            else:
                body = decode_body(coding, raw, policy.body_limit)
        except RequestError as refusal:
            code = _CODES.get(refusal.status, "bad_request")
            self._metrics.refused.labels(code).inc()
            await say_error(exchange, dialect, refusal.status, code, str(refusal))
            return None
        if self._live.bodies + len(body) > policy.memory_limit:
            await self._no_memory(exchange, dialect, policy.memory_limit)
            return None
        return body
