"""Fails a test whose process tries to leave the machine: loopback and local sockets only.

An audit hook sees every connect, bind and name look-up of this interpreter, also those made by a
library in a thread, and a test cannot patch it away by accident. The attempt is refused, and the
test fails at its end even where the code under test swallowed the refusal.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Generator

import pytest

_attempts: list[str] = []


class LeftLoopbackError(RuntimeError):
    """Raised in place of the connection, bind or look-up."""


def is_local(host: object) -> bool:
    """Whether a host, as given to a socket call, stays on this machine."""
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("ascii", "replace")
    if not isinstance(host, str):
        return False
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def is_address(host: object) -> bool:
    """Whether a host is an address already, so that looking it up asks nobody."""
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return False
    return True


def _refuse(what: str) -> None:
    _attempts.append(what)
    raise LeftLoopbackError(f"{what}: tests speak to loopback and local sockets only")


def _hook(event: str, args: tuple[object, ...]) -> None:
    if not event.startswith("socket."):
        return
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"):
        sock, address = args[0], args[1]
        family = getattr(sock, "family", None)
        inet = family in (socket.AF_INET, socket.AF_INET6)
        if inet and isinstance(address, tuple) and not is_local(address[0]):
            _refuse(f"{event} {address!r}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0]
        if not (host in (None, "", b"") or is_local(host) or is_address(host)):
            _refuse(f"{event} {host!r}")


def pytest_configure() -> None:
    """Install the guard once; an audit hook lasts as long as its interpreter."""
    if not getattr(sys, "_rigctl_loopback_guard", False):
        sys._rigctl_loopback_guard = True  # type: ignore[attr-defined]
        sys.addaudithook(_hook)


@pytest.fixture(autouse=True)
def _loopback_only() -> Generator[None]:
    """Report an attempt that the code under test hid."""
    _attempts.clear()
    yield
    seen, _attempts[:] = list(_attempts), []
    if seen:
        pytest.fail("left loopback: " + "; ".join(seen), pytrace=False)


@pytest.fixture
def attempts_to_leave() -> Generator[list[str]]:
    """For the guard's own tests: what it refused so far; emptied at the end, so they can pass."""
    yield _attempts
    _attempts.clear()
