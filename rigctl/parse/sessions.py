"""The explicit id of a session, from the first place in the stated order where a client put one."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from operator import attrgetter

import msgspec
from msgspec import UNSET

from rigctl.core.ask import SessionId
from rigctl.parse.chains import encode
from rigctl.parse.opened import Body

MOST_ID = 4_096
"""Characters of an id; a longer one is none."""

_SESSION_PART = re.compile(r"session_([0-9A-Za-z-]{8,})")


def session_of(headers: tuple[tuple[bytes, bytes], ...], fields: Body) -> SessionId | None:
    """The first of `SOURCES` that is there. `user` alone is no session."""
    sent: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _HEADERS:
            sent.setdefault(name, value.strip())
    if not sent and _in_body(fields) == _NOTHING:
        return None  # as many clients do: nothing to be looked for ten times
    for source, found in SOURCES:
        there = sent.get(found, b"") if isinstance(found, bytes) else found(fields)
        if not there:
            continue
        data = encode(there) if isinstance(there, str) else there
        if len(data) <= MOST_ID:
            return SessionId(source, blake2b(data, digest_size=16).hexdigest())
    return None


def _metadata(fields: Body) -> str:
    """The session's part of Anthropic's `user_id`, which names user and account besides.

    `user_…_account_…_session_…`, or a JSON object in a string. One without a session is a user.
    """
    user = fields.metadata.get("user_id") if isinstance(fields.metadata, dict) else None
    if not isinstance(user, str) or len(user) > MOST_ID:
        return ""
    if user.startswith("{"):
        try:
            inner = msgspec.json.decode(user)
        except (msgspec.DecodeError, RecursionError):
            return ""
        session = inner.get("session_id") if isinstance(inner, dict) else None
        return session if isinstance(session, str) else ""
    found = _SESSION_PART.search(user)
    return found[1] if found is not None else ""


def _conversation(fields: Body) -> str:
    found = fields.conversation
    if isinstance(found, dict):
        found = found.get("id")
    return found if isinstance(found, str) else _text(fields.conversation_id)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


SOURCES: tuple[tuple[str, bytes | Callable[[Body], str]], ...] = (
    ("x-claude-code-session-id", b"x-claude-code-session-id"),
    ("metadata.user_id", _metadata),
    ("session-id", b"session-id"),
    ("session_id", b"session_id"),
    ("session_id in the body", lambda fields: _text(fields.session_id)),
    ("x-session-id", b"x-session-id"),
    ("x-session-affinity", b"x-session-affinity"),
    ("x-client-request-id", b"x-client-request-id"),
    ("prompt_cache_key", lambda fields: _text(fields.prompt_cache_key)),
    ("conversation", _conversation),
)
"""Name of the source, and the header or what finds it in the body."""

_in_body = attrgetter(
    *("metadata", "session_id", "prompt_cache_key", "conversation", "conversation_id")
)
_NOTHING = (UNSET,) * 5
_HEADERS = frozenset(found for _, found in SOURCES if isinstance(found, bytes))
