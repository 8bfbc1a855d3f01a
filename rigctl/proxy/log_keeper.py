"""Keeps the logs short while there is no daemon to do it: answers go on for days without one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from rigctl.adapters.logfile import LogFiles
from rigctl.core.ids import Mono

log = logging.getLogger(__name__)

PAUSE = 10.0
"""Seconds between two looks."""


class LogKeeper:
    """Looks after every log in the folder, the engines' too: they run on as this process does."""

    def __init__(self, folder: Path, linked: Callable[[], bool]) -> None:
        """`linked`: whether there is a daemon, whose business it is then."""
        self.files = LogFiles(folder)
        self._linked = linked
        self._looked = Mono(0.0)
        self._said = ""

    def look(self, now: Mono) -> None:
        """Now and then; what is wrong is said once."""
        if self._linked() or now - self._looked < PAUSE:
            return
        self._looked = now
        fault = self.files.tidy()
        if fault and fault != self._said:
            log.warning("%s", fault)
        self._said = fault
