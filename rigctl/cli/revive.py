"""Starts the rig's daemon anew under an open panel, where it died and was not ended on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rigctl.config.paths import Home

WAIT_SECONDS = 20.0


def reviver(places: Home, command: Sequence[str] | None = None) -> Callable[[], str]:
    """What the panel calls after a loss; `command` is the daemon's where it is not the usual one.

    A daemon that ends takes its socket's file along, one that dies leaves it: what a person
    stopped stays stopped.
    """

    def revive() -> str:
        from rigctl.control.start import DaemonStartError, ensure_daemon

        if not places.socket.exists():
            return ""
        said: list[str] = []
        try:
            ensure_daemon(places, said.append, command, WAIT_SECONDS)
        except (DaemonStartError, OSError) as error:
            return f"the daemon died and could not be started anew: {error}"
        return f"the daemon had died: {said[0]}" if said else ""

    return revive
