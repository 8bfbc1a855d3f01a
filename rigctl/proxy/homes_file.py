"""Session homes on disk, so that a proxy that is replaced makes no session cold."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from rigctl.config.secrets import replace_file
from rigctl.core.homes import Homes
from rigctl.core.ids import Mono

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two writings at most: so much a killed proxy forgets."""
REWRITE = 2_000
"""Lines appended after which the file is written anew."""


class HomesFile:
    """Rows are appended as they change, and the whole is written anew now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._appended = 0
        self._said = ""

    def load(self, now: Mono) -> Homes:
        """What an earlier proxy knew; empty where there is no file, or none of this boot."""
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return Homes()
        except OSError as error:
            self._note(f"{self._path} cannot be read ({error.strerror}): sessions begin cold")
            return Homes()
        rows: list[object] = []
        bad = 0
        for line in lines:
            try:
                rows.append(msgspec.json.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                bad += 1  # the last line of a killed proxy may be torn
        homes, unusable = Homes.from_json(rows, now)
        if bad + unusable:
            log.info("%d of %d remembered sessions could not be used", bad + unusable, len(lines))
        homes.changes()
        return homes

    def save(self, homes: Homes) -> None:
        """Write what changed. A full disk costs the memory of sessions, nothing else."""
        changes = homes.changes()
        if not changes:
            return
        try:
            if self._appended + len(changes) > REWRITE or not self._path.exists():
                rows = homes.to_json()
                replace_file(self._path, _lines(rows))
                self._appended = 0
            else:
                with self._path.open("ab") as file:
                    file.write(_lines(changes))
                self._appended += len(changes)
        except OSError as error:
            self._note(
                f"{self._path} is not written ({error.strerror}): a restart makes sessions cold"
            )
        else:
            self._said = ""

    def _note(self, say: str) -> None:
        if say != self._said:
            self._said = say
            log.warning("%s", say)


def _lines(rows: list[dict[str, object]]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
