"""A client's body → the engine's: our ids spliced in front, what a client may not say taken out.

On the normal path the client's bytes are not touched, copied or encoded anew: our keys go before
its first one. JSON's last key of a name wins, so wherever the client sent a key that is ours, or
one of `extras`, the top level is written anew, each value byte-true, and its key is gone, however
often and however it was spelled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from rigctl.core.ask import Endpoint
from rigctl.parse import edits
from rigctl.parse.opened import Opened, open_body

_HEAD = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*")

_RID = {
    Endpoint.CHAT: "rid",
    Endpoint.COMPLETIONS: "rid",
    Endpoint.RESPONSES: "request_id",
}
"""Where a body carries its id; the engine's `/v1/messages` has no such place, and nothing is added
there: it drops what it does not know without a word."""
_SESSION = frozenset({Endpoint.CHAT, Endpoint.COMPLETIONS, Endpoint.RESPONSES})
_BUDGET = frozenset({Endpoint.CHAT, Endpoint.COMPLETIONS})
_USAGE = frozenset({Endpoint.CHAT, Endpoint.COMPLETIONS})
RESPONSE_ID = "resp_"
"""Before the rid on `/v1/responses`, where it is the response's own id, too."""


class Wishes(NamedTuple):
    """What the proxy wants of one request."""

    rid: str = ""
    session_id: str | None = None
    """For the engine's session radix cache; None: this engine keeps none."""
    model: str | None = None
    """The engine's own name, where clients see another one."""
    think_cap: int | None = None
    """The owner's cap on thinking, in tokens; None: only the engine's own."""
    thinking: int | None = None
    """What the client asked for in its own dialect, `Ask.thinking`."""
    budgets: bool = False
    """The engine obeys `custom_params.thinking_budget` (a probe found out)."""
    effort: Mapping[str, str] = MappingProxyType({})
    """Level → the level that the template takes (a probe found out); empty: no thinking at all."""
    include_usage: bool = True
    """Ask a stream for its usage where the client did not (C46)."""
    priorities: bool = False
    """The owner lets clients' `priority` through."""
    normalize: bool = False
    """Take the billing line off the system text (C18)."""


class Rewritten(NamedTuple):
    """What to send, in its parts: write them one after the other."""

    parts: tuple[bytes | memoryview, ...]
    added_usage: bool = False
    """We asked for a usage chunk: it is ours to swallow."""
    notes: tuple[str, ...] = ()
    """What was changed of the client's own, for `route explain`: names of keys, never values."""
    rid: str = ""
    """The id under which the engine knows the request; empty: it knows none."""
    fault: str = ""
    """Not empty: no JSON object, and `parts` is empty. Answer 400 with these words: what we cannot
    read another reader might, and a client's own `rid` with it."""

    @property
    def length(self) -> int:
        """Bytes of all parts."""
        return sum(map(len, self.parts))


def rewrite(endpoint: Endpoint, body: bytes | Opened, wishes: Wishes) -> Rewritten:
    """The body for the engine; never raises.

    `body` may be opened before, so that one decoding serves this and `read_ask`.
    """
    opened = body if isinstance(body, Opened) else open_body(body)
    if opened.fault:
        return Rewritten((), fault=opened.fault)
    changes = edits.Changes(opened)
    added: dict[str, Any] = {}
    rid = ""
    if wishes.rid and endpoint in _RID:
        rid = RESPONSE_ID + wishes.rid if endpoint is Endpoint.RESPONSES else wishes.rid
        added[_RID[endpoint]] = rid
    if wishes.session_id is not None and endpoint in _SESSION:
        added["session_id"] = wishes.session_id
    fields = opened.body
    if opened.extras or fields.priority is not UNSET:
        edits.strip(changes, wishes.priorities)
    if fields.custom_params is not UNSET or wishes.thinking is not None:
        budget = edits.budget(changes, wishes, endpoint in _BUDGET)
        if budget is not None:
            added["custom_params"] = {"thinking_budget": budget}
    usage = (
        wishes.include_usage
        and endpoint in _USAGE
        and fields.stream is True
        and edits.usage(changes, added)
    )
    if wishes.model is not None and fields.model != wishes.model:
        changes.drop("model", note=False)
        added["model"] = wishes.model
    if wishes.effort:
        edits.effort(changes, endpoint, wishes.effort, added)
    if wishes.normalize:
        edits.billing(changes, endpoint)
    if changes.touched:
        parts: tuple[bytes | memoryview, ...] = (_anew(opened, changes, added),)
    else:
        parts = _spliced(opened.raw, added)
    return Rewritten(parts, usage, tuple(changes.notes), rid)


def _spliced(raw: bytes, added: Mapping[str, Any]) -> tuple[bytes | memoryview, ...]:
    """Our keys in front of the rest of the client's bytes."""
    if not added:
        return (raw,)
    ours = msgspec.json.encode(added)
    head = _HEAD.match(raw)
    # It was decoded as an object: it has a brace, and something after it.
    at = head.end() if head is not None else 0
    if raw[at : at + 1] == b"}":
        return (ours,)
    return (ours[:-1] + b",", memoryview(raw)[at:])


def _anew(opened: Opened, changes: edits.Changes, added: Mapping[str, Any]) -> bytes:
    """The top level written anew; values that did not change are the client's own bytes."""
    if opened.plain is not None:
        plain = {key: value for key, value in opened.plain.items() if key not in changes.dropped}
        # ASCII, so that lone surrogates survive, and NaN as the engine's reader takes it.
        return json.dumps({**added, **plain, **changes.put}).encode()
    kept = msgspec.json.decode(opened.raw, type=dict[str, msgspec.Raw])
    for key in changes.dropped:
        kept.pop(key, None)
    return msgspec.json.encode({**added, **kept, **changes.put})
