"""The endpoints that read prompts: generation in every dialect, counting, stored responses."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

from rigctl.adapters.http1 import Exchange
from rigctl.sim.sglang import prompts, replies
from rigctl.sim.sglang.answering import JSON, Answering, refusal
from rigctl.sim.sglang.engine import Engine
from rigctl.sim.sglang.identity import Identity
from rigctl.sim.sglang.logs import Log
from rigctl.sim.sglang.messages_body import chat_of_messages
from rigctl.sim.sglang.refusals import MESSAGES, RESPONSES, UNTOLD, InvalidError, RefusedError
from rigctl.sim.sglang.responses_body import input_messages
from rigctl.sim.sglang.wishes import read_chat, read_wish

_NO_STORE = (
    "Response store is disabled. Stateful Responses require --enable-response-store on a "
    "standalone server; response storage is unavailable in PD mode."
)


def uvicorn() -> list[tuple[bytes, bytes]]:
    """The headers that every answer of the real server has."""
    return [(b"date", formatdate(usegmt=True).encode()), (b"server", b"uvicorn")]


async def read_body(exchange: Exchange) -> Mapping[str, Any]:
    """A request's JSON object. RefusedError as SGLang words it."""
    path = exchange.head.path
    kind = exchange.head.header(b"content-type") or b"application/json"
    if kind.split(b";")[0].strip().lower() != b"application/json":
        say = "Unsupported Media Type: Only 'application/json' is allowed"
        raise InvalidError(path, ("content-type",), say, UNTOLD)
    raw = await exchange.body()
    if not raw:
        raise InvalidError(path, (), "Field required", None)
    try:
        body = json.loads(raw)
    except ValueError as wrong:
        raise InvalidError(path, (1,), "JSON decode error", {}) from wrong
    if not isinstance(body, Mapping):
        raise NotImplementedError  # the real one raises as well: 500 in plain text
    return body


