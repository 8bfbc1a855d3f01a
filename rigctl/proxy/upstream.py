"""How one engine is reached, and the small questions that are asked of it beside requests."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rigctl.adapters.http1 import ANSWER_LIMIT, Headers, HttpClient, HttpError, Response
from rigctl.config.schema import ConfigError, Secret
from rigctl.config.secrets import read_secret
from rigctl.core.ask import Endpoint
from rigctl.core.link_words import KeySource, TableGroup

log = logging.getLogger(__name__)

JSON = (b"content-type", b"application/json")
ABORT_SECONDS = 3.0
COUNT_SECONDS = 10.0
"""Tokenizing half a million tokens takes seconds of one core, not more."""
COUNT_LIMIT = 64 * 1024 * 1024
"""Bytes: the answer to a count lists every token."""
LOOK_SECONDS = 3.0

_COUNTED = (
    "model",
    "messages",
    "prompt",
    "tools",
    "system",
    "reasoning_effort",
    "chat_template_kwargs",
)
"""What of a request its length depends on."""


class Upstream:
    """One engine's address and keys, as the table names them."""

    def __init__(self, row: TableGroup, http: HttpClient) -> None:
        self.host = row.host
        self.port = row.port
        self.fields: Headers = _authorization(row.key, row.name)
        """For requests."""
        self._admin = _authorization(row.admin_key, row.name) or self.fields
        self._http = http
        self.no_abort = ""
        """Why the engine refused the last abort; empty where it took it, or none was sent."""

    async def abort(self, rid: str) -> bool:
        """End what runs under ids that begin so; whether the engine took it."""
        try:
            answer = await self._post("/abort_request", {"rid": rid}, ABORT_SECONDS, self._admin)
        except HttpError as error:
            log.info("no abort at %s:%d: %s", self.host, self.port, error)
            return False
        say = "" if answer.status == 200 else f"/abort_request answered {answer.status}"
        if say and say != self.no_abort:
            log.warning("%s:%d: %s; answers that nobody reads run on", self.host, self.port, say)
        self.no_abort = say
        return not say

    async def close_session(self, session: str) -> None:
        """Let the engine drop what it holds for a session; it may know none."""
        try:
            await self._post("/close_session", {"session_id": session}, ABORT_SECONDS, self.fields)
        except HttpError as error:
            log.info("no session closed at %s:%d: %s", self.host, self.port, error)

    async def look(self) -> bytes | str:
        """`/v1/loads`, which wakes no card; else why there was no answer."""
        try:
            answer = await self._http.get(
                self.host,
                self.port,
                "/v1/loads?include=core,queues",
                self.fields,
                timeout=LOOK_SECONDS,
            )
        except HttpError as error:
            return str(error)
        return answer.body if answer.status == 200 else f"/v1/loads answered {answer.status}"

    async def count(self, endpoint: Endpoint, body: bytes) -> int | None:
        """Tokens of a request's prompt by the engine's own tokenizer; None where it cannot say.

        No GPU works for it: the template is rendered and tokenized in the HTTP process.
        """
        try:
            asked = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError:
            return None
        kept = {key: asked[key] for key in _COUNTED if key in asked}
        if endpoint is Endpoint.MESSAGES:
            answer = await self.ask_json(Endpoint.COUNT_TOKENS.value, kept, COUNT_SECONDS)
            found = None if answer is None else answer.get("input_tokens")
        elif endpoint in (Endpoint.CHAT, Endpoint.COMPLETIONS):
            answer = await self.ask_json("/tokenize", kept, COUNT_SECONDS)
            found = None if answer is None else answer.get("count")
        else:
            return None
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    async def ask_json(
        self, path: str, body: Mapping[str, object], timeout: float
    ) -> dict[str, Any] | None:
        """POST JSON, get a JSON object; None for any other answer or none."""
        try:
            answer = await self._post(path, body, timeout, self.fields, COUNT_LIMIT)
            if answer.status != 200:
                return None
            read = msgspec.json.decode(answer.body)
        except (HttpError, msgspec.DecodeError) as error:
            log.info("%s at %s:%d: %s", path, self.host, self.port, error)
            return None
        return read if isinstance(read, dict) else None

    async def takes(self, path: str, body: Mapping[str, object]) -> bool | None:
        """Whether it answers 200 to a small question; None where it did not answer at all."""
        try:
            answer = await self._post(path, body, LOOK_SECONDS, self.fields)
        except HttpError:
            return None
        return answer.status == 200

    async def _post(
        self,
        path: str,
        body: Mapping[str, object],
        timeout: float,
        fields: Headers,
        limit: int = ANSWER_LIMIT,
    ) -> Response:
        """One question as JSON, with a key. PeerError."""
        asked = msgspec.json.encode(body)
        where = ("POST", self.host, self.port, path, (*fields, JSON))
        return await self._http.request(*where, asked, timeout, limit)


def _authorization(source: KeySource, name: str) -> Headers:
    if source.source not in ("file", "env"):
        return ()
    secret = Secret("file" if source.source == "file" else "env", source.where)
    try:
        key = read_secret(secret, os.environ)
    except ConfigError as error:
        # The engine will answer 401, which the client is told as ours to mend.
        log.error("the key of %s: %s", name, error)
        return ()
    return ((b"authorization", f"Bearer {key}".encode()),)


EFFORTS: Sequence[str] = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
"""From least to most."""


async def probe_efforts(upstream: Upstream) -> dict[str, str] | None:
    """Levels that this engine's template rejects, each with the level that stands in for it.

    None where it could not be asked. A template that takes every level gives an empty mapping: it
    may ignore them all, and nothing is changed that need not be.
    """
    taken: list[str] = []
    refused: list[str] = []
    hello = [{"role": "user", "content": "hi"}]
    for level in EFFORTS:
        asked = {"messages": hello, "reasoning_effort": level}
        answer = await upstream.takes("/tokenize", asked)
        if answer is None:
            return None
        (taken if answer else refused).append(level)
    return translations(taken, refused)


def translations(taken: Sequence[str], refused: Sequence[str]) -> dict[str, str]:
    """For each refused level the next one up that is taken, else the next one down.

    `none` stands for no thinking, and is only ever translated to that.
    """
    mapped: dict[str, str] = {}
    real = [level for level in EFFORTS if level in taken and level != "none"]
    if not real:
        return {}
    for level in refused:
        if level == "none":
            mapped[level] = ""
            continue
        place = EFFORTS.index(level)
        above = [each for each in real if EFFORTS.index(each) > place]
        mapped[level] = above[0] if above else real[-1]
    return mapped
