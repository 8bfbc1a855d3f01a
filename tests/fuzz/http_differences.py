"""Where we and h11 may differ on accept or refuse, each with its reason.

Everything not named here fails the fuzz tests: a new difference is looked at before it is listed.
"""

from __future__ import annotations

import re
from typing import Final

WE_REFUSE: Final[dict[str, str]] = {
    # line ends and blanks: h11 takes bare line feeds and folded lines, which others read otherwise
    r"Missing expected (CR|LF) after|Expected (CRLF|LF|CR)": "a bare CR or LF ends no line",
    r"Unexpected whitespace after header value": "folded header lines are deprecated",
    r"Unexpected space after start line": "a blank first header line",
    r"Expected space after": "a start line without its blanks",
    # start lines: h11 waits for the line's end before it looks at it, we refuse at the first byte
    r"Expected (HTTP/, RTSP/ or ICE/|dot|HTTP/)": "no HTTP version where one belongs",
    r"Invalid (method encountered|major version|minor version|HTTP version)": "not HTTP/1.0 or 1.1",
    r"Invalid (status code|response status)|no status": "no status of three digits",
    r"HTTP/\d\.\d is not spoken here": "HTTP/0.9 and 2.0 are other protocols",
    r"(start char|char in url|chars? in url|characters in url|url (schema|server|path|query))": (
        "a target that is no URL"
    ),
    r"a target that is neither a path nor": "h11 leaves the form of a target to its user",
    # header lines
    r"Invalid header (token|field char|value char)": "h11 waits for the line's end",
    r"Invalid character in (Content-Length|chunk size)|Empty Content-Length|overflow": "no number",
    r"(Duplicate Content-Length|two Hosts|HTTP/1\.1 without Host|two transfer codings)": (
        "h11 merges equal lengths, and asks the fields of a 1.1 request only at its end"
    ),
    r"(Content-Length can't be present|Transfer-Encoding can't be present)": (
        "two framings: h11 lets chunked win (RFC 9112 6.3 allows both)"
    ),
    r"a transfer coding other than chunked|([Ii]nvalid|Empty) `?Transfer-Encoding": (
        "h11 refuses these as well where it comes so far, and takes them in HTTP/1.0"
    ),
    r"HTTP/1\.0 with Transfer-Encoding": "a proxy between might not see the chunks",
    r"only 100-continue can be expected": "417, which h11 leaves to its user",
    r"neither tunnels nor upgrades": "501, which h11 leaves to its user",
    # bodies
    r"Invalid character in chunk extensions": "h11 passes over whatever follows the size",
    r"Expected LF after chunk (size|data)": "a chunk longer than it said",
    r"Data after `Connection: close`": "h11 leaves what follows the last request unread",
    r"an interim answer with a body": "h11 reads none, httptools would: neither is safe",
    r"the server switched protocols unasked": "101 without having been asked",
}
"""Our reason for refusing what h11 accepts, or has not yet refused."""

THEY_REFUSE: Final[dict[str, str]] = {
    r"no (request|response) line received": "blank lines before a message (RFC 9112 2.2)",
    r"illegal (request|status) line: bytearray\(b'(\\r|\\n)": "the same, a lone CR or LF",
    r"illegal (request|status) line$": "the same, a message begun after it",
    r"illegal request line: bytearray\(b['\"](\S+  +\S+ +|\S+ \S+  +)HTTP/1\.\d['\"]\)": (
        "more than one blank between the parts of a request line; RFC 9112 3 lets us"
    ),
    r"multiple Transfer-Encoding headers": "answers of some servers say chunked twice (C50)",
    r"illegal status line": "control bytes in a reason phrase, which goes nowhere",
}
"""h11's reason for refusing what we accept."""

AFTER_AN_UPGRADE: Final = re.compile(rb"(?i)upgrade")
"""What follows an offered upgrade is not read: we answer in HTTP/1.1 and close."""


def explained(table: dict[str, str], refusal: str) -> bool:
    """Whether a refusal is one of those listed."""
    return any(re.search(pattern, refusal) for pattern in table)
