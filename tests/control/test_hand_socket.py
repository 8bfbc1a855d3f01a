"""A listening socket goes from one process to another and loses nobody who waits in it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from rigctl.control import hand_socket
from rigctl.control.address import listen

HOLDER = """
import socket, sys
from pathlib import Path
from rigctl.control import hand_socket
kept = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in kept), flush=True)
sys.stdin.readline()
hand_socket.give(Path(sys.argv[1]), kept)
print("given", flush=True)
sys.stdin.readline()
"""


def test_who_waits_in_the_backlog_is_served_by_the_next_owner(tmp_path: Path) -> None:
    """The first owner is killed after giving: its queue of connections lives on in the copy."""
    meeting = listen(tmp_path / "meet")
    meeting.settimeout(10)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "meet")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    with meeting, holder, holder.stdin:
        ports = [int(word) for word in holder.stdout.readline().split()]
        client = socket.create_connection(("127.0.0.1", ports[0]), 5)
        client.sendall(b"hello")
        holder.stdin.write("\n")
        holder.stdin.flush()
        accepted, _ = meeting.accept()
        with accepted:
            taken = hand_socket.take(accepted, holder.pid)
        assert holder.stdout.readline() == "given\n"
        holder.kill()
        assert [each.getsockname()[1] for each in taken] == ports
        taken[0].settimeout(5)
        served, _ = taken[0].accept()
        assert served.recv(16) == b"hello"
        for each in (*taken, served, client):
            each.close()


def test_a_stranger_and_a_socket_that_does_not_listen_are_not_taken(tmp_path: Path) -> None:
    """Only the process that was asked may give, and only what can be served from."""
    with listen(tmp_path / "meet") as meeting, socket.create_server(("127.0.0.1", 0)) as own:
        meeting.settimeout(5)
        hand_socket.give(tmp_path / "meet", [own])
        accepted, _ = meeting.accept()
        with accepted:
            assert hand_socket.take(accepted, os.getpid() + 1) == ()
        with socket.socket() as idle:
            hand_socket.give(tmp_path / "meet", [idle])
            accepted, _ = meeting.accept()
            with accepted:
                assert hand_socket.take(accepted, os.getpid()) == ()
