"""A simulated rig for each test, its daemon not yet started."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest
from daemon_kit import Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A rig in a short folder: sockets have paths of 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="rig-", dir="/tmp") as home:
        made = Rig(home)
        try:
            yield made
        finally:
            made.close()
