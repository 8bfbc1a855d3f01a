"""The house's rules about files: lengths, docstrings, no trace of the machine it was written on."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LONGEST = 400
"""Lines of a Python file."""

SHORTER = {"rigctl/tui/app.py": 300}
"""Files that the house holds to less."""

EXCEPTIONS: dict[str, str] = {}
"""Files that may be longer, each with its reason."""

PRIVATE = re.compile(r"(?<![\w.~])/work/|(?<!\w)\.library\b|(?<![\w-])shared/")
"""Paths of a machine or workplace, which mean nothing to whoever clones this."""

TEXT = {".py", ".md", ".toml", ".sh", ".tcss", ".txt", ".json", ".service", ".desktop", ".c", ""}


def tracked() -> Iterator[Path]:
    """Every file of the repository that is there: known to git, or new and not ignored."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    names = listing.stdout.decode().split("\0")
    if listing.returncode != 0:  # an unpacked sdist has no git
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    return (ROOT / name for name in names if name and (ROOT / name).is_file())


def python_files() -> list[Path]:
    """The Python files of package and tests."""
    return sorted(path for path in tracked() if path.suffix == ".py")


def name_of(path: Path) -> str:
    """A path as a person would type it from the repository's root."""
    return str(path.relative_to(ROOT))


def test_no_python_file_is_too_long() -> None:
    """No Python file has over 400 lines, the panel's app.py not over 300 (law 13)."""
    long = {}
    for path in python_files():
        name = name_of(path)
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > SHORTER.get(name, LONGEST) and name not in EXCEPTIONS:
            long[name] = lines
    assert not long, f"split these, or write the reason beside them: {long}"


def test_every_module_says_its_duty() -> None:
    """Every Python file begins with a docstring: the one duty of the module."""
    bare = [
        name_of(path)
        for path in python_files()
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not bare, f"no module docstring: {bare}"


def test_every_test_states_its_law() -> None:
    """Every test function has a docstring that says which law it holds."""
    bare = [
        f"{name_of(path)}::{node.name}"
        for path in python_files()
        if path.is_relative_to(ROOT / "tests")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not bare, f"no docstring: {bare}"


def test_test_files_have_names_of_their_own() -> None:
    """Test modules share one namespace, so no two test files have the same name."""
    seen: dict[str, str] = {}
    twice = []
    for path in python_files():
        if path.is_relative_to(ROOT / "tests") and path.name != "conftest.py":
            if path.name in seen:
                twice.append((seen[path.name], name_of(path)))
            seen[path.name] = name_of(path)
    assert not twice


def test_no_file_names_the_machine_it_was_written_on() -> None:
    """No file of the repository names a path or a tool that only its author's machine has."""
    found = [
        f"{name_of(path)}:{number}: {line.strip()[:80]}"
        for path in tracked()
        if path.suffix in TEXT and path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if PRIVATE.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "private"),
    [
        ("see /work/notes", True),
        ("see ../shared/house.md", True),
        ("from shared/house.md", True),
        ("the .library folder", True),
        ("self.library", False),
        ("~/work/rig", False),
        ("/home/me/work/rig", False),
    ],
)
def test_the_search_for_private_paths_finds_them(line: str, private: bool) -> None:
    """The pattern of the rule above tells a private path from an ordinary one."""
    assert bool(PRIVATE.search(line)) is private
