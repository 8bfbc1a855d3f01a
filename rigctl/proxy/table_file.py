"""The last routing table that a daemon wrote: what the proxy serves by until one is linked."""

from __future__ import annotations

import logging
from pathlib import Path

from rigctl.control import link_wire
from rigctl.control.wire import WireError
from rigctl.core.link_words import Table

log = logging.getLogger(__name__)


def read_table(path: Path) -> Table | None:
    """The table on disk; None where there is none that can be used."""
    try:
        raw = path.read_bytes()
        message = link_wire.decode_to_proxy(raw)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("%s cannot be read: %s", path, error.strerror)
        return None
    except WireError as error:
        log.warning("%s is not used: %s", path, error.say)
        return None
    return message if isinstance(message, Table) else None
