"""Starts engine processes, watches them end, finds them again and signals them; no decisions."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rigctl.adapters import proc
from rigctl.adapters.family import Family, signal_each
from rigctl.adapters.os_words import reason, worded
from rigctl.core.ids import ProcessIdentity

OnExit = Callable[[ProcessIdentity, int | None], None]
"""Told once when a leader has ended: its exit code (negative: the signal that killed it), or
None for an adopted one, whose code only its real parent can read."""

_NOT_FOR_ENGINES = (
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
)
"""systemd's words to the daemon; an engine that answered them would speak in its name."""


@dataclass(slots=True)
class _Watched:
    family: Family
    child: subprocess.Popen[bytes] | None
    """None when adopted."""
    pidfd: int
    loop: asyncio.AbstractEventLoop


class ProcessLauncher:
    """`ports.Launcher` on Linux. Needs a running loop for `spawn` and `adopt`; any loop will do.

    Children are plain `Popen`s: closing an asyncio subprocess transport would kill the engine.
    """

    def __init__(self, on_exit: OnExit) -> None:
        """`on_exit` is called in the loop, after the leader's zombie was collected."""
        self._on_exit = on_exit
        self._watched: dict[ProcessIdentity, _Watched] = {}
        self._families: dict[tuple[int, int], Family] = {}

    def spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        log: str,
        token: str,
        pass_fds: Sequence[int] = (),
    ) -> ProcessIdentity:
        """Start `argv` in a session of its own, its output appended to the file `log`.

        It inherits `pass_fds` under their own numbers and no other descriptor of ours.
        `env` is laid over our own environment, RIGCTL_SPAWN=token over both. Raises OSError whose
        `strerror` is a sentence. The identity's `argv_hash` is empty: wrappers exec, so the
        command line is recorded at Ready, with `proc.identity`.
        """
        loop = asyncio.get_running_loop()
        full = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_ENGINES}
        full |= {**env, proc.TOKEN_VARIABLE: token}
        output = _open_log(log)
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=full,
                close_fds=True,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        except OSError as error:
            raise OSError(error.errno or errno.EIO, _why_not(argv, error)) from error
        except ValueError as error:  # a NUL byte in an argument or variable
            raise OSError(errno.EINVAL, f"cannot start {argv[0]}: {error}") from error
        finally:
            os.close(output)
        # Not reaped yet, so /proc shows it even if it has already ended.
        line = proc.stat(child.pid)
        if line is None:
            raise OSError(errno.ESRCH, f"cannot start {argv[0]}: /proc does not show it")
        identity = ProcessIdentity(child.pid, line.start_ticks, proc.boot_id(), child.pid, "")
        try:
            self._watch(identity, Family(identity, token=token), child, loop)
        except OSError as error:
            # Unwatched it would be lost: better none than one nobody will ever end.
            child.kill()
            child.wait()
            raise worded(error, f"cannot watch {argv[0]}, so it was ended again") from error
        return identity

    def adopt(
        self,
        identity: ProcessIdentity,
        recorded: Iterable[ProcessIdentity] = (),
        token: str = "",
    ) -> bool:
        """Watch an engine that an earlier daemon started; False when it is not that one any more.

        Its family is remembered either way, so that what a dead leader left behind is found.
        """
        family = Family(identity, recorded, token)
        self._families[_key(identity)] = family
        if proc.same(identity) is None:
            return False
        if identity.argv_hash and proc.argv_hash(proc.cmdline(identity.pid)) != identity.argv_hash:
            return False
        try:
            self._watch(identity, family, None, asyncio.get_running_loop())
        except ProcessLookupError:
            return False
        return True

    def _watch(
        self,
        identity: ProcessIdentity,
        family: Family,
        child: subprocess.Popen[bytes] | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        pidfd = os.pidfd_open(identity.pid)
        self._families[_key(identity)] = family
        self._watched[identity] = _Watched(family, child, pidfd, loop)
        loop.add_reader(pidfd, self._ended, identity)

    def _ended(self, identity: ProcessIdentity) -> None:
        watched = self._watched.pop(identity)
        watched.loop.remove_reader(watched.pidfd)
        os.close(watched.pidfd)
        # Before the zombie is collected its number cannot be handed out again: whoever is in the
        # session now is certainly ours, and is recorded as such.
        watched.family.scan()
        code = watched.child.wait() if watched.child is not None else None
        self._on_exit(identity, code)

    def alive(self, identity: ProcessIdentity) -> bool:
        """Whether the leader itself lives; a zombie does not."""
        return proc.same(identity) is not None

    def members(self, identity: ProcessIdentity) -> tuple[int, ...]:
        """Living pids of the engine, leader first, also after the leader died. A full scan."""
        return self._family(identity).scan()

    def recorded(self, identity: ProcessIdentity) -> tuple[ProcessIdentity, ...]:
        """The members of the last full scan with their start times, for the state file."""
        return self._family(identity).recorded()

    def signal(self, identity: ProcessIdentity, number: int) -> tuple[int, ...]:
        """Signal every re-identified member through its pidfd; the pids signalled."""
        return self._family(identity).signal(number)

    def end_pids(self, members: Iterable[ProcessIdentity], number: int) -> tuple[int, ...]:
        """Signal exactly these recorded processes and no others (C01)."""
        return signal_each(members, number)

    def forget(self, identity: ProcessIdentity) -> None:
        """Drop what is remembered of an engine that has ended with all its members."""
        if identity not in self._watched:
            self._families.pop(_key(identity), None)

    def _family(self, identity: ProcessIdentity) -> Family:
        # The same process is asked for with and without its argv hash, so that is not in the key.
        family = self._families.get(_key(identity))
        if family is None:
            family = self._families[_key(identity)] = Family(identity)
        return family

    def close(self) -> None:
        """Stop watching; every engine goes on."""
        for watched in self._watched.values():
            watched.loop.remove_reader(watched.pidfd)
            os.close(watched.pidfd)
            if watched.child is not None:
                # Popen's destructor warns of a child that still runs; here that is the point.
                watched.child.returncode = 0
        self._watched.clear()


def _key(identity: ProcessIdentity) -> tuple[int, int]:
    return identity.pid, identity.start_ticks


def _open_log(path: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise OSError(
            error.errno or errno.EIO, f"cannot open the engine's log {path}: {reason(error)}"
        ) from error


def _why_not(argv: Sequence[str], error: OSError) -> str:
    program = argv[0]
    if error.errno == errno.ENOENT:
        if os.path.exists(program):
            return (
                f"cannot start {program}: the interpreter named in its first line does not exist; "
                "look at it with `head -1`"
            )
        return (
            f"cannot start {program}: no such program; check `engine` in rig.toml "
            f"and try `command -v {program}`"
        )
    if error.errno == errno.EACCES:
        return f"cannot start {program}: it is not executable; try `ls -l {program}`"
    if error.errno == errno.E2BIG:
        return (
            f"cannot start {program}: the command line and environment are too long; "
            "shorten `flags` or `env` in rig.toml"
        )
    if error.errno == errno.ENOEXEC:
        return f"cannot start {program}: it is neither a program nor a script with a `#!` line"
    return f"cannot start {program}: {reason(error)}"
