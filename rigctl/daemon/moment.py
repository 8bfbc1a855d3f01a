"""The clocks that energy is booked with."""

from __future__ import annotations

import datetime
import time

from rigctl.adapters import proc
from rigctl.core.energy import Moment


def moment_now() -> Moment:
    """This moment by all of them; the day is the host's local one."""
    local = datetime.datetime.now().astimezone()
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    return Moment(
        day=local.date().isoformat(),
        since_midnight=(local - midnight).total_seconds(),
        boottime=time.clock_gettime(time.CLOCK_BOOTTIME),
        boot=proc.boot_id(),
    )
