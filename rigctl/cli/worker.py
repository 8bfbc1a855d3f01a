"""Runs the command of `lend`: on our terminal like a shell's job, else in a session of its own.

Either way signals sent to rigctl reach the command's whole process group, and what it returns is
its exit code. On a terminal the command gets its own foreground process group, so that an
interactive shell or an editor works in it and ctrl+c, ctrl+z and ctrl+\\ go to it first.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from types import FrameType

from rigctl.cli.exits import LEND_FAILED, NOT_EXECUTABLE, NOT_FOUND, End

FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)


def check(program: str) -> None:
    """End as starting it would, before an engine is stopped for a mistyped name."""
    if shutil.which(program) is None:
        if os.sep in program and os.path.exists(program):
            raise End(NOT_EXECUTABLE, f"{program}: may not be executed.")
        raise End(NOT_FOUND, f"{program}: there is no such program.")


class Worker:
    """One child: started, signalled and waited for."""

    def __init__(self, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        self._terminal = _foreground_terminal()
        kept = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTTOU,)}
        try:
            self._process = subprocess.Popen(
                list(argv),
                env={**os.environ, **variables},
                start_new_session=self._terminal is None,
                process_group=None if self._terminal is None else 0,
                restore_signals=True,
                preexec_fn=self._take_terminal if self._terminal is not None else None,
            )
        except FileNotFoundError:
            raise End(NOT_FOUND, f"{argv[0]}: there is no such program.") from None
        except PermissionError:
            raise End(NOT_EXECUTABLE, f"{argv[0]}: may not be executed.") from None
        except OSError as error:
            raise End(LEND_FAILED, f"{argv[0]}: {error.strerror}.") from None
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)

    @property
    def pid(self) -> int:
        """The command's pid, which is its process group too."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Pass a signal on to the command's process group."""
        if self._process.returncode is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass

    def wait(self) -> int:
        """Until it has ended: its exit code, 128 + signal where one ended it."""
        while True:
            _, status = os.waitpid(self.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            self._stop_with_it()
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._give_terminal(os.getpgrp())
        code = self._process.returncode
        return code if code >= 0 else 128 - code

    def _take_terminal(self) -> None:
        """In the child: become the foreground before the program can read from the terminal."""
        assert self._terminal is not None
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(self._terminal, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)

    def _stop_with_it(self) -> None:
        """ctrl+z stopped the command: stop too, and go on together when the shell says so."""
        if self._terminal is None:
            return
        self._give_terminal(os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)
        # Here the shell has continued us; `bg` leaves the terminal to the shell.
        if os.tcgetpgrp(self._terminal) == os.getpgrp():
            self._give_terminal(self.pid)
        self.signal(signal.SIGCONT)

    def _give_terminal(self, group: int) -> None:
        if self._terminal is None:
            return
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            os.tcsetpgrp(self._terminal, group)
        except (OSError, termios.error):
            pass  # the terminal is gone: there is nothing left to give
        finally:
            signal.signal(signal.SIGTTOU, before)


class Relay:
    """What a signal to rigctl means: a changed mind before the command runs, the command's after.

    While the command is being started neither is true yet: those signals wait a moment.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._starting = False
        self._waiting: list[int] = []
        for number in FORWARDED:
            signal.signal(number, self._receive)

    def start(self, argv: Sequence[str], variables: Mapping[str, str]) -> Worker:
        """Start the command; from now on it gets the signals."""
        self._starting = True
        try:
            self._worker = Worker(argv, variables)
        finally:
            self._starting = False
        for number in self._waiting:
            self._worker.signal(number)
        return self._worker

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self._worker is not None:
            self._worker.signal(number)
        elif self._starting:
            self._waiting.append(number)
        elif number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            raise KeyboardInterrupt


def _foreground_terminal() -> int | None:
    """The descriptor of our terminal where we are its foreground job, else None."""
    try:
        descriptor = sys.stdin.fileno()
        if os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp():
            return descriptor
    except (OSError, ValueError):
        pass
    return None
