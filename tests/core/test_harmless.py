"""What anybody wrote reaches a person's terminal as text and never as an order to it."""

from __future__ import annotations

import json
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rigctl.core.harmless import harmless, harmless_json, harmless_painted, one_line

ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

SPICED = st.lists(
    st.one_of(
        st.sampled_from(
            ["\x1b", "[", "]0;", "\x9b", "\\", '"', "\u202e", "31m", "\r", "\n", "u001b"]
        ),
        st.text(max_size=3),
    ),
    max_size=12,
).map("".join)


@settings(derandomize=True, deadline=None)
@given(SPICED)
@example("\x1b]0;pwned\x07")
@example("\x1b[2J\x1b[31mred")
@example('\x1b["x')
@example("\\u001b[2J")
def test_no_order_to_a_terminal_is_left(text: str) -> None:
    """No control character but line ends and tabs comes through, as text or out of JSON."""
    assert not ORDERS.search(harmless(text))
    for ascii_only in (True, False):
        encoded = json.dumps({"say": text}, ensure_ascii=ascii_only).encode("utf-8", "replace")
        decoded = json.loads(harmless_json(encoded))["say"]
        assert decoded == harmless(json.loads(encoded)["say"])


def test_plain_words_of_any_language_stay() -> None:
    """Text without orders is given through unchanged, escapes of JSON included."""
    for text in ("4×3090 · 262k → 524k “long”", "日本語", "a\tb\nc", "C:\\u001b", "≥ 10 …"):
        assert harmless(text) == text
        for ascii_only in (True, False):
            encoded = json.dumps([text], ensure_ascii=ascii_only).encode()
            assert json.loads(harmless_json(encoded)) == [text]


def test_our_own_colours_stay_and_nothing_else() -> None:
    """A painted line keeps its colours; titles, cursor moves and clears in it go."""
    painted = "\x1b[31mbad\x1b[0m"
    assert harmless_painted(f"{painted}\x1b[2J\x1b]0;x\x07") == f"{painted}\ufffd]0;x\ufffd"


def test_a_name_is_one_line() -> None:
    """A name stands in a row: line ends in it would break the rows below."""
    assert one_line(" a\nb\t\x1b[1mc ") == "a b c"
