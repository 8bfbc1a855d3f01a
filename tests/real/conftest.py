"""One rig with two real engines for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from real_rig import RealRig, real_rig
from support_sglang import Installed


@pytest.fixture(scope="session")
def shared_rig(real_sglang: Installed) -> Iterator[RealRig]:
    """Two real SGLang servers under one daemon, sleeping when idle."""
    with real_rig(real_sglang) as rig:
        yield rig


@pytest.fixture
def rig(shared_rig: RealRig) -> RealRig:
    """The shared rig, both engines ready again."""
    shared_rig.bring_up()
    return shared_rig
