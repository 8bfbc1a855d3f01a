"""Runs the command line as people do: a process, with or without a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_terminal import Terminal

Rigctl = Callable[..., subprocess.CompletedProcess[str]]

COMMAND = (sys.executable, "-m", "rigctl")


@pytest.fixture
def home() -> Path:
    """This test's own home, which RIGCTL_HOME names; made on use."""
    folder = Path(os.environ["RIGCTL_HOME"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def rigctl() -> Rigctl:
    """`rigctl ARGS…` without a terminal; its outcome with text of both streams."""

    def run(*args: str, env: dict[str, str] | None = None, text: bool = True) -> object:
        return subprocess.run(
            [*COMMAND, *args],
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=text,
            timeout=60,
            check=False,
        )

    return run  # type: ignore[return-value]


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """`rigctl ARGS…` on a terminal of its own; ended with the test."""
    opened: list[Terminal] = []

    def start(*args: str, env: dict[str, str] | None = None, argv: tuple[str, ...] = ()) -> object:
        made = Terminal([*(argv or COMMAND), *args], env or {})
        opened.append(made)
        return made

    yield start  # type: ignore[misc]
    for each in opened:
        each.close()
