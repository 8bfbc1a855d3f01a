"""The README, held against the program: what it tells people to type exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

CODE = re.compile(r"```sh\n(.*?)```|`([^`\n]+)`", re.DOTALL)
VERB = re.compile(r"(?<![\w/])(?:\.venv/bin/)?rigctl ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)")


def code() -> list[str]:
    """Every block and span of code in the README."""
    return [block or span for block, span in CODE.findall(README)]


def verbs() -> list[str]:
    """Every verb that the README tells people to type."""
    return sorted({found.split()[0] for text in code() for found in VERB.findall(text)})


def options() -> list[tuple[str, str]]:
    """Every long option in the README, with its verb."""
    lines = [line for text in code() for line in text.splitlines()]
    typed = [
        (match.group(1).split()[0], line[match.end() :].split(" -- ")[0])
        for line in lines
        for match in VERB.finditer(line)
    ]
    return sorted({(verb, o) for verb, rest in typed for o in re.findall(r"--[a-z-]+", rest)})


def ask_help(*words: str) -> str:
    """What `rigctl … --help` prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-m", "rigctl", *words, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_of_the_readme_exists(verb: str) -> None:
    """What the README says to type is a verb, and has help."""
    assert ask_help(verb)


@pytest.mark.parametrize(("verb", "option"), options())
def test_every_option_of_the_readme_exists(verb: str, option: str) -> None:
    """An option in the README is one that its verb has."""
    words = (verb, "init") if (verb, option) == ("config", "--from-running") else (verb,)
    assert option in ask_help(*words)


def test_the_search_finds_verbs_and_options() -> None:
    """The two tests above look at something: the README names these."""
    assert {"demo", "status", "free", "lend", "doctor"} <= set(verbs())
    assert {("demo", "--no-panel"), ("status", "--json"), ("free", "--wait")} <= set(options())


def test_every_file_named_in_the_readme_is_there() -> None:
    """Pictures, links and files of the repository that the README names exist."""
    named = re.findall(r"\]\(([^)#:]+)\)", README)
    named += [span for span in code() if re.fullmatch(r"[\w.]+(/[\w.]*)+|[A-Z]+\.md", span)]
    missing = [name for name in named if not name.startswith("/") and not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize(("mark", "word"), [("demo", "rigctl demo"), ("tests", "pytest")])
def test_the_two_commands_can_be_taken_out(mark: str, word: str) -> None:
    """`.ci/run` runs the marked blocks as they stand: each is there once and needs pip alone."""
    pattern = rf"^<!-- {mark} -->\n```sh\n(.*?)\n```$"
    (block,) = re.findall(pattern, README, re.DOTALL | re.MULTILINE)
    assert word in block
    assert block.startswith("python3 -m venv .venv && .venv/bin/pip install")
