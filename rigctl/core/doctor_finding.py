"""What one check of doctor found."""

from __future__ import annotations

from dataclasses import dataclass

OK = "ok"
SKIPPED = "skipped"
WARNING = "warning"
FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's outcome."""

    id: str
    """Stable: scripts may look for it."""
    severity: str
    """ok, skipped, warning, failure."""
    say: str
    fix: str = ""
    """The command or step that mends it; empty where nothing is to be mended."""
