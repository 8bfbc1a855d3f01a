"""An engine whose record was lost is found by its token, and never taken for another group's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from rigctl.adapters import proc
from rigctl.adapters.spawned import find_by_group

TAG = f"test{os.getpid():x}"
Spawn = Callable[[str], int]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """A session's leader with that token in its environment; ended with the test."""
    made: list[subprocess.Popen[bytes]] = []

    def start(token: str) -> int:
        code = "import sys; print(flush=True); sys.stdin.read()"
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", code],
            env={proc.TOKEN_VARIABLE: token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        made.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    yield start
    for process in made:
        process.communicate()


def test_a_group_is_found_by_its_own_token(spawn: Spawn) -> None:
    """The oldest session leader of this home and group; none where there is none."""
    first = spawn(f"{TAG}.long.5f2a.12.345")
    spawn(f"{TAG}.long.5f2a.99.345")
    assert find_by_group(TAG, "long") == first
    assert find_by_group(TAG, "standard") is None
    assert find_by_group("another" + TAG, "long") is None


def test_a_name_that_begins_another_is_not_that_group(spawn: Spawn) -> None:
    """`long` is not `long.draft`: its engine would be watched, and signalled, as the other's."""
    pid = spawn(f"{TAG}.long.draft.5f2a.12.345")
    assert find_by_group(TAG, "long") is None
    assert find_by_group(TAG, "long.draft") == pid
