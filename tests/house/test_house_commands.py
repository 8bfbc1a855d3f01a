"""Every command that a text of rigctl names must be one that its command line takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from rigctl.cli.main import VERBS
from rigctl.cli.parser import Parser

PACKAGE = Path(__file__).parents[2] / "rigctl"
CALL = re.compile(rf"(?<![\w/.-])rigctl ({'|'.join(VERBS)})\b((?: [^\s`\"“”,;]+)*)")
ARGUMENT = re.compile(r"--?[a-z]|[A-Z]+(?:[|…].*)?$|\d+[smhd]?$")
"""What can only be an argument; any other word is one only where the verb knows it."""
WORDS = {"on", "off", "install", "uninstall", "show", "check", "path", "init", "release", "self",
         "confirm", "bash", "fish", "zsh", "daemon", "list", "long",
         "add", "remove", "explain", "proxy"}  # fmt: skip
PAIRS = (["daemon", "stop"], ["endpoint", "restart"], ["endpoint", "status"])
"""Verbs with a second word that other texts use as prose."""
MENTIONED = (["lend"], ["service"], ["keys"], ["route"], ["abort"])
"""Verbs that texts speak of as things, where nobody would type the bare word."""


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """String literals with their lines; what is filled in later stands there as GROUP."""
    tree = ast.parse(path.read_text())
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            inside.add(id(node.value))  # documentation
        elif isinstance(node, ast.JoinedStr):
            parts = []
            for part in node.values:
                inside.add(id(part))
                parts.append(str(part.value) if isinstance(part, ast.Constant) else "GROUP")
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and id(node) not in inside:
            yield node.lineno, str(node.value).replace("{group}", "GROUP")


def _commands(text: str) -> Iterator[list[str]]:
    """Verb and arguments of each command in a text, up to the first word of prose."""
    for found in CALL.finditer(text):
        words = [found[1]]
        for word in found[2].split():
            bare = word.rstrip(".):'").split("|")[0]
            if [*words, bare] in PAIRS or bare in WORDS or ARGUMENT.match(bare):
                words.append(bare)
            else:
                break
            if word != word.rstrip(".):'"):
                break
        yield words


def _taken(words: list[str]) -> bool:
    """Whether the verb's own parser takes these arguments, whatever GROUP stands for."""
    if words in MENTIONED:
        return True
    return any(_parses([each.replace("GROUP", name) for each in words]) for name in ("x", "tmux"))


def _parses(words: list[str]) -> bool:
    module = import_module(f"rigctl.cli.commands.{VERBS[words[0]][0]}")
    parser = Parser(prog="rigctl", add_help=False)
    module.add(parser.add_subparsers(dest="verb"))
    try:
        parser.parse_args(words)
    except SystemExit:
        return False
    return True


def test_every_command_in_a_text_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """A person who types what an error, notice or state names is not told `unknown argument`."""
    wrong, seen = [], 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, text in _texts(path):
            if "[options]" in text or "\n\n" in text:
                continue  # a usage line, or a page of help
            for words in _commands(text):
                seen += 1
                if not _taken(words):
                    wrong.append(f"{path.relative_to(PACKAGE)}:{line}: rigctl {' '.join(words)}")
    capsys.readouterr()
    assert seen > 100
    assert not wrong, "\n".join(wrong)


def test_a_wrong_command_would_be_found(capsys: pytest.CaptureFixture[str]) -> None:
    """The test above can fail: a flag or a verb's need that is not so is refused."""
    assert not _taken(next(_commands("see `rigctl stop GROUP --now`")))
    assert not _taken(next(_commands("`rigctl start` starts one")))
    assert _taken(next(_commands("next: rigctl logs GROUP --previous 1, then look")))
    capsys.readouterr()
