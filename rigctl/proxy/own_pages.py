"""The pages that the endpoint answers itself: models, readiness, metrics, the root."""

from __future__ import annotations

import msgspec

from rigctl.adapters.http1 import Exchange
from rigctl.core.ask import Dialect
from rigctl.core.link_words import Table, TableGroup
from rigctl.proxy.answers import say_error
from rigctl.proxy.metrics import CONTENT_TYPE, Metrics
from rigctl.proxy.paths import Kind, Place

JSON = (b"content-type", b"application/json")
ROOT = b"rigctl endpoint: POST /v1/chat/completions, GET /v1/models\n"
TEXT = (b"content-type", b"text/plain; charset=utf-8")


def served_model(table: Table) -> str:
    """The one name that clients see."""
    if table.policy.model:
        return table.policy.model
    return table.groups[0].model if table.groups else ""


def reported_window(table: Table) -> int:
    """Tokens that `/v1/models` says: the configured group's, else the first one's."""
    named = [group for group in table.groups if group.name == table.policy.reported_window]
    for group in (*named, *_in_order(table)):
        if group.window:
            return group.window
    return 0


def _in_order(table: Table) -> tuple[TableGroup, ...]:
    wanted = {name: place for place, name in enumerate(table.policy.order)}
    return tuple(sorted(table.groups, key=lambda group: wanted.get(group.name, len(wanted))))


def model_row(table: Table) -> dict[str, object]:
    """One model in both dialects' fields, which do not clash."""
    name = served_model(table)
    row: dict[str, object] = {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "rigctl",
        "root": name,
        "parent": None,
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    }
    window = reported_window(table)
    if window:
        row["max_model_len"] = window
    return row


async def answer(
    exchange: Exchange, place: Place, table: Table, metrics: Metrics, ready: str
) -> int:
    """One own page; the status sent. `ready`: why no work is taken now, empty when it is."""
    match place.kind:
        case Kind.LIVE:
            await exchange.respond(200, b"live\n", [TEXT])
        case Kind.READY if not ready:
            await exchange.respond(200, b"ready\n", [TEXT])
        case Kind.READY:
            await exchange.respond(503, f"not ready: {ready}\n".encode(), [TEXT])
        case Kind.METRICS:
            await exchange.respond(200, metrics.text(), [(b"content-type", CONTENT_TYPE)])
        case Kind.MODELS:
            await _json(exchange, _model_list(table, place.dialect))
        case Kind.MODEL if place.name == served_model(table):
            await _json(exchange, model_row(table))
        case Kind.MODEL:
            say = f"the model served here is `{served_model(table)}`"
            return await say_error(exchange, place.dialect, 404, "model_not_found", say)
        case _:
            await exchange.respond(200, ROOT, [TEXT])
    return exchange.status


def _model_list(table: Table, dialect: Dialect) -> dict[str, object]:
    row = model_row(table)
    if dialect is Dialect.ANTHROPIC:
        return {"data": [row], "has_more": False, "first_id": row["id"], "last_id": row["id"]}
    return {"object": "list", "data": [row]}


async def _json(exchange: Exchange, body: object) -> None:
    await exchange.respond(200, msgspec.json.encode(body), [JSON])
