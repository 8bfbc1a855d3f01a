"""Whose request it is: keys by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from rigctl.adapters.http1 import RequestHead
from rigctl.core.link_words import Table, TableClient

NOBODY = "-"
"""The client of every request while no keys exist."""
_ANYBODY = TableClient(NOBODY, "")


def hashes(table: Table) -> Mapping[str, TableClient]:
    """The table's clients by the hash of their key."""
    return {client.key_hash: client for client in table.clients}


def given_key(head: RequestHead) -> bytes | None:
    """The key of a request, from either dialect's header; None without one."""
    bearer = head.header(b"authorization")
    if bearer is not None and bearer[:7].lower() == b"bearer ":
        return bearer[7:].strip()
    return head.header(b"x-api-key")


def client_of(head: RequestHead, known: Mapping[str, TableClient]) -> TableClient | None:
    """The client, or None where its key is none of ours.

    The hash of what was sent is looked up, so that no comparison's time tells of a key.
    """
    if not known:
        return _ANYBODY
    key = given_key(head)
    return None if key is None else known.get(hashlib.sha256(key).hexdigest())
