"""Which header fields may travel on, and which belong to the one connection they came over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rigctl.adapters.http1.messages import Headers

_OF_THE_CONNECTION: Final = frozenset(
    {
        b"connection",
        b"content-length",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Hop-by-hop, or made anew for the next hop: its length, its framing, its name."""
_ONCE: Final = frozenset({b"content-type", b"date", b"server"})
"""Fields of one value: clients refuse an answer that has two (C50)."""


def forwardable(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The fields that go on to the next hop, in order (C50). Names come in lower case.

    Dropped: `Connection` and every field it names, the other hop-by-hop fields, `Proxy-*`,
    `Host` and `Content-Length`, and what repeats a field of one value.
    """
    fields = tuple(headers)
    named = {
        token.strip().lower()
        for name, value in fields
        if name == b"connection"
        for token in value.split(b",")
    }
    kept: list[tuple[bytes, bytes]] = []
    seen: set[bytes] = set()
    for name, value in fields:
        if name in _OF_THE_CONNECTION or name in named or name.startswith(b"proxy-"):
            continue
        if name in _ONCE:
            if name in seen:
                continue
            seen.add(name)
        kept.append((name, value))
    return tuple(kept)
