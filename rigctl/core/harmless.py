"""Takes out of text what a terminal would obey: engines, process names and people write anything.

Colours and cursor moves go without a trace; any other control character becomes `�`, so that a
person sees that something was there. Line ends and tabs stay.
"""

from __future__ import annotations

import re

MARK = "\ufffd"

_COLOUR = r"\x1b\[[0-9;:]*m"
_SEQUENCE = r"\x1b\[[0-?]*[ !#-/]*[@-\[\]-~]"
"""All that ECMA-48 allows but the two signs that JSON escapes, so that both forms agree."""
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
"""C0, DEL, C1 (one character of those opens a sequence too), and what turns text around."""

_ANY = re.compile(f"(?P<sequence>{_SEQUENCE})|{_CONTROL}")
_PAINTED = re.compile(f"(?P<colour>{_COLOUR})|(?P<sequence>{_SEQUENCE})|{_CONTROL}")

_JSON = re.compile(
    rb"(?P<sequence>\\u001[bB]\[[0-?]*[ !#-/]*[@-\[\]-~])"
    rb"|(?P<control>\\u00[01][0-9a-fA-F]|\\u007[fF]|\\u00[89][0-9a-fA-F]|\\[bfr]"
    rb"|\\u20(?:2[89a-eA-E]|6[6-9])|\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9])"
    rb"|(?P<other>\\.)"
)
_JSON_MARK = MARK.encode()
_ESCAPES = (b"\\u", b"\\b", b"\\f", b"\\r", b"\x7f")
_RAW = tuple(
    re.compile(signs)
    for signs in (rb"\xc2[\x80-\x9f]", rb"\xe2\x80[\xa8-\xae]", rb"\xe2\x81[\xa6-\xa9]")
)
"""Quick looks: nearly every line has none of these, and a snapshot is read for each prompt."""


def harmless(text: str) -> str:
    """The text as any terminal may be given it."""
    return _ANY.sub(_replaced, text)


def one_line(text: str) -> str:
    """The same on one line: for names, which have a place in a row."""
    return " ".join(harmless(text).split())


def harmless_painted(text: str) -> str:
    """The same for text in which we have put colours ourselves: those stay."""
    return _PAINTED.sub(_replaced_painted, text)


def harmless_json(line: bytes) -> bytes:
    """One line of JSON whose strings are harmless once decoded; its structure stays."""
    if any(each in line for each in _ESCAPES) or any(each.search(line) for each in _RAW):
        return _JSON.sub(_replaced_json, line)
    return line


def _replaced(match: re.Match[str]) -> str:
    return "" if match["sequence"] else MARK


def _replaced_painted(match: re.Match[str]) -> str:
    return match["colour"] or _replaced(match)


def _replaced_json(match: re.Match[bytes]) -> bytes:
    if match["other"]:
        return match[0]  # `\\`, `\"`, `\n`: taken as a pair, so that `\\u001b` is no control
    return b"" if match["sequence"] else _JSON_MARK
