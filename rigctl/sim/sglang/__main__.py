"""`python -m rigctl.sim.sglang --model-path …`: takes SGLang's flags, behaves as SGLang does."""

from __future__ import annotations

import asyncio
import sys

from rigctl.sim.sglang.flags import parse
from rigctl.sim.sglang.identity import CannotStartError, identify
from rigctl.sim.sglang.lifecycle import Life, dead_before_loading
from rigctl.sim.sglang.logs import Log
from rigctl.sim.sglang.settings import read_settings


def main() -> int:
    argv = sys.argv[1:]
    args = parse(argv)
    log = Log(args.get("tp_size") or 1)
    settings = read_settings()
    try:
        identity = identify(args)
    except CannotStartError as refusal:
        dead_before_loading(log, str(refusal))
        return 1
    return asyncio.run(Life(identity, settings, log, argv).run())


if __name__ == "__main__":
    sys.exit(main())
