"""The scanner that finds lines agrees with tomllib about which keys there are."""

from __future__ import annotations

import tomllib
from typing import Any

import tomli_w
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from rigctl.config.lines import key_lines

TRICKY = '''\
# a comment with [brackets] and "quotes"
top = "a # no comment" # a comment
multi = """
[not.a.table]
key = 1 \\"""
""""
raw = \'\'\'
other = 2'\'\'\'
"quoted key" = 'C:\\dir'
a.b . "c.d" = 1979-05-27 07:32:00
[[group]]
name = "one" # [[group]]
cards = [
  "GPU-a", # first
  1,

  { deep = [ 2, 3 ] },
]
[group.env]
A = "x"
[[group]]
env = { B = "y", C.d = "z" }
[[group.sub]]
x = 1
[[group.sub]]
x = 2
'''


def test_each_key_of_a_tricky_file_has_its_line() -> None:
    """Strings, comments, arrays and headers that look like each other are told apart."""
    tomllib.loads(TRICKY)
    lines = key_lines(TRICKY)
    assert lines[("top",)] == 2
    assert lines[("multi",)] == 3
    assert lines[("raw",)] == 7
    assert lines[("quoted key",)] == 9
    assert lines[("a", "b", "c.d")] == 10
    assert lines[("group", 0)] == 11
    assert lines[("group", 0, "cards", 0)] == 14
    assert lines[("group", 0, "cards", 1)] == 15
    assert lines[("group", 0, "cards", 2, "deep", 1)] == 17
    assert lines[("group", 0, "env", "A")] == 20
    assert lines[("group", 1, "env", "C", "d")] == 22
    assert lines[("group", 1, "sub", 1, "x")] == 26
    assert ("not", "a", "table") not in lines
    assert ("key",) not in lines
    assert ("other",) not in lines


def test_windows_line_ends_count_once() -> None:
    """CRLF is one line end."""
    assert key_lines("a = 1\r\n\r\nb = 2\r\n")[("b",)] == 3


def leaves(value: object, at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Paths of all values that tomllib saw."""
    found: set[tuple[str | int, ...]] = set()
    if isinstance(value, dict):
        for key, item in value.items():
            found |= {(*at, key)} | leaves(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found |= {(*at, index)} | leaves(item, (*at, index))
    return found


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
SCALAR = st.one_of(
    TEXT, st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.datetimes()
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


@seed(20261129)
@settings(max_examples=300, deadline=None, database=None)
@given(st.dictionaries(TEXT, VALUE, max_size=6), st.booleans())
def test_scanner_and_tomllib_see_the_same_keys(data: dict[str, Any], multiline: bool) -> None:
    """Whatever TOML holds, each key and element has a line, within the file, and no other has."""
    text = tomli_w.dumps(data, multiline_strings=multiline)
    lines = key_lines(text)
    wanted = leaves(tomllib.loads(text))
    assert set(lines) - {()} <= wanted
    # An empty table written as a part of a longer header has no line of its own.
    assert {path for path in wanted if path not in lines} <= {
        path[:size] for path in lines for size in range(len(path))
    }
    last = text.count("\n") + 1
    assert all(1 <= line <= last for line in lines.values())
