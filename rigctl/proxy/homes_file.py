"""Session homes on disk, so that a proxy that is replaced makes no session cold."""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec

from rigctl.config.secrets import replace_file
from rigctl.core.homes import MOST_ANSWERS, Homes
from rigctl.core.ids import Mono

log = logging.getLogger(__name__)

REWRITE = 8_000
"""Lines that say nothing any more, after which the file is written anew without them."""
MOST_OWED = 10_000
"""Rows kept for a disk that takes none; beyond, the oldest are forgotten."""
_AT_ONCE = 50
"""Lines read before the thread that shortens the file lets the streams have their turn."""


class _Key(msgspec.Struct):
    """Whose row it is; the rest of the line is passed over."""

    label: str = ""
    response: str = ""
    ended: bool = False


class HomesFile:
    """Rows are appended as they change; a thread shortens the file now and then.

    A row says all of one session, so that the last one of a label is the only one that counts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle_lines = 0
        self._torn = False
        """The file does not end with a line's end: what comes next begins with one."""
        self._owed: dict[str, bytes] = {}
        """Rows that are not on disk yet, by their label or response."""
        self._shortening: Future[int] | None = None
        self._said = ""

    def load(self, now: Mono) -> Homes:
        """What an earlier proxy knew; empty where there is no file, or none of this boot."""
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return Homes()
        except OSError as error:
            self._note(f"{self._path} cannot be read ({error.strerror}): sessions begin cold")
            return Homes()
        lines = raw.splitlines()
        self._torn = bool(raw) and not raw.endswith(b"\n")
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
        self._idle_lines = len(lines) - len(homes)
        return homes

    def save(self, homes: Homes, last: bool = False) -> None:
        """Write what changed. A full disk costs the memory of sessions, nothing else, and not
        even that once it has room again. `last`: there will be no other call."""
        if self._shortening is not None:
            if not (last or self._shortening.done()):
                return  # what changes meanwhile is told when the file is in place again
            self._shortened(self._shortening)
        for row in homes.changes():
            key = str(row.get("label") or row.get("response"))
            self._owed.pop(key, None)
            self._owed[key] = msgspec.json.encode(row) + b"\n"
        if not self._owed:
            return
        try:
            self._append(b"".join(self._owed.values()))
        except OSError as error:
            self._torn = True
            for key in list(self._owed)[: max(0, len(self._owed) - MOST_OWED)]:
                del self._owed[key]
            self._note(
                f"{self._path} is not written ({error.strerror}): a restart makes sessions cold"
            )
            return
        self._said = ""
        self._idle_lines += len(self._owed)
        self._owed.clear()
        if self._idle_lines > REWRITE and not last:
            pool = ThreadPoolExecutor(1, "homes")
            self._shortening = pool.submit(shorten, self._path)
            pool.shutdown(wait=False)

    def _append(self, lines: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with open(os.open(self._path, flags, 0o600), "ab", buffering=0) as file:
            whole = b"\n" + lines if self._torn else lines
            if file.write(whole) != len(whole):
                raise OSError(28, "No space left on device")
        self._torn = False

    def _shortened(self, work: Future[int]) -> None:
        self._shortening = None
        try:
            self._idle_lines = work.result(timeout=5.0)
        except (OSError, TimeoutError) as error:
            self._idle_lines = 0  # after as many lines again it is tried anew
            self._note(f"{self._path} is not shortened: {error}")

    def _note(self, say: str) -> None:
        if say != self._said:
            self._said = say
            log.warning("%s", say)


def shorten(path: Path) -> int:
    """Keep the last row of each; 0, the lines that say nothing then. OSError, and the file stays.

    For a thread of its own: a day's file is tens of megabytes.
    """
    sessions: dict[str, bytes] = {}
    answers: dict[str, bytes] = {}
    decoder = msgspec.json.Decoder(_Key)
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if number % _AT_ONCE == 0:
                time.sleep(0.0005)
            try:
                key = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            kept, name = (answers, key.response) if key.response else (sessions, key.label)
            kept.pop(name, None)
            if not key.ended:
                kept[name] = line
    given = list(answers.values())[-MOST_ANSWERS:]
    replace_file(path, b"".join([*sessions.values(), *given]))
    return 0
