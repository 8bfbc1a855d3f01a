"""Plays the engine suite's life and writes tests/data/sglang_run: `python tests/engine/record.py`.

With RIGCTL_REAL_SGLANG=DIR a real engine is played too, recorded as `real.json` and `talk.json`;
without it only the list of differences is made again, from the recorded and a fresh simulated run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from engine_differences import report  # noqa: E402
from engine_kit import Kind, simulated_kind  # noqa: E402
from engine_play import play  # noqa: E402
from engine_talk import talk  # noqa: E402
from support_sglang import Installed  # noqa: E402

DATA = HERE.parent / "data/sglang_run"


def main() -> int:
    """Record; 1 where there is nothing to compare with."""
    recorded = DATA / "real.json"
    real_folder = os.environ.get("RIGCTL_REAL_SGLANG")
    with tempfile.TemporaryDirectory() as folder:
        if real_folder:
            installed = Installed(Path(real_folder))
            kind = Kind("real", installed, installed.model)
            spoken = talk(kind, Path(folder))
            (DATA / "talk.json").write_text(json.dumps(spoken, indent=1, sort_keys=True) + "\n")
            facts = play(kind, Path(folder), {})
            facts["version"] = installed.version
            recorded.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
        if not recorded.exists():
            print("no recorded run: set RIGCTL_REAL_SGLANG", file=sys.stderr)
            return 1
        real = json.loads(recorded.read_text())
        simulated = json.loads(json.dumps(play(simulated_kind(Path(folder)), Path(folder), {})))
    (DATA / "differences.md").write_text(report(real, simulated, real["version"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
