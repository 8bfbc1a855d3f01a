"""The simulated engine against one recorded run of the real one: the differences are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engine_differences import differences, report

DATA = Path(__file__).parent.parent / "data/sglang_run"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    """The recorded run."""
    return json.loads((DATA / "real.json").read_text())


def test_every_difference_is_listed(real: dict[str, Any], simulated_run: dict[str, Any]) -> None:
    """The list in tests/data is what a fresh comparison finds: no new difference goes unseen."""
    simulated = json.loads(json.dumps(simulated_run))
    fresh = report(real, simulated, real["version"])
    assert fresh == (DATA / "differences.md").read_text(), (
        "the simulated engine differs otherwise than listed: python tests/engine/record.py"
    )


def test_a_difference_would_be_found(real: dict[str, Any]) -> None:
    """A run compared with itself differs only by design; a changed word, order or key is told."""
    assert set(differences(real, real)) == {"By design"}
    changed = json.loads(json.dumps(real))
    changed["kill"]["course"].reverse()
    changed["refusals"]["too long"][2] = "something else"
    del changed["work"]["families"]["sglang:num_running_reqs"]
    assert set(differences(real, changed)) == {
        "By design",
        "Killed scheduler",
        "Refusals",
        "Metrics",
    }
