"""The NVML worker over simulated cards: `python -m rigctl.sim.nvml_worker CARDFILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from rigctl.adapters.nvml_worker import serve
from rigctl.sim.gpus import install


def main(arguments: list[str]) -> int:
    """Serve the cards in the one file named; 2 when none is."""
    if len(arguments) != 1:
        print("usage: python -m rigctl.sim.nvml_worker CARDFILE", file=sys.stderr)  # noqa: T201
        return 2
    fake = install(Path(arguments[0]))
    serve(lambda: (fake.table.driver, fake.table.library))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
