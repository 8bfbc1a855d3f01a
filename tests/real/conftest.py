"""One rig with two engines of each kind for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support_needs import missing
from support_sglang import Installed
from two_engines import Engines, Real, Simulated, TwoEngines, two_engines


@pytest.fixture(
    scope="session", params=["simulated", pytest.param("real", marks=pytest.mark.sglang)]
)
def shared_rig(request: pytest.FixtureRequest) -> Iterator[TwoEngines]:
    """Two servers under one daemon, sleeping when idle: what holds on one kind holds on both."""
    engines: Engines = Simulated()
    if request.param == "real":
        why = missing("sglang")
        if why:
            pytest.skip(why)
        engines = Real(Installed(Path(os.environ["RIGCTL_REAL_SGLANG"])))
    with two_engines(engines) as rig:
        yield rig


@pytest.fixture
def rig(shared_rig: TwoEngines) -> TwoEngines:
    """The shared rig, both engines ready again."""
    shared_rig.bring_up()
    return shared_rig
