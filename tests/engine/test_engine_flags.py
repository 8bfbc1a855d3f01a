"""The simulated engine's flags are the real parser's: every one, with its kind and default."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support_sglang import Installed

import rigctl.sim.sglang.flags as flags

HERE = Path(__file__).parent


@pytest.mark.timeout(300)
def test_flags_are_the_real_ones(real_sglang: Installed) -> None:
    """A flag added, renamed or retyped by a new SGLang is seen here."""
    done = subprocess.run(
        [real_sglang.python, "-W", "ignore", str(HERE / "dump_flags.py")],
        env={**os.environ, **real_sglang.env},
        capture_output=True,
        text=True,
        check=True,
    )
    real = json.loads(done.stdout[done.stdout.index("[\n") :])
    ours = json.loads(Path(flags.__file__).with_name("flags.json").read_text())
    assert {row["dest"]: row for row in ours} == {row["dest"]: row for row in real}
