"""The socket is reachable at any path length, closed to others, and never stolen from a daemon."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rigctl.control.address import SocketTakenError, connect, listen, peer


@pytest.fixture(params=["short", "long"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / ("d" * 120 if request.param == "long" else "d")
    folder.mkdir()
    return folder / "rigctl.sock"


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_socket_is_bound_and_reached_at_any_length(path: Path) -> None:
    """Also past the 107 bytes of AF_UNIX; 0600 whatever the umask; the peer's uid is known."""
    with listen(path) as bound:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with connect(path, 1.0) as client:
            served, _ = bound.accept()
            with served:
                served.sendall(b"x")
                assert client.recv(1) == b"x"
                assert peer(served) == (os.getpid(), os.getuid())
    assert not any(os.readlink(f"/proc/self/fd/{fd}").endswith("d" * 20) for fd in open_files())


def open_files() -> list[str]:
    """Our open descriptors (the one that lists them is gone by then)."""
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]


@pytest.mark.usefixtures("umask")
def test_a_socket_is_at_no_moment_open_to_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between bind and chmod somebody could connect: the file is made with its mode."""
    modes: list[int] = []
    monkeypatch.setattr(os, "chmod", lambda name, _: modes.append(os.stat(name).st_mode & 0o777))
    listen(path).close()
    assert modes == [0o600]


def test_a_group_may_be_let_in(path: Path) -> None:
    """With a group the mode is 0660 and the file is that group's."""
    with listen(path, group=os.getgid()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert path.stat().st_gid == os.getgid()


def test_a_dead_daemons_socket_is_replaced(path: Path) -> None:
    """A file that nobody answers on does not stop the next daemon."""
    listen(path).close()
    assert path.exists()
    with listen(path), connect(path, 1.0):
        pass


def test_a_living_daemons_socket_is_not_stolen(path: Path) -> None:
    """Somebody answers: the second daemon is refused and the first still reachable."""
    with listen(path):
        with pytest.raises(SocketTakenError, match="already answers"):
            listen(path)
        connect(path, 1.0).close()


def test_a_busy_daemons_socket_is_not_stolen(tmp_path: Path) -> None:
    """A full queue of connections means busy, not dead."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        bound.listen(0)
        with connect(path, 1.0), pytest.raises(SocketTakenError, match="too busy"):
            listen(path)


def test_what_is_no_socket_is_left_alone(path: Path) -> None:
    """A file of that name is somebody's; it is named, not removed."""
    path.write_text("mine")
    with pytest.raises(OSError, match="not a socket"):
        listen(path)
    assert path.read_text() == "mine"
