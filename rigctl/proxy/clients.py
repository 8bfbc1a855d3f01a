"""Whose request it is: keys by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from rigctl.adapters.http1 import RequestHead
from rigctl.config.proxy_checks import is_loopback
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


def only_here(addresses: Iterable[str]) -> bool:
    """Whether only this machine reaches what listens on these."""
    return all(is_loopback(address) for address in addresses)


def client_of(
    head: RequestHead, known: Mapping[str, TableClient], local: bool
) -> TableClient | None:
    """The client, or None where its key is none of ours.

    `local`: only this machine reaches the endpoint; then, while no keys exist, none is asked for.
    The hash of what was sent is looked up, so that no comparison's time tells of a key.
    """
    if not known and local:
        return _ANYBODY
    key = given_key(head)
    return None if key is None else known.get(hashlib.sha256(key).hexdigest())
