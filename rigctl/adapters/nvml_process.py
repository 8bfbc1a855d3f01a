"""The NVML worker as a child process: lines in and out of pipes, its end seen through a pidfd."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence

from rigctl.adapters.nvml_mark import VARIABLE, new_mark, read_mark


class WorkerProcess:
    """One worker, from its start to its end; needs a running loop. OSError: it cannot start."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._mark = new_mark()
        self._last_place = ""
        try:
            # A group of its own: ctrl+c in the daemon's terminal is the daemon's business.
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(self._mark,),
                env={**os.environ, VARIABLE: str(self._mark)},
                process_group=0,
            )
        except OSError:
            os.close(self._mark)
            raise
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._stdin, self._stdout = self._popen.stdin, self._popen.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._pidfd = os.pidfd_open(self._popen.pid)
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._ended = asyncio.Event()
        self._open = True
        self.killed = False
        """Whether it was sent SIGKILL; one that lives on is stuck in the kernel (C57)."""
        self._loop.add_reader(self._stdout.fileno(), self._on_output)
        self._loop.add_reader(self._pidfd, self._on_exit)

    @property
    def pid(self) -> int:
        """Its process id; valid to signal until `ended`, since only we reap it."""
        return self._popen.pid

    @property
    def ended(self) -> bool:
        """Whether it is gone, its handles on the cards with it."""
        return self._ended.is_set()

    @property
    def pending(self) -> bool:
        """Whether a question is outstanding."""
        return self._answer is not None and not self._answer.done()

    @property
    def place(self) -> str:
        """What it was asking last: `init`, `#index`, a card's UUID, or nothing."""
        return read_mark(self._mark) if self._open else self._last_place

    def how_it_ended(self) -> str:
        """`crashed (SIGSEGV)` or `ended with code 1`."""
        code = self._popen.returncode or 0
        if code < 0:
            return f"crashed ({signal.Signals(-code).name})"
        return f"ended with code {code}"

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """Send one line; the future gets the answer, or nothing when the process ended first."""
        assert not self.pending
        self._answer = self._loop.create_future()
        try:
            self._stdin.write(request)
            self._stdin.flush()
        except OSError:
            pass  # it ended: the pidfd tells, and answers the future
        if self.ended:
            self._answer.set_result(b"")
        return self._answer

    def kill(self) -> None:
        """Send SIGKILL, without waiting for what comes of it."""
        if not self.ended:
            self.killed = True
            self._popen.kill()

    async def end(self, patience: float) -> bool:
        """Close its stdin, then kill; whether it is gone after at most twice `patience` seconds.

        The polite way first: a process killed inside the driver has frozen cards (C89).
        """
        self._close_stdin()
        if self.killed or not await self._wait(patience):
            self.kill()
            await self._wait(patience)
        return self.ended

    def abandon(self) -> None:
        """Let go of a process that cannot be ended; it is never joined."""
        if self._open:
            # Tells subprocess not to complain of, nor wait for, a child left in the kernel.
            self._popen.returncode = -signal.SIGKILL
            self._let_go()

    async def _wait(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._ended.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _on_output(self) -> None:
        try:
            data = os.read(self._stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._stdout.fileno())
            return
        self._received += data
        if data.endswith(b"\n"):
            line, self._received = bytes(self._received), bytearray()
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(line)

    def _on_exit(self) -> None:
        self._popen.wait()
        self._on_output()  # an answer may lie in the pipe of a process that left right after it
        self._ended.set()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(b"")
        self._let_go()

    def _close_stdin(self) -> None:
        try:
            self._stdin.close()
        except OSError:
            pass  # unsent bytes to a process that is gone

    def _let_go(self) -> None:
        if not self._open:
            return
        self._last_place = self.place
        self._open = False
        self._loop.remove_reader(self._pidfd)
        self._loop.remove_reader(self._stdout.fileno())
        os.close(self._pidfd)
        os.close(self._mark)
        self._close_stdin()
        self._stdout.close()