class Talking:
    """Answers what carries a prompt."""

    def __init__(
        self,
        identity: Identity,
        engine: Engine,
        answering: Answering,
        log: Log,
        think_limit: int,
        fault: str,
    ) -> None:
        self._identity = identity
        self._engine = engine
        self._answering = answering
        self._log = log
        self._think_limit = think_limit
        self._fault = fault
        self._sessions: set[str] = set()
        self._stored: dict[str, tuple[list[Any], replies.Json]] = {}

    async def _json(self, exchange: Exchange, body: object, status: int = 200) -> None:
        await exchange.respond(status, replies.dump(body), [*uvicorn(), JSON])

    async def refuse(self, exchange: Exchange, wrong: RefusedError) -> None:
        """Answer with a refusal in the path's own shape."""
        body = refusal(exchange.head.path, wrong)
        await exchange.respond(wrong.status, body, [*uvicorn(), JSON])

    async def generate(self, exchange: Exchange) -> None:
        """Any endpoint that generates."""
        try:
            await self._generate(exchange)
        except RefusedError as wrong:
            await self.refuse(exchange, wrong)
        except NotImplementedError:
            kind = (b"content-type", b"text/plain; charset=utf-8")
            await exchange.respond(500, b"Internal Server Error", [*uvicorn(), kind])

    async def _generate(self, exchange: Exchange) -> None:
        path = exchange.head.path
        body = await read_body(exchange)
        earlier = self._earlier(body) if path == RESPONSES else []
        override = exchange.head.header(b"x-override-rid")
        given = override.decode("latin-1") if override is not None else None
        wish = read_wish(
            path,
            body,
            self._identity,
            self._think_limit,
            self._fault,
            given if self._identity.header_overrides else None,
            earlier,
        )
        most = self._identity.args.get("max_queued_requests")
        if most is not None and len(self._engine.batcher.waiting) >= most:
            raise RefusedError("The request queue is full.", 503, "ServiceUnavailable")
        if wish.session:
            self._sessions.add(wish.session)
        answer = await self._answering.serve(exchange, wish)
        if path == RESPONSES and self._storing and body.get("store", True) and answer:
            self._stored[wish.rid] = ([*earlier, *input_messages(body)], answer)

    @property
    def _storing(self) -> bool:
        return bool(self._identity.args.get("enable_response_store"))

    def _earlier(self, body: Mapping[str, Any]) -> list[Any]:
        """The messages before this one, where it follows a stored response."""
        previous = body.get("previous_response_id")
        for name in ("previous_response_id", "background"):
            if body.get(name) and not self._storing:
                raise RefusedError(_NO_STORE, param=name)
        if not previous:
            return []
        messages, answer = self._find(str(previous))
        said = "".join(
            part["text"]
            for item in answer["output"]
            if item["type"] == "message"
            for part in item["content"]
        )
        return [*messages, {"role": "assistant", "content": said}]

    def _find(self, name: str) -> tuple[list[Any], replies.Json]:
        if not self._storing:
            raise RefusedError(_NO_STORE, param="response_id")
        if name not in self._stored:
            say = f"Response with id '{name}' not found."
            raise RefusedError(say, 404, "invalid_request_error", "response_id")
        return self._stored[name]

    async def stored(self, exchange: Exchange) -> None:
        """`/v1/responses/ID` and its `/cancel`."""
        name = exchange.head.path.removeprefix(f"{RESPONSES}/").removesuffix("/cancel")
        try:
            await self._json(exchange, self._find(name)[1])
        except RefusedError as wrong:
            await self.refuse(exchange, wrong)

    async def tokenize(self, exchange: Exchange) -> None:
        """Counts without the scheduler; it refuses nothing for its length."""
        try:
            body = await read_body(exchange)
            if ("messages" in body) == ("prompt" in body):
                say = "Value error, Exactly one of 'prompt' or 'messages' must be provided."
                raise InvalidError(exchange.head.path, (), say, dict(body))
            if "messages" in body:
                count: int | list[int] = self._count(exchange.head.path, body)
            else:
                texts = body["prompt"]
                counts = [prompts.plain_prompt(str(text)).tokens for text in _list(texts)]
                count = counts if isinstance(texts, list) else counts[0]
        except RefusedError as wrong:
            wrong.kind = "BadRequestError" if wrong.kind == "BadRequest" else wrong.kind
            await self.refuse(exchange, wrong)
            return
        tokens = [list(range(n)) for n in count] if isinstance(count, list) else list(range(count))
        row = {"tokens": tokens, "count": count}
        await self._json(exchange, {**row, "max_model_len": self._identity.context})

    def _count(self, path: str, body: Mapping[str, Any]) -> int:
        return read_chat(path, body, self._identity)[0].tokens

    async def count_tokens(self, exchange: Exchange) -> None:
        """`/v1/messages/count_tokens`."""
        try:
            chat = chat_of_messages(await read_body(exchange), counting=True)
            await self._json(exchange, {"input_tokens": self._count(MESSAGES, chat)})
        except RefusedError as wrong:
            await self.refuse(exchange, wrong)

    async def embeddings(self, exchange: Exchange) -> None:
        """A model that generates makes no embeddings."""
        await exchange.body()
        say = (
            "This model does not appear to be an embedding model by default. Please add "
            "`--is-embedding` when launching the server or try another model."
        )
        await self.refuse(exchange, RefusedError(say))

    async def close_session(self, exchange: Exchange) -> None:
        """Let a session's prefixes go; a session that is not known is fine too."""
        try:
            name = str((await read_body(exchange)).get("session_id"))
        except RefusedError as wrong:
            await self.refuse(exchange, wrong)
            return
        if self._identity.args.get("enable_session_radix_cache"):
            known = int(name in self._sessions)
            self._log.rank(0, f"release_session {name}: indexed {known} component leaves")
        self._sessions.discard(name)
        await exchange.respond(200, b"", uvicorn())

    async def model(self, exchange: Exchange) -> None:
        """`/v1/models/NAME`."""
        name = exchange.head.path.removeprefix("/v1/models/")
        if name == self._identity.name:
            await self._json(exchange, replies.model(self._identity, time.time()))
        else:
            await self._json(exchange, replies.no_model(name), 404)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
