"""Reads /proc: who a process is, whether it lives, what it uses. Decides and signals nothing."""

from __future__ import annotations

import hashlib
import os
import pwd
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from rigctl.core.ids import ProcessIdentity

TOKEN_VARIABLE = "RIGCTL_SPAWN"
"""Set in every engine's environment, so that a spawn whose record was lost can be found again."""

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STAT_BYTES = 4096
_LARGEST = 4 * 1024 * 1024
"""Command lines and environments are read up to here (Linux allows 6 MiB, nobody needs them)."""


@dataclass(frozen=True, slots=True)
class Stat:
    """One line of /proc/PID/stat, in base units."""

    pid: int
    comm: str
    """The kernel's name for it, cut at 15 characters: `sglang::schedul`."""
    state: str
    """R, S, D …; Z is a zombie."""
    parent: int
    session: int
    cpu_seconds: float
    """User and system time of all its threads since it started."""
    threads: int
    start_ticks: int
    resident_bytes: int

    @property
    def living(self) -> bool:
        """A zombie has no memory, no files and no threads: it counts as gone."""
        return self.state not in ("Z", "X", "x")


def _read(path: str, limit: int) -> bytes | None:
    """The file's content, or None where the process or the right to read it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while limit > 0:
            part = os.read(descriptor, min(limit, 65536))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    except OSError:  # ESRCH: it ended between open and read
        return None
    finally:
        os.close(descriptor)


def stat(pid: int) -> Stat | None:
    """The process's stat line, zombies included; None when there is no such pid."""
    # One read and no more: the kernel gives the line whole, and a scan reads hundreds of them.
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        raw = os.read(descriptor, _STAT_BYTES)
    except OSError:  # ESRCH: it ended between open and read
        return None
    finally:
        os.close(descriptor)
    return _parse_stat(pid, raw)


def _parse_stat(pid: int, raw: bytes) -> Stat | None:
    # The name stands in brackets and may itself hold `)` and blanks: the last bracket ends it.
    head, found, tail = raw.rpartition(b")")
    fields = tail.split(None, 22)
    if not found or len(fields) < 22:
        return None
    return Stat(
        pid=pid,
        comm=head.partition(b"(")[2].decode("utf-8", "replace"),
        state=fields[0].decode("ascii"),
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND,
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
        resident_bytes=int(fields[21]) * _PAGE,
    )


def scan() -> dict[int, Stat]:
    """Every process visible here, zombies included. About 10 µs a process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (line := stat(int(name))) is not None:
            found[line.pid] = line
    return found


@cache
def boot_id() -> str:
    """This boot's id; after a reboot every identity is void."""
    raw = _read("/proc/sys/kernel/random/boot_id", 64)
    return raw.decode("ascii").strip() if raw else ""


def cmdline(pid: int) -> tuple[str, ...]:
    """The command line as it stands now (programs may rewrite theirs); empty for zombies."""
    raw = _read(f"/proc/{pid}/cmdline", _LARGEST) or b""
    return tuple(part.decode("utf-8", "replace") for part in raw.rstrip(b"\0").split(b"\0") if raw)


def argv_hash(argv: Sequence[str]) -> str:
    """A short fingerprint of a command line; empty for an empty one."""
    if not argv:
        return ""
    joined = "\0".join(argv).encode("utf-8", "surrogateescape")
    return hashlib.sha256(joined).hexdigest()[:16]


def title(pid: int) -> str:
    """What `ps` shows: the command line, which for setproctitle users is their title."""
    return " ".join(cmdline(pid)).strip()


def identity(pid: int) -> ProcessIdentity | None:
    """Who has this pid now; None when nobody living does."""
    line = stat(pid)
    if line is None or not line.living:
        return None
    return ProcessIdentity(pid, line.start_ticks, boot_id(), line.session, argv_hash(cmdline(pid)))


def same(known: ProcessIdentity) -> Stat | None:
    """The living process that is still exactly this one; None when gone, recycled or rebooted."""
    if known.boot_id != boot_id():
        return None
    line = stat(known.pid)
    if line is None or not line.living or line.start_ticks != known.start_ticks:
        return None
    return line


def has_token(pid: int, token: str) -> bool:
    """Whether the process was started with our token in its environment."""
    raw = _read(f"/proc/{pid}/environ", _LARGEST) or b""
    return f"{TOKEN_VARIABLE}={token}".encode() in raw.split(b"\0")


def environ(pid: int) -> dict[str, str] | None:
    """The variables a process was started with; None where they may not be read."""
    raw = _read(f"/proc/{pid}/environ", _LARGEST)
    if raw is None:
        return None
    parts = (each.decode("utf-8", "replace").partition("=") for each in raw.split(b"\0") if each)
    return {name: value for name, _, value in parts}


def find_by_token(token: str) -> int | None:
    """The pid that was started with this token, looked for among our own uid's processes only.

    Children inherit the token, so the session's leader is preferred, then the oldest.
    """
    own = os.getuid()
    found = [
        line
        for line in scan().values()
        if line.living and owner(line.pid) == own and has_token(line.pid, token)
    ]
    found.sort(key=lambda line: (line.session != line.pid, line.start_ticks, line.pid))
    return found[0].pid if found else None


def owner(pid: int) -> int | None:
    """The uid a process runs as; None when it is gone."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def user(pid: int) -> str:
    """The user's name, the bare number where it has none, empty when the process is gone."""
    uid = owner(pid)
    if uid is None:
        return ""
    return _user_name(uid)


@cache
def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def ancestors(pid: int) -> tuple[int, ...]:
    """The pids above a process, nearest first, up to and including pid 1."""
    chain: list[int] = []
    line = stat(pid)
    while line is not None and line.parent > 0 and line.parent not in chain:
        chain.append(line.parent)
        line = stat(line.parent)
    return tuple(chain)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a set of processes has used so far and holds now."""

    cpu_seconds: dict[int, float]
    """By pid, since each started: differences over time give the load."""
    resident_bytes: int
    """Summed; pages shared between them count once for each."""


def usage(pids: Iterable[int]) -> Usage:
    """CPU time and memory of those that live."""
    return _used(line for pid in pids if (line := stat(pid)) is not None and line.living)


def usage_of(members: Iterable[ProcessIdentity]) -> Usage:
    """The same of those that live and are still who they were: one small read each."""
    return _used(line for each in members if (line := same(each)) is not None)


def _used(lines: Iterable[Stat]) -> Usage:
    found = tuple(lines)
    return Usage(
        {line.pid: line.cpu_seconds for line in found},
        sum(line.resident_bytes for line in found),
    )
