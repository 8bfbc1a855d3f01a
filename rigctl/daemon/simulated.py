"""Whether this home is a simulated rig's: a daemon that an act starts there must know it too."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from rigctl.config.paths import Home
from rigctl.config.schema import ConfigError


@dataclass(frozen=True, slots=True)
class Simulated:
    """What `--simulated` and `--lifeline` said to the first daemon of this home."""

    cardfile: str
    """The file that the fake NVML reads."""
    lifeline: str
    """The world's socket, with whose end everything simulated ends; empty without one."""


def settle(home: Home, cardfile: str | None, lifeline: str | None) -> Simulated | None:
    """The simulated rig of this home, remembered from its first daemon; None for a real one.

    ConfigError where its demo has ended: on such a home there is nothing left to look after.
    """
    marker = home.state / "simulated.json"
    if cardfile is not None:
        simulated = Simulated(cardfile, lifeline or "")
        marker.write_text(json.dumps(asdict(simulated)), encoding="utf-8")
        return simulated
    remembered = _read(marker)
    if remembered is not None and remembered.lifeline and not os.path.exists(remembered.lifeline):
        raise ConfigError(
            f"{home.config.parent} is the folder of a demo that has ended; "
            "`rigctl demo` begins a new one"
        )
    return remembered


def worker_command(cardfile: str | None) -> tuple[str, ...]:
    """The process that reads the cards: NVML's, or the simulated rig's card file."""
    if cardfile is not None:
        return (sys.executable, "-m", "rigctl.sim.nvml_worker", cardfile)
    return (sys.executable, "-m", "rigctl.adapters.nvml_worker")


def _read(marker: Path) -> Simulated | None:
    try:
        return Simulated(**json.loads(marker.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"cannot be understood ({error}); remove it where this is a real rig", path=str(marker)
        ) from error
