"""A block of our own in somebody else's file: found again by its two markers, never more."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

BEGIN = "# >>> rigctl shortcut >>>"
END = "# <<< rigctl shortcut <<<"
BACKUP = ".before-rigctl"


class Torn(Exception):  # noqa: N818 - it names what is wrong with the file
    """One marker without the other: somebody has edited there, so nothing is touched."""


def with_block(text: str, block: str) -> str:
    """The text with our block in it, in place of an earlier one; all else byte for byte."""
    before, found, after = _split(text)
    wanted = f"{BEGIN}\n{block.rstrip()}\n{END}\n"
    if not found and before and not before.endswith("\n"):
        before += "\n"
    return before + wanted + after


def without_block(text: str) -> str:
    """The text without our block."""
    before, _, after = _split(text)
    return before + after


def read(path: Path) -> str:
    """The file as text from which every byte can be written back, whatever its encoding."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def rewrite(path: Path, text: str) -> bool:
    """Put the text in the file's place at once; False if it had it.

    What somebody else wrote is kept in a copy beside it before our first change.

    A link (dotfiles are often kept in a repository) stays a link: its target is rewritten.
    """
    path = path.resolve()
    before = read(path) if path.exists() else None
    if before == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    backup = path.with_name(path.name + BACKUP)
    owners = before is not None and without_block(before).strip()
    if owners and not backup.exists():
        shutil.copy2(path, backup)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, path.stat().st_mode & 0o7777 if before is not None else 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return True


def _split(text: str) -> tuple[str, bool, str]:
    lines = text.splitlines(keepends=True)
    begins = [place for place, line in enumerate(lines) if line.strip() == BEGIN]
    ends = [place for place, line in enumerate(lines) if line.strip() == END]
    if not begins and not ends:
        return text, False, ""
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise Torn
    return "".join(lines[: begins[0]]), True, "".join(lines[ends[0] + 1 :])
