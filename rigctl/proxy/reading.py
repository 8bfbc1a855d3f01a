"""What this process remembers of the bodies it has read, so that a turn is read where it is new."""

from __future__ import annotations

import asyncio
import os

from rigctl.core.ask import Ask, Endpoint
from rigctl.core.link_words import TablePolicy
from rigctl.parse.asks import Headers, read_ask
from rigctl.parse.beginnings import Beginnings
from rigctl.parse.conversation import remember
from rigctl.parse.known import Known
from rigctl.parse.opened import Opened, open_body

LATER = 0.01
"""Seconds after a body has come at which it is remembered: the request is on its way by then."""


class Reading:
    """Opens bodies and reads what routing needs of them."""

    def __init__(self) -> None:
        # A seed that no client knows: none can make two texts that look alike here.
        seed = int.from_bytes(os.urandom(8), "little")
        self._known = Known(seed)
        self._beginnings = Beginnings(seed)

    def open(self, raw: bytes, policy: TablePolicy) -> Opened:
        """The body, decoded as far as it is new."""
        # The first characters, and the first message, are asked for by these two rules.
        whole = policy.normalize_prompt or policy.session_rule == "opening"
        opened = open_body(raw, None if whole else self._beginnings)
        if self._beginnings.takes(raw) and not whole and not opened.fault:
            loop = asyncio.get_running_loop()
            loop.call_later(LATER, remember, opened, self._known, self._beginnings)
        return opened

    def ask(self, endpoint: Endpoint, headers: Headers, opened: Opened, policy: TablePolicy) -> Ask:
        """What it asks for."""
        by_opening = policy.session_rule == "opening"
        return read_ask(endpoint, headers, opened, self._known, opening=by_opening)
