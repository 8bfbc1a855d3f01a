"""Makes sure that a daemon answers for a home: finds the running one, or starts one and says so.

Imports neither msgspec nor asyncio: the command line pays for what this module loads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rigctl.adapters.folders import own_folder
from rigctl.config.paths import Home, find_home
from rigctl.control import PROTOCOL
from rigctl.control.address import connect

WAIT_SECONDS = 30.0
"""A daemon that has not answered by then has failed; its first sweep of sick cards takes 10 s."""

_ANSWER_SECONDS = 5.0
_LOOK_EVERY = 0.05
_LONGEST_LINE = 64 * 1024
_LONGEST_WORDS, _MOST_LINES = 8 * 1024, 24
"""Of a daemon that could not start: a config with many faults, or the end of a trace."""
_ROTATE_BYTES = 4 * 1024 * 1024


class DaemonStartError(Exception):
    """No daemon answers and none could be started; `say` has its own words and the next step."""

    def __init__(self, say: str) -> None:
        super().__init__(say)
        self.say = say


def ensure_daemon(
    home: Home,
    say: Callable[[str], None],
    command: Sequence[str] | None = None,
    wait: float = WAIT_SECONDS,
) -> None:
    """Return once a daemon answers on the home's socket; DaemonStartError when none will.

    `say` gets a line for the person when one was started or is of another version. Two starters
    at once end with one daemon: the one that holds the home's lock; both wait for it.
    """
    hello = greet(home.socket)
    if hello is None:
        child = None
        log = home.logs / "daemon.log"
        began = _size(log)
        if not is_locked(home.lock):
            child = _spawn(home, log, command or daemon_command(home))
        hello = _wait(home, child, log, began, time.monotonic() + wait)
        if child is not None and child.poll() is None:
            say(f"started the rig's daemon in the background (pid {child.pid}, log {log}).")
            child.returncode = 0  # it goes on: its handle must not warn when it is dropped
    if hello.get("protocol") != PROTOCOL:
        say(
            f"the running daemon is rigctl {hello.get('rigctl', '?')} and speaks another protocol "
            "than this command; end it with `rigctl daemon stop` (engines go on) and try again."
        )


def daemon_command(home: Home) -> list[str]:
    """The command line that runs the daemon of this home."""
    # -P: a `json.py` in the folder where somebody stands must not become ours.
    return [sys.executable, "-P", "-m", "rigctl.daemon.main", *home_words(home)]


def home_words(home: Home) -> list[str]:
    """How a process of ours is told its home."""
    base = home.state.parent
    if find_home(str(base)) == home:
        return ["--home", str(base)]
    return []  # the XDG places, which it finds by the same variables as we did


def greet(path: Path) -> dict[str, Any] | None:
    """The daemon's hello; None when nobody listens. DaemonStartError when it does not answer."""
    try:
        link = connect(path, _ANSWER_SECONDS)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return None
    except OSError as error:
        raise DaemonStartError(
            f"the rig's socket {path} cannot be used: {error.strerror or error}; "
            "is it another user's rig? see `ls -l`"
        ) from error
    with link:
        try:
            question = {"do": "hello", "protocol": PROTOCOL, "role": "start"}
            link.sendall(json.dumps(question).encode() + b"\n")
            raw = b""
            while not raw.endswith(b"\n") and len(raw) < _LONGEST_LINE:
                part = link.recv(4096)
                if not part:
                    return None  # it is just ending
                raw += part
            hello: dict[str, Any] = json.loads(raw)
        except (ConnectionResetError, BrokenPipeError):
            return None
        except OSError as error:
            raise DaemonStartError(
                f"a daemon holds {path} but has not answered for {_ANSWER_SECONDS:.0f} s; see "
                "`rigctl logs daemon`, and end it by its pid (in daemon.lock beside the socket): "
                "engines go on"
            ) from error
        except ValueError as error:
            raise DaemonStartError(f"what answers on {path} is not rigctl's daemon") from error
    return hello


def is_locked(path: Path) -> bool:
    """Whether a daemon holds the home's lock, read from /proc/locks.

    Trying the lock would tell too, but for that moment a daemon that starts could not take it.
    """
    try:
        inode = os.stat(path).st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return False
    fields = [line.split() for line in lines]
    return any(
        len(each) > 5 and each[1] == "FLOCK" and each[5].rpartition(":")[2] == str(inode)
        for each in fields
    )


def _spawn(home: Home, log: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        for folder in (home.state, home.logs):
            own_folder(folder)
        if log.exists() and log.stat().st_size > _ROTATE_BYTES:
            log.rename(log.with_name("daemon.log.1"))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        output = os.open(log, flags, 0o600)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise DaemonStartError(
            f"no daemon runs, and none can be started: {where}{error.strerror or error}; "
            "make room or set RIGCTL_HOME to another folder"
        ) from error
    try:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=os.path.expanduser("~") if os.path.isdir(os.path.expanduser("~")) else "/",
            start_new_session=True,
        )
    except OSError as error:
        raise DaemonStartError(
            f"no daemon runs, and none can be started: {command[0]}: {error.strerror or error}"
        ) from error
    finally:
        os.close(output)


def _wait(
    home: Home, child: subprocess.Popen[bytes] | None, log: Path, began: int, until: float
) -> dict[str, Any]:
    while True:
        hello = greet(home.socket)
        if hello is not None:
            return hello
        dead = child is None or child.poll() is not None
        if dead and not is_locked(home.lock):
            # Once more: it may have begun to answer between the two looks.
            hello = greet(home.socket)
            if hello is not None:
                return hello
            raise DaemonStartError(f"the rig's daemon could not start:\n{_last_words(log, began)}")
        if time.monotonic() > until:
            if child is not None:
                child.returncode = child.returncode or 0  # left to finish: no warning of it
            raise DaemonStartError(
                f"the rig's daemon does not answer on {home.socket} yet; see {log}, "
                "then `rigctl status`"
            )
        time.sleep(_LOOK_EVERY)


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _last_words(log: Path, began: int) -> str:
    """What this daemon wrote, `began` bytes into the log: there it says why it left."""
    try:
        with log.open("rb") as file:
            size = log.stat().st_size
            # A log that is shorter than it was has been put aside: all of the new one is ours.
            file.seek(max(began if began <= size else 0, size - _LONGEST_WORDS))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return f"it left no log at {log}"
    return "\n".join(text.rstrip().splitlines()[-_MOST_LINES:]) or f"it said nothing in {log}"
