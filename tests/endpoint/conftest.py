"""Two engines of each kind with the endpoint in front: what holds on one kind holds on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import support_served
from support_served import Endpoint, Engine, Engines
from support_sglang import Installed


@pytest.fixture(
    scope="session", params=["simulated", pytest.param("real", marks=pytest.mark.sglang)]
)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engines:
    """Which kind of engine stands behind the endpoint."""
    folder: Path = tmp_path_factory.mktemp("engines")
    if request.param == "simulated":
        return support_served.simulated(folder)
    installed: Installed = request.getfixturevalue("real_sglang")
    return support_served.real(installed, folder)


@pytest.fixture(scope="session")
def engines(kind: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Engine]]:
    """Both engines, started once."""
    with support_served.running_engines(kind, tmp_path_factory.mktemp("logs")) as found:
        yield found


@pytest.fixture(scope="session")
def shared(engines: dict[str, Engine]) -> Iterator[Endpoint]:
    """One proxy for all tests that leave it as they found it."""
    with support_served.endpoint(engines) as made:
        yield made


@pytest.fixture
def rig(shared: Endpoint) -> Iterator[Endpoint]:
    """The shared endpoint with its usual table; at the end nothing may be under way."""
    shared.tell()
    yield shared
    shared.tell()
    shared.await_calm()


@pytest.fixture
def own(engines: dict[str, Engine]) -> Iterator[Endpoint]:
    """A proxy of the test's own, to be ended or restarted."""
    with support_served.endpoint(engines) as made:
        yield made
