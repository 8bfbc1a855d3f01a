"""Whether the last boot ended with a shutdown, read from wtmp, else from the journal (C09)."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CLEAN = "clean"
CUT = "ended without shutdown (power cut?)"
UNKNOWN = ""

_RECORD = struct.Struct("=hxxi32s4s32s256shhiii16s20s")
"""glibc's `struct utmp` as it lies in /var/log/wtmp on x86: 384 bytes."""

_RUN_LEVEL = 1
_BOOT = 2

_SHUTDOWN_WORDS = (
    "Journal stopped",
    "Reached target Power-Off",
    "Reached target Reboot",
    "Reached target System Power Off",
    "Reached target System Reboot",
    "Reached target System Shutdown",
    "Shutting down.",
)
"""What journald and systemd say near the end of an orderly shutdown, across versions."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of wtmp that matters here."""

    shutdown: bool
    """Else a boot."""
    wall: float


def marks(raw: bytes) -> Iterator[Mark]:
    """Boots and shutdowns in a wtmp file, oldest first; a torn last record is left out."""
    whole = len(raw) // _RECORD.size * _RECORD.size
    for fields in _RECORD.iter_unpack(raw[:whole]):
        kind, user, seconds = fields[0], fields[4].rstrip(b"\0"), fields[9]
        if kind == _BOOT and user == b"reboot":
            yield Mark(False, float(seconds))
        elif kind == _RUN_LEVEL and user == b"shutdown":
            yield Mark(True, float(seconds))


def judge(found: Iterable[Mark]) -> str:
    """`clean` when a shutdown stands before the newest boot, `ended without …` when a boot does."""
    listed = list(found)
    while listed and listed[-1].shutdown:
        listed.pop()  # we run, so that shutdown did not take place (or is under way)
    if len(listed) < 2:
        return UNKNOWN  # the file begins with this boot: nothing is known of the one before
    return CLEAN if listed[-2].shutdown else CUT


def judge_journal(last_lines: str) -> str:
    """The same from the previous boot's last lines of systemd; none are seen without the right."""
    if not last_lines.strip():
        return UNKNOWN
    # The initrd's journal is stopped in an orderly boot too, and started again.
    since = last_lines.rpartition("Journal started")[2]
    return CLEAN if any(words in since for words in _SHUTDOWN_WORDS) else CUT


def last_boot(wtmp: Path = Path("/var/log/wtmp")) -> str:
    """`clean`, `ended without shutdown (power cut?)` or empty. May take 3 s: call it once."""
    try:
        verdict = judge(marks(wtmp.read_bytes()))
    except OSError:  # newer systems keep no wtmp
        verdict = UNKNOWN
    return verdict or judge_journal(_previous_journal())


def _previous_journal() -> str:
    # Only what systemd itself wrote: an ordinary user sees none of it and gets no verdict, where
    # the end of his own messages would look like a power cut.
    command = ["journalctl", "-b", "-1", "-n", "60", "-o", "cat", "--no-pager", "-q"]
    command += ["_PID=1", "+", "SYSLOG_IDENTIFIER=systemd-journald"]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=3, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout if ended.returncode == 0 else ""
