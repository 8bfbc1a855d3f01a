"""The line on which each key of a TOML text stands, which tomllib does not tell."""

from __future__ import annotations

import re
import tomllib

KeyPath = tuple[str | int, ...]
"""`("group", 0, "port")`: names, and positions inside arrays."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_VALUE = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line (from 1) of every table header, key and array element.

    The text must be valid TOML: tomllib has accepted it. Faults in it are not looked for.
    """
    return _Scanner(text.replace("\r\n", "\n")).run()


class _Scanner:
    """Walks the text once, leaving out strings and comments, counting lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.counted = 0
        self.line = 1
        self.lines: dict[KeyPath, int] = {}
        self.arrays: dict[KeyPath, int] = {}
        """Index of the newest element of each `[[array]]`."""

    def run(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while True:
            self._skip(" \t\n")
            if self.position >= len(self.text):
                return self.lines
            if self.text[self.position] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _here(self) -> int:
        """The line of the current position; positions only grow."""
        self.line += self.text.count("\n", self.counted, self.position)
        self.counted = self.position
        return self.line

    def _skip(self, blanks: str) -> None:
        """Step over blanks and comments."""
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == "#":
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            elif character in blanks:
                self.position += 1
            else:
                return

    def _header(self) -> KeyPath:
        """`[table]` or `[[array]]`: the path that the keys below it belong to."""
        line = self._here()
        many = self.text.startswith("[[", self.position)
        self.position += 2 if many else 1
        names = self._dotted()
        self._skip(" \t")
        self.position += 2 if many else 1
        path: KeyPath = ()
        for name in names[:-1]:
            path = self._inside((*path, name))
        path = (*path, names[-1])
        if many:
            self.arrays[path] = self.arrays.get(path, -1) + 1
        path = self._inside(path)
        self.lines[path] = line
        return path

    def _inside(self, path: KeyPath) -> KeyPath:
        """The newest element, where the path is an array of tables."""
        return (*path, self.arrays[path]) if path in self.arrays else path

    def _pair(self, table: KeyPath) -> None:
        """`key = value`."""
        line = self._here()
        path = table
        for name in self._dotted():
            path = (*path, name)
            self.lines.setdefault(path, line)
        self._skip(" \t")
        self.position += 1
        self._value(path)

    def _dotted(self) -> list[str]:
        """A key of one or more parts, bare or quoted."""
        names: list[str] = []
        while True:
            self._skip(" \t")
            if self.text[self.position] in "\"'":
                start = self.position
                self._string()
                raw = self.text[start : self.position]
                names.append(str(tomllib.loads(f"key = {raw}")["key"]))
            else:
                bare = _BARE.match(self.text, self.position)
                assert bare is not None
                names.append(bare[0])
                self.position = bare.end()
            self._skip(" \t")
            if not self.text.startswith(".", self.position):
                return names
            self.position += 1

    def _value(self, path: KeyPath) -> None:
        """Step over a value, noting what is inside arrays and inline tables."""
        self._skip(" \t\n")
        character = self.text[self.position]
        if character in "\"'":
            self._string()
        elif character == "[":
            self._array(path)
        elif character == "{":
            self._inline_table(path)
        else:
            plain = _PLAIN_VALUE.match(self.text, self.position)
            assert plain is not None
            self.position = plain.end()

    def _array(self, path: KeyPath) -> None:
        self.position += 1
        index = 0
        while True:
            self._skip(" \t\n,")
            if self.text[self.position] == "]":
                self.position += 1
                return
            self.lines[(*path, index)] = self._here()
            self._value((*path, index))
            index += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.position += 1
        while True:
            self._skip(" \t\n,")
            if self.text[self.position] == "}":
                self.position += 1
                return
            self._pair(path)

    def _string(self) -> None:
        """Step over a string of any of the four kinds."""
        quote = self.text[self.position]
        escapes = quote == '"'
        if self.text.startswith(quote * 3, self.position):
            end = self.position + 3
            while not self.text.startswith(quote * 3, end):
                end += 2 if escapes and self.text[end] == "\\" else 1
            end += 3
            # Up to two quotes may stand directly before the closing three.
            while self.text.startswith(quote, end):
                end += 1
        else:
            end = self.position + 1
            while self.text[end] != quote:
                end += 2 if escapes and self.text[end] == "\\" else 1
            end += 1
        self.position = end
