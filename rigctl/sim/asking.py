"""How a simulated agent asks: the habits of real clients, as requests and as answers read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rigctl.adapters.http1 import HttpClient, HttpError
from rigctl.sim.sglang.prompts import word

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
SYSTEM_CHARACTERS = 14_000
HABITS = ("claude", "cache-key", "plain", "user-id", "session-header")
"""Which client a session is: by its number, round and round."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go: one address for all, or an engine's port."""

    host: str
    port: int
    ready: str = "/ready"
    """The path that says 200 once it takes work."""
    prefix: str = ""


def address_of(url: str) -> Address:
    """The endpoint's address. ValueError for a URL that is none."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{url} is no address: write http://127.0.0.1:8000")
    path = parts.path.rstrip("/").removesuffix("/v1")
    return Address(parts.hostname, parts.port or 80, "/readyz", path)


@dataclass(frozen=True, slots=True)
class Key:
    """A client of the endpoint and its key."""

    client: str
    secret: str = field(repr=False)


def read_keys(text: str) -> tuple[Key, ...]:
    """Keys from lines `CLIENT KEY`. ValueError names the line that is none."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if len(words) != 2:
            raise ValueError(f"line {number} is not `CLIENT KEY`")
        found.append(Key(words[0], words[1]))
    return tuple(found)


class BusyError(Exception):
    """The other side says when to come again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"asked to come again in {seconds:.0f} s")
        self.seconds = seconds


def filler(tokens: int, name: str) -> str:
    """So many tokens of text called `name`: equal names are equal text."""
    seed = int.from_bytes(name.encode(), "big") % 100_003
    return "".join(word(seed, number) for number in range(tokens))


def system_prompt() -> str:
    """What every agent of the same make sends first: long, and the same for all of them."""
    say = "You are an agent that edits code. Read before you write, and run the tests. "
    return (say * (SYSTEM_CHARACTERS // len(say) + 1))[:SYSTEM_CHARACTERS]


class Asker:
    """One session's requests."""

    def __init__(
        self, address: Address, habit: str, key: Key | None = None, session: str = ""
    ) -> None:
        self._client = HttpClient()
        self._address = address
        self._habit = habit
        self._key = key
        self.session = session or str(uuid.uuid4())

    async def close(self) -> None:
        await self._client.close()

    async def ready(self) -> bool:
        """Whether the other side takes work now. HttpError where nobody answers."""
        where = self._address
        path = where.prefix + where.ready
        return (await self._client.get(where.host, where.port, path, timeout=5.0)).status == 200

    def request(
        self, messages: Sequence[dict[str, Any]], limit: int
    ) -> tuple[str, list[tuple[bytes, bytes]], dict[str, Any]]:
        """Path, headers and body of one turn, as this client sends them."""
        head = [(b"content-type", b"application/json")]
        body: dict[str, Any] = {"model": "default", "messages": [*messages], "stream": True}
        body |= {"max_tokens": limit, "ignore_eos": True}
        secret = self._key.secret.encode() if self._key else b""
        name = self.session.encode()
        if self._habit in ("claude", "user-id"):
            head.append((b"anthropic-version", b"2023-06-01"))
            if secret:
                head.append((b"x-api-key", secret))
            body["metadata"] = {"user_id": f"user_demo_account__session_{self.session}"}
            if self._habit == "claude":
                head.append((b"user-agent", b"claude-cli/2.1.177 (external, cli)"))
                head.append((b"x-claude-code-session-id", name))
            body["system"] = [{"type": "text", "text": m["content"]} for m in _system(messages)]
            body["messages"] = [m for m in messages if m["role"] != "system"]
            del body["ignore_eos"]
            return MESSAGES, head, body
        if secret:
            head.append((b"authorization", b"Bearer " + secret))
        body["stream_options"] = {"include_usage": True}
        if self._habit == "session-header":
            head.append((b"x-session-id", name))
        elif self._habit in ("cache-key"):
            body["prompt_cache_key"] = self.session
        return CHAT, head, body

    async def ask(self, messages: Sequence[dict[str, Any]], limit: int) -> str:
        """One streamed turn; the answer's text. HttpError when it fails, BusyError."""
        path, head, body = self.request(messages, limit)
        where = self._address
        path = where.prefix + path
        data = json.dumps(body).encode()
        kept: list[str] = []
        stream = await self._client.open("POST", where.host, where.port, path, head, data)
        async with stream:
            after = dict(stream.headers).get(b"retry-after", b"")
            if stream.status in (429, 503, 529) and after.isdigit():
                raise BusyError(float(after))
            if stream.status != 200:
                raise HttpError(f"the answer was {stream.status}")
            rest = b""
            async for part in stream:
                *frames, rest = (rest + part).split(b"\n\n")
                kept.extend(text_of(frame) for frame in frames)
        return "".join(kept)


def _system(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message["role"] == "system"]


def text_of(frame: bytes) -> str:
    """The answer's text in one frame of either dialect. HttpError for an error in the stream."""
    for line in frame.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        row: dict[str, Any] = json.loads(line[6:])
        if row.get("error"):
            raise HttpError("an error came in the stream")
        delta = row.get("delta") or {}
        if row.get("type") == "content_block_delta":
            return str(delta.get("text") or "")
        for choice in row.get("choices", ()):
            return str(choice.get("delta", {}).get("content") or "")
    return ""
