"""Who listens on a port, told by real sockets of this process."""

from __future__ import annotations

import os
import socket

from rigctl.adapters.listeners import holder, holds, listener, listening, taken


def test_a_listener_is_found_and_missed() -> None:
    """Listening: taken, and its pid is told; closed: free, and nobody is."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not taken("127.0.0.1", port), "bound is not listening"
        server.listen()
        inodes = listening(port)
        assert taken("127.0.0.1", port)
        assert holds(os.getpid(), inodes)
        assert holder(inodes) == listener(port) == os.getpid()
    assert not taken("127.0.0.1", port)
    assert not holds(os.getpid(), inodes)
    assert listener(port) is None


def test_the_look_leaves_no_trace() -> None:
    """The one who listens gets no connection from being looked at."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.05)
        assert taken("127.0.0.1", server.getsockname()[1])
        try:
            server.accept()
        except TimeoutError:
            return
    raise AssertionError("somebody connected")
