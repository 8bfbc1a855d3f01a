"""Cards that belong to other work for a while, and when that while is over."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rigctl.core.ids import ProcessIdentity, Wall


@dataclass(frozen=True, slots=True)
class Lease:
    """Kept on disk, so its times are wall times: a lease outlives the daemon and a reboot."""

    holder: str
    """Who or what the cards are for, as a person would say it."""
    since: Wall
    until: Wall | None = None
    holder_process: ProcessIdentity | None = None
    """The `rigctl lend` that asked; when it is gone the lease ends."""
    worker: ProcessIdentity | None = None
    """What `lend` runs on the cards."""
    kill_at_end: bool = False
    """`--kill`: at the end of the lease the worker, and only it, may be ended."""
    warned: bool = False
    """Whether *overdue* has been said; it is said once."""
    bring_back: bool = True
    """Whether the engine ran before and is wanted again afterwards."""


def overdue(lease: Lease, wall: Wall) -> bool:
    """Past its end, and nothing else: an overdue lease is warned about, never ended by force."""
    return lease.until is not None and wall >= lease.until


def warn(lease: Lease) -> Lease:
    """The same lease, its warning given."""
    return replace(lease, warned=True)
