"""The words of `core.link_words` as lines, both ways: daemon and proxy each hold one end.

A line is `{"kind": …, "body": {…}}`: the kind says which dataclass the body's fields are. Of
another version everything that can be understood is: unknown fields and kinds are passed over.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import msgspec

from rigctl.control import wire
from rigctl.control.wire import WireError
from rigctl.core import link_words
from rigctl.core.link_words import LINK_PROTOCOL, Hello, ToDaemon, ToProxy

LINK_LIMIT: Final = 1024 * 1024
"""Bytes of one line, its end included: sixty-four sessions take 40 kB, a thousand clients 150."""

TO_PROXY: Final[dict[str, type]] = {
    "table": link_words.Table,
    "progress": link_words.Progress,
    "abort": link_words.AbortRequest,
    "hand-over": link_words.HandOver,
    "give-socket": link_words.GiveSocket,
}

TO_DAEMON: Final[dict[str, type]] = {
    "gate": link_words.GateState,
    "flow": link_words.Flow,
    "routes": link_words.Routes,
    "evidence": link_words.Evidence,
    "aborted": link_words.Aborted,
    "leaving": link_words.Leaving,
}
"""Without Hello, which is the question `link` that begins it all."""


class _Head(msgspec.Struct):
    """What every line has; the rest is read once it is known what it is."""

    kind: str = ""
    body: msgspec.Raw = msgspec.Raw()
    say: str = ""
    code: str = ""


class _Ask(msgspec.Struct):
    """The protocol of a `link` question, readable whatever the rest of it looks like."""

    protocol: int = 0
    rigctl: str = "?"


_head = msgspec.json.Decoder(_Head)
_ask = msgspec.json.Decoder(_Ask)
_hello = msgspec.json.Decoder(Hello)
_shapes: Final = {**TO_PROXY, **TO_DAEMON}
_decoders: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    kind: msgspec.json.Decoder(shape) for kind, shape in _shapes.items()
}
_kinds: Final = {shape: kind for kind, shape in _shapes.items()}


# The first word -------------------------------------------------------------------------------


def encode_hello(hello: Hello) -> bytes:
    """The proxy's first line on a connection, which makes a link of it."""
    return wire.line({"do": "link", **dataclasses.asdict(hello)})


def decode_hello(raw: bytes, rigctl: str) -> Hello:
    """The proxy in a `link` question; `rigctl` is our own version, for the words of a mismatch.

    WireError with the code `version` where it speaks another protocol: both keep running, and the
    proxy serves on by its last table.
    """
    try:
        asked = _ask.decode(raw)
        if asked.protocol != LINK_PROTOCOL:
            raise WireError(_mismatch(asked.protocol, asked.rigctl, rigctl), "version")
        return _hello.decode(raw)
    except msgspec.DecodeError as error:
        raise WireError(f"that is no proxy's hello: {error}") from error


def _mismatch(protocol: int, theirs: str, ours: str) -> str:
    """Which of the two is older, and what makes them of one version."""
    if protocol < LINK_PROTOCOL:
        return (
            f"the proxy (rigctl {theirs}) is older than the daemon (rigctl {ours}) and speaks "
            f"link protocol {protocol}, not {LINK_PROTOCOL}; it serves on by its last table: "
            "`rigctl endpoint restart` puts a new one in its place, no answer is cut"
        )
    return (
        f"the daemon (rigctl {ours}) is older than the proxy (rigctl {theirs}) and speaks link "
        f"protocol {LINK_PROTOCOL}, not {protocol}; `rigctl daemon stop` and then any act starts "
        "the new one, engines and answers go on"
    )


# Everything after it --------------------------------------------------------------------------


def encode(message: ToProxy | ToDaemon) -> bytes:
    """One message as one line; WireError with the code `too-long` where it is over the limit.

    JSON has no infinity and no not-a-number: such a figure arrives as a reason, not as a line
    that the other side cannot read.
    """
    if isinstance(message, Hello):
        return encode_hello(message)
    kind = _kinds[type(message)]
    body = msgspec.json.encode(message)
    try:
        _decoders[kind].decode(body)
    except msgspec.ValidationError:
        body = msgspec.json.encode(wire.finite(message))
    encoded = b'{"kind":"%s","body":%s}\n' % (kind.encode(), body)
    if len(encoded) > LINK_LIMIT:
        raise WireError(f"a `{kind}` of {len(encoded)} bytes is over {LINK_LIMIT}", "too-long")
    return encoded


def decode_to_proxy(raw: bytes) -> ToProxy | None:
    """What the daemon says; None for a kind that this version does not know.

    WireError for a line that is none, and for the daemon's own word that it will not have this
    link: then `code` is its code (`version`, `not-allowed`, `busy`) and `say` the reason.
    """
    head = _read_head(raw)
    if head.kind == "error":
        raise WireError(head.say, head.code or "error")
    message: ToProxy | None = _body(head, TO_PROXY)
    return message


def decode_to_daemon(raw: bytes) -> ToDaemon | None:
    """What the proxy says; None for a kind that this version does not know. WireError as above."""
    message: ToDaemon | None = _body(_read_head(raw), TO_DAEMON)
    return message


def _read_head(raw: bytes) -> _Head:
    if len(raw) > LINK_LIMIT:
        raise WireError(f"a line on the link is at most {LINK_LIMIT} bytes long", "too-long")
    try:
        return _head.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"that line is no message of the link: {error}") from error


def _body(head: _Head, known: dict[str, type]) -> Any:
    if head.kind not in known:
        return None
    try:
        return _decoders[head.kind].decode(head.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"a `{head.kind}` of another shape: {error}", "version") from error
