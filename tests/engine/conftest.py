"""The suite's one fixture: an engine's life, played on the simulated and on the real SGLang."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Kind, simulated_kind
from engine_play import Facts, play
from engine_talk import talk
from support_sglang import Installed


@pytest.fixture(scope="session")
def simulated_run(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """What a simulated engine did, once for all tests."""
    folder = tmp_path_factory.mktemp("simulated")
    return play(simulated_kind(folder), folder, {})


@pytest.fixture(scope="session")
def real_run(real_sglang: Installed, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """What a real engine did, once for all tests."""
    kind = Kind("real", real_sglang, real_sglang.model)
    return play(kind, tmp_path_factory.mktemp("real-play"), {})


@pytest.fixture(scope="session", params=["simulated", "real"])
def run(request: pytest.FixtureRequest) -> Any:
    """The same facts of either kind: every test of the suite holds for both."""
    return request.getfixturevalue(f"{request.param}_run")


@pytest.fixture(scope="session")
def simulated_talk(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """What a simulated engine says in every dialect, once for all tests."""
    folder = tmp_path_factory.mktemp("simulated-talk")
    return talk(simulated_kind(folder), folder)


@pytest.fixture(scope="session")
def real_talk(real_sglang: Installed, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """What a real engine says, once for all tests."""
    kind = Kind("real", real_sglang, real_sglang.model)
    return talk(kind, tmp_path_factory.mktemp("real-talk"))


@pytest.fixture(scope="session", params=["simulated", "real"])
def spoken(request: pytest.FixtureRequest) -> Any:
    """The same words of either kind."""
    return request.getfixturevalue(f"{request.param}_talk")
