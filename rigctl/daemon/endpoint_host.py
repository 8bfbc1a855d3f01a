"""Holds the endpoint's address and its proxies' processes; starts, signals, and decides nothing."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
from collections.abc import Callable

from rigctl.adapters.process import ProcessLauncher
from rigctl.adapters.tail import last_lines
from rigctl.config.paths import Home
from rigctl.control import hand_socket
from rigctl.control.address import listen
from rigctl.control.start import home_words
from rigctl.core.facts import EndpointExited, EndpointSpawned, EndpointSpawnFailed, Fact
from rigctl.core.ids import ProcessIdentity
from rigctl.core.link_words import GiveSocket
from rigctl.core.redact import redact
from rigctl.core.spec import EndpointSpec
from rigctl.daemon.open_address import open_address, same_address

log = logging.getLogger(__name__)

PROXY_MODULE = "rigctl.proxy.main"
LOG = "proxy.log"
_PASSING = (errno.EADDRINUSE, errno.ENOSPC, errno.EAGAIN, errno.ENOMEM, errno.EMFILE)
"""What keeps a proxy from starting now and may be over in a while."""


class EndpointHost:
    """Our own copies of the listening sockets outlive every proxy: its successor goes on with the
    same backlog, and nobody who connects in between is refused."""

    def __init__(
        self,
        *,
        home: Home,
        launcher: ProcessLauncher,
        spec: Callable[[], EndpointSpec | None],
        post: Callable[[Fact], None],
        lifeline: str,
    ) -> None:
        self._home = home
        self._launcher = launcher
        self._spec = spec
        self._post = post
        self._lifeline = lifeline
        self._sockets: tuple[socket.socket, ...] = ()
        self._processes: dict[int, ProcessIdentity] = {}
        """Every proxy of ours that may live, by pid."""
        self._meeting: socket.socket | None = None
        self._asked = 0

    def knows(self, pid: int) -> bool:
        """Whether that process is a proxy which this daemon started or took over."""
        return pid in self._processes

    # ---- processes ---------------------------------------------------------------------

    def spawn(self, token: str) -> None:
        """Open the address where it is not open, and start a proxy on it; posts what came of it."""
        try:
            self._post(EndpointSpawned(self._start(token)))
        except OSError as error:
            why = error.strerror or str(error)
            self._post(EndpointSpawnFailed(why, final=error.errno not in _PASSING))

    def _start(self, token: str) -> ProcessIdentity:
        spec = self._spec()
        if spec is None:
            raise OSError(errno.ENOENT, "rig.toml has no [proxy] any more")
        if not same_address(self._sockets, spec.host, spec.port):
            # `host` or `port` was edited: the new proxy serves there, the old one finishes.
            opened = open_address(spec.host, spec.port, self._sockets)
            self.close_address()
            self._sockets = opened
        numbers = [each.fileno() for each in self._sockets]
        # -P: a `json.py` in the folder where somebody stands must not become ours.
        command = [sys.executable, "-P", "-m", PROXY_MODULE, *home_words(self._home)]
        for number in numbers:
            command += ("--listen-fd", str(number))
        if self._lifeline:
            command += ("--lifeline", self._lifeline)
        path = str(self._home.logs / LOG)
        process = self._launcher.spawn(command, {}, path, token, pass_fds=numbers)
        self._processes[process.pid] = process
        return process

    def adopt(self, process: ProcessIdentity) -> None:
        """A proxy that an earlier daemon started: the launcher watches it already."""
        self._processes[process.pid] = process

    def exited(self, process: ProcessIdentity, code: int | None) -> bool:
        """Whether it was a proxy of ours that ended; then it is told."""
        if self._processes.get(process.pid) != process:
            return False
        del self._processes[process.pid]
        self._launcher.forget(process)
        self._post(EndpointExited(process, code, self._last_words() if code else ""))
        return True

    def _last_words(self) -> str:
        try:
            found = last_lines(self._home.logs / LOG, 1)
        except OSError:
            return ""
        return redact(found.lines[-1])[:300] if found.lines else ""

    def signal(self, process: ProcessIdentity, number: int) -> None:
        """Signal one proxy, re-identified."""
        self._launcher.end_pids((process,), number)

    # ---- the address -------------------------------------------------------------------

    def close_address(self) -> None:
        """Let our copies go; a proxy that lives keeps its own."""
        for each in self._sockets:
            each.close()
        self._sockets = ()

    def linked(self, pid: int, tell: Callable[[GiveSocket], None]) -> None:
        """A proxy said hello. One that another daemon started has sockets that we have not."""
        if self._sockets or not self.knows(pid):
            return
        path = self._home.state / "sockets.sock"
        self._stop_meeting()
        try:
            self._meeting = listen(path)
        except OSError as error:
            log.warning("the proxy's sockets cannot be asked for: %s", error.strerror or error)
            return
        self._asked = pid
        asyncio.get_running_loop().add_reader(self._meeting, self._met)
        tell(GiveSocket(str(path)))

    def _met(self) -> None:
        assert self._meeting is not None
        try:
            accepted, _ = self._meeting.accept()
        except OSError:
            return
        with accepted:
            try:
                taken = hand_socket.take(accepted, self._asked)
            except OSError as error:
                log.warning("the proxy gave no socket: %s", error.strerror or error)
                taken = ()
        self._stop_meeting()
        if self._sockets:
            for each in taken:
                each.close()
            return
        for each in taken:
            each.setblocking(False)
        self._sockets = taken

    def _stop_meeting(self) -> None:
        if self._meeting is None:
            return
        asyncio.get_running_loop().remove_reader(self._meeting)
        self._meeting.close()
        self._meeting = None
        try:
            os.unlink(self._home.state / "sockets.sock")
        except OSError:
            pass

    def close(self) -> None:
        """Proxies go on with their own sockets."""
        self._stop_meeting()
        self.close_address()
