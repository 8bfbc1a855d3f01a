"""Which paths exist here. Nothing else can be reached: no engine control path is ever forwarded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from rigctl.core.ask import Dialect, Endpoint


class Kind(Enum):
    FORWARD = "forward"
    MODELS = "models"
    MODEL = "model"
    LIVE = "live"
    READY = "ready"
    METRICS = "metrics"
    ROOT = "root"


class Place(NamedTuple):
    """What a path means."""

    kind: Kind
    dialect: Dialect = Dialect.OPENAI
    endpoint: Endpoint | None = None
    name: str = ""
    """The model asked for by `/v1/models/NAME`."""
    query: str = ""
    """`?beta=true`, kept for the engine (C47)."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """404 or 405, in the client's dialect."""

    status: int
    say: str
    dialect: Dialect
    allow: str = ""


_FORWARDED = {endpoint.value: endpoint for endpoint in Endpoint} | {
    "/v1/tokenize": Endpoint.TOKENIZE
}
_OWN = {
    "/livez": Kind.LIVE,
    "/healthz": Kind.LIVE,
    "/readyz": Kind.READY,
    "/health": Kind.READY,
    "/metrics": Kind.METRICS,
    "/v1/models": Kind.MODELS,
    "/": Kind.ROOT,
}
_MODEL = "/v1/models/"


def dialect_of(path: str, anthropic_version: bytes | None) -> Dialect:
    """In whose words the client wants its errors, told before anything else is known of it."""
    if path.startswith("/v1/messages") or anthropic_version is not None:
        return Dialect.ANTHROPIC
    return Dialect.OPENAI


@lru_cache(maxsize=64)
def find_place(method: str, target: bytes, anthropic_version: bytes | None) -> Place | NoPlace:
    """The place of a request line. Matches whole literal paths: `//`, `..` and `%2e` match none."""
    path, mark, query = _origin_form(target).partition("?")
    dialect = dialect_of(path, anthropic_version)
    endpoint = _FORWARDED.get(path)
    if endpoint is not None:
        if method != "POST":
            return _wrong_method(method, path, "POST", dialect)
        return Place(Kind.FORWARD, dialect, endpoint, query=mark + query)
    kind = _OWN.get(path)
    if kind is not None or path.startswith(_MODEL):
        if method not in ("GET", "HEAD"):
            return _wrong_method(method, path, "GET, HEAD", dialect)
        name = unquote(path.removeprefix(_MODEL)) if kind is None else ""
        return Place(kind or Kind.MODEL, dialect, name=name)
    say = f"there is no {path[:200]} here; what is served: {', '.join(sorted(_FORWARDED))}"
    return NoPlace(404, f"{say}, /v1/models", dialect)


def _origin_form(target: bytes) -> str:
    """The target without scheme and authority, where a client sent the absolute form."""
    text = target.decode("latin-1")
    if text.startswith(("http://", "https://")):
        rest = text.partition("://")[2]
        slash = rest.find("/")
        return rest[slash:] if slash >= 0 else "/"
    return text


def _wrong_method(method: str, path: str, allow: str, dialect: Dialect) -> NoPlace:
    return NoPlace(405, f"{path} takes {allow}, not {method}", dialect, allow)
